// SPDX-License-Identifier: Apache-2.0
// Fortran's share of libmpi.so.40: what Open MPI keeps there rather than in its Fortran libraries,
// and how callbacks of Fortran programs are called.
//
// The Fortran functions themselves are in bindings/fortran/; they mark a callback as Fortran's by a
// bit of its address (calls.h) and go through the C functions like any application.
#pragma once

#include "frontend/calls.h"

// Fortran programs name MPI_BOTTOM and its like by the addresses of common blocks. A program has
// its own copies, and all libraries see those: never compare with anything but the symbol itself.
extern "C" {
FERMATA_EXPORT int mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_unweighted_,
    mpi_fortran_weights_empty_, mpi_fortran_errcodes_ignore_;
FERMATA_EXPORT long mpi_fortran_status_ignore_, mpi_fortran_statuses_ignore_;
FERMATA_EXPORT char mpi_fortran_argv_null_, mpi_fortran_argvs_null_;
FERMATA_EXPORT void* MPI_F_STATUS_IGNORE = &mpi_fortran_status_ignore_;
FERMATA_EXPORT void* MPI_F_STATUSES_IGNORE = &mpi_fortran_statuses_ignore_;
}

namespace fermata::front {

inline int integer_of(Kind kind, Slot* object) {
  switch (kind) {
    case mpi::kComm:
      return to_integer<mpi::kComm>(handle_out<mpi::kComm>(mpi::slot_as<mpi::kComm>(object)));
    case mpi::kDatatype:
      return to_integer<mpi::kDatatype>(
          handle_out<mpi::kDatatype>(mpi::slot_as<mpi::kDatatype>(object)));
    default: return to_integer<mpi::kWin>(handle_out<mpi::kWin>(mpi::slot_as<mpi::kWin>(object)));
  }
}

// Attributes have the size Integer: that of an address, or in MPI-1's functions of an INTEGER.
template <class Integer>
inline int fortran_copy_attr(void* fn, int object, int keyval, i64 extra_word, i64 word, i64* copy,
                             int* flag) {
  using Copy = void (*)(int*, int*, Integer*, Integer*, Integer*, int*, int*);
  Integer extra = Integer(extra_word), in = Integer(word), out = 0;
  int error = 0;
  function_of<Copy>(fn)(&object, &keyval, &extra, &in, &out, flag, &error);
  *copy = out;
  return error;
}

template <class Integer>
inline int fortran_delete_attr(void* fn, int object, int keyval, i64 word, i64 extra_word) {
  using Delete = void (*)(int*, int*, Integer*, Integer*, int*);
  Integer value = Integer(word), extra = Integer(extra_word);
  int error = 0;
  function_of<Delete>(fn)(&object, &keyval, &value, &extra, &error);
  return error;
}

inline i64 word_of(const void* pointer) { return reinterpret_cast<i64>(pointer); }

inline int foreign_copy_attr(Kind kind, void* fn, Slot* object, int keyval, void* extra,
                             mpi::AttributeValue& in, mpi::AttributeValue* out, int* flag) {
  const int handle = integer_of(kind, object);
  const auto copy = language_of(fn) == kFortran77Function ? fortran_copy_attr<int>
                                                          : fortran_copy_attr<i64>;
  i64 made = 0;
  const int error = copy(fn, handle, keyval, word_of(extra), word_of(in.word), &made, flag);
  *out = {reinterpret_cast<void*>(made), 1};
  return error;
}

inline int foreign_delete_attr(Kind kind, void* fn, Slot* object, int keyval,
                               mpi::AttributeValue& value, void* extra) {
  const int handle = integer_of(kind, object);
  const auto remove = language_of(fn) == kFortran77Function ? fortran_delete_attr<int>
                                                            : fortran_delete_attr<i64>;
  return remove(fn, handle, keyval, word_of(value.word), word_of(extra));
}

// What bindings/fortran/ needs beside MPI's own functions.
extern "C" FERMATA_EXPORT int fermata_attribute_set(Kind kind, Slot* object, int keyval, i64 value,
                                                    const char* function) {
  const int error = mpi::attribute_set_integer(kind, object, keyval_in(keyval),
                                               {reinterpret_cast<void*>(value), 1});
  return error == 0 ? 0 : core::raise(object, error, function);
}
extern "C" FERMATA_EXPORT int fermata_attribute_get(Kind kind, Slot* object, int keyval,
                                                    i64* value, int* flag, const char* function) {
  const int error = mpi::attribute_get_integer(kind, object, keyval_in(keyval), value, flag);
  return error == 0 ? 0 : core::raise(object, error, function);
}
extern "C" FERMATA_EXPORT int fermata_unsupported(const char* function) {
  return core::raise(nullptr, abi::kErrUnsupportedOperation, function);
}

// A Fortran function under every name that compilers give it, and the one Open MPI's own Fortran
// libraries use.
#define FERMATA_FORTRAN_NAMES(lower, upper, params)                                     \
  extern "C" FERMATA_EXPORT void MPI_##upper params                                     \
      __attribute__((weak, alias("ompi_" #lower "_f")));                                \
  extern "C" FERMATA_EXPORT void mpi_##lower params                                     \
      __attribute__((weak, alias("ompi_" #lower "_f")));                                \
  extern "C" FERMATA_EXPORT void mpi_##lower##_ params                                  \
      __attribute__((weak, alias("ompi_" #lower "_f")));                                \
  extern "C" FERMATA_EXPORT void mpi_##lower##__ params                                 \
      __attribute__((weak, alias("ompi_" #lower "_f")));                                \
  extern "C" FERMATA_EXPORT void ompi_##lower##_f params

// MPI_COMM_DUP_FN and its like. `Value` is an attribute's type: an INTEGER in MPI-1's three.
#define FERMATA_FORTRAN_ATTRIBUTE_FUNCTIONS(lower, upper, Value)                         \
  FERMATA_FORTRAN_NAMES(lower##dup_fn, upper##DUP_FN,                                    \
                        (int*, int*, Value*, Value* in, Value* out, int* flag, int* error)) { \
    *out = *in;                                                                          \
    *flag = 1;                                                                           \
    *error = 0;                                                                          \
  }                                                                                      \
  FERMATA_FORTRAN_NAMES(lower##null_copy_fn, upper##NULL_COPY_FN,                        \
                        (int*, int*, Value*, Value*, Value*, int* flag, int* error)) {   \
    *flag = 0;                                                                           \
    *error = 0;                                                                          \
  }                                                                                      \
  FERMATA_FORTRAN_NAMES(lower##null_delete_fn, upper##NULL_DELETE_FN,                    \
                        (int*, int*, Value*, Value*, int* error)) {                      \
    *error = 0;                                                                          \
  }

FERMATA_FORTRAN_ATTRIBUTE_FUNCTIONS(, , int)
FERMATA_FORTRAN_ATTRIBUTE_FUNCTIONS(comm_, COMM_, i64)
FERMATA_FORTRAN_ATTRIBUTE_FUNCTIONS(type_, TYPE_, i64)
FERMATA_FORTRAN_ATTRIBUTE_FUNCTIONS(win_, WIN_, i64)

// The functions of module mpi that have a value.
#define FERMATA_FORTRAN_VALUE(lower, upper, Value, params, value)                          \
  extern "C" FERMATA_EXPORT Value mpi_##lower##_f90 params { return value; }               \
  extern "C" FERMATA_EXPORT Value mpi_##lower##_f90_ params                                \
      __attribute__((weak, alias("mpi_" #lower "_f90")));                                  \
  extern "C" FERMATA_EXPORT Value mpi_##lower##_f90__ params                               \
      __attribute__((weak, alias("mpi_" #lower "_f90")));                                  \
  extern "C" FERMATA_EXPORT Value MPI_##upper##_F90 params                                 \
      __attribute__((weak, alias("mpi_" #lower "_f90")));

FERMATA_FORTRAN_VALUE(wtime, WTIME, double, (), core::Wtime())
FERMATA_FORTRAN_VALUE(wtick, WTICK, double, (), core::Wtick())
FERMATA_FORTRAN_VALUE(aint_add, AINT_ADD, i64, (const i64* base, const i64* disp), *base + *disp)
FERMATA_FORTRAN_VALUE(aint_diff, AINT_DIFF, i64, (const i64* a, const i64* b), *a - *b)

// No program calls it: it stands for "the external format is the internal one".
FERMATA_FORTRAN_NAMES(conversion_fn_null, CONVERSION_FN_NULL, (void)) {}

}  // namespace fermata::front
