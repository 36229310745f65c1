// SPDX-License-Identifier: Apache-2.0
// Fortran's arguments in terms of the C functions, for our libmpi_mpifh.so.40.
//
// Everything comes by reference; the lengths of CHARACTER arguments follow the last argument, by
// value. A handle is an INTEGER: small fixed numbers for predefined objects, the slot's index for
// the others. LOGICALs, constants, statuses and addresses are the same bytes as in C. MPI_BOTTOM
// and its like are recognised by their address.
//
// The library is part of the application: it uses the front end's C functions and nothing else of
// ours, and is saved and restored with the application's memory.
#pragma once

#include <string.h>

#include "mpi/handles/scratch.h"
#include "mpi/handles/slots.h"

#define FERMATA_EXPORT __attribute__((visibility("default")))

// One function under all its names: what compilers make of MPI_X and PMPI_X, and what Open MPI's
// module libraries (libmpi_usempif08.so.40) call.
#define FERMATA_ALIAS(name, target) \
  FERMATA_EXPORT __typeof__(target) name __attribute__((weak, alias(#target)));
#define FERMATA_ALIASES(prefix, PREFIX, lower, upper, target) \
  FERMATA_ALIAS(prefix##_##lower##_, target)                  \
  FERMATA_ALIAS(prefix##_##lower##__, target)                 \
  FERMATA_ALIAS(prefix##_##lower, target)                     \
  FERMATA_ALIAS(PREFIX##_##upper, target)
#define FERMATA_FORTRAN_VALUE(Value, lower, upper, params)    \
  extern "C" {                                                \
  FERMATA_EXPORT Value ompi_##lower##_f params;               \
  FERMATA_ALIASES(mpi, MPI, lower, upper, ompi_##lower##_f)   \
  FERMATA_ALIASES(pmpi, PMPI, lower, upper, ompi_##lower##_f) \
  }                                                           \
  Value ompi_##lower##_f params
#define FERMATA_FORTRAN(lower, upper, params) FERMATA_FORTRAN_VALUE(void, lower, upper, params)

// What Open MPI 4 exports as MPIX_X already, and later as MPI_X.
#define FERMATA_FORTRAN_EXTENSION(lower, upper)                 \
  extern "C" {                                                  \
  FERMATA_ALIAS(ompix_##lower##_f, ompi_##lower##_f)            \
  FERMATA_ALIASES(mpix, MPIX, lower, upper, ompi_##lower##_f)   \
  FERMATA_ALIASES(pmpix, PMPIX, lower, upper, ompi_##lower##_f) \
  }

extern "C" {
extern int mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_unweighted_,
    mpi_fortran_weights_empty_;
extern long mpi_fortran_status_ignore_, mpi_fortran_statuses_ignore_;

// Of the front end beside MPI's functions, see ompi/fortran.h.
int fermata_attribute_set(fermata::mpi::Kind kind, fermata::mpi::Slot* object, int keyval,
                          fermata::i64 value, const char* function);
int fermata_attribute_get(fermata::mpi::Kind kind, fermata::mpi::Slot* object, int keyval,
                          fermata::i64* value, int* flag, const char* function);
int fermata_unsupported(const char* function);
}

namespace fermata::fortran {

using mpi::Kind;
using mpi::Slot;
template <Kind kind>
using Handle = mpi::SlotOf<kind>*;

inline constexpr int kUndefined = -32766;
inline constexpr int kNumbers = 0x80;  // more than Open MPI has predefined objects of one kind

// Filled by the library's constructor (handles.cpp). Numbers nobody has name the null handle.
extern Slot* g_predefined[mpi::kKindCount][kNumbers];
extern int g_number[mpi::kFirstDynamic / 4];  // by canonical number, which is unique over kinds

template <Kind kind>
inline Handle<kind> handle(int number) {
  if (FERMATA_LIKELY(number >= int(mpi::kFirstDynamic))) return mpi::slot_at<kind>(u32(number));
  return mpi::slot_as<kind>(
      g_predefined[kind][u32(number) < u32(kNumbers) ? number : kNumbers - 1]);
}

inline int number_of(const Slot* slot) {
  if (FERMATA_LIKELY(slot->index >= mpi::kFirstDynamic)) return int(slot->index);
  return g_number[slot->index & (mpi::kFirstDynamic / 4 - 1)];
}

inline void finish(int* ierror, int error) {
  if (ierror != nullptr) *ierror = error;
}

inline void* buffer_arg(const void* address) {
  if (address == &mpi_fortran_bottom_) return nullptr;
  if (address == &mpi_fortran_in_place_) return reinterpret_cast<void*>(1);
  return const_cast<void*>(address);
}

inline int* status_arg(int* address) {
  const void* const asked = address;
  const bool ignored =
      asked == &mpi_fortran_status_ignore_ || asked == &mpi_fortran_statuses_ignore_;
  return ignored ? nullptr : address;
}

inline int* weights_arg(int* address) {
  if (address == &mpi_fortran_unweighted_) return reinterpret_cast<int*>(2);
  if (address == &mpi_fortran_weights_empty_) return reinterpret_cast<int*>(3);
  return address;
}

// Indices of arrays count from 1.
inline void one_based(int* indices, int count) {
  for (int i = 0; i < count; i++) {
    if (indices[i] != kUndefined) indices[i]++;
  }
}

/// An array of handles that the call reads and perhaps changes.
template <Kind kind>
class Handles {
 public:
  Handles(int* numbers, i64 count) : numbers_(numbers), count_(count), slots_(count) {
    for (i64 i = 0; i < count; i++) slots_[i] = handle<kind>(numbers[i]);
  }
  Handle<kind>* data() { return slots_.data(); }
  void finish() {
    for (i64 i = 0; i < count_; i++) numbers_[i] = number_of(slots_[i]);
  }

 private:
  int* numbers_;
  i64 count_;
  Scratch<Handle<kind>> slots_;
};

/// An array of handles that the call fills, at least in part.
template <Kind kind>
class HandlesOut {
 public:
  HandlesOut(int* numbers, i64 count) : numbers_(numbers), count_(count), slots_(count) {
    for (i64 i = 0; i < count; i++) slots_[i] = nullptr;
  }
  Handle<kind>* data() { return slots_.data(); }
  void finish() {
    for (i64 i = 0; i < count_; i++) {
      if (slots_[i] != nullptr) numbers_[i] = number_of(slots_[i]);
    }
  }

 private:
  int* numbers_;
  i64 count_;
  Scratch<Handle<kind>> slots_;
};

/// A CHARACTER argument as a C string: without the blanks around it.
class Text {
 public:
  Text(const char* text, int length) : copy_(length + 1) {
    while (length > 0 && text[length - 1] == ' ') length--;
    while (length > 0 && *text == ' ') text++, length--;
    memcpy(copy_.data(), text, u64(length));
    copy_[length] = 0;
  }
  const char* data() { return copy_.data(); }

 private:
  Scratch<char, 256> copy_;
};

/// A CHARACTER argument that the call sets: what does not fit is cut, what is missing is blank.
class TextOut {
 public:
  TextOut(char* text, int length, int capacity) : text_(text), length_(length), c_(capacity + 1) {
    c_[0] = 0;
  }
  char* data() { return c_.data(); }
  void finish() {
    const i64 used = i64(strnlen(c_.data(), u64(length_)));
    memcpy(text_, c_.data(), u64(used));
    memset(text_ + used, ' ', u64(length_ - used));
  }

 private:
  char* text_;
  i64 length_;
  Scratch<char, 1100> c_;
};

/// How many types the arrays of an Alltoallw have: one per peer, or per neighbour.
int peers(mpi::CommSlot* comm);
int neighbours(mpi::CommSlot* comm, bool sends);

}  // namespace fermata::fortran
