// SPDX-License-Identifier: Apache-2.0
// The large-count forms (MPI_Gatherv_c) with arrays of counts and displacements: those that fit an
// int become arrays of int, and the call takes its plain form.
//
// Invariant: an array is read only where the standard lets this member's be anything else.
#pragma once

#include "mpi/objects/large_types.h"
#include "mpi/objects/ops.h"
#include "mpi/comms/persistent_collectives.h"

namespace fermata::mpi {

struct ArrayLengths {
  ArrayLengths(Slot* comm, Lengths lengths) { lengths(comm, &sends, &receives); }
  int sends = 0, receives = 0;
};

/// Copies `count` values. False if one does not fit.
inline bool narrow_into(int* to, const i64* from, i64 count) {
  bool fit = true;
  for (i64 i = 0; i < count; i++) {
    to[i] = int(from[i]);
    fit = fit && core::fits_int(from[i]);
  }
  return fit;
}

/// An array for the length of one call; null stays null, and where nothing is read nothing is.
class Narrow {
 public:
  Narrow(const i64* wide, i64 count, bool is_read = true)
      : given_(wide && is_read && core::fits_int(count) && count >= 0),
        values_(given_ ? count : 0),
        fits_(core::fits_int(count) && (!given_ || narrow_into(values_.data(), wide, count))) {}
  const int* data() { return given_ ? values_.data() : nullptr; }
  bool fits() const { return fits_; }

 private:
  const bool given_;
  Scratch<int> values_;
  const bool fits_;
};

/// Arrays that last as long as a request.
class KeptNarrow {
 public:
  KeptNarrow() = default;
  ~KeptNarrow() {
    if (!first_) return;
    const LowerScope scope;
    (void)kept_arrays_free(first_);
  }
  KeptNarrow(const KeptNarrow&) = delete;
  KeptNarrow& operator=(const KeptNarrow&) = delete;

  int* add(const i64* wide, i64 count, bool is_read = true) {
    if (!wide || !is_read) return nullptr;
    const LowerScope scope;
    KeptArray* const array =
        static_cast<KeptArray*>(arena_alloc(sizeof(KeptArray) + u64(count) * sizeof(int)));
    array->next = first_;
    first_ = marked(array);
    fits_ = fits_ && narrow_into(array->values, wide, count);
    return array->values;
  }
  bool fits() const { return fits_; }

  /// Gives the arrays to the request that a call has just made at `handle`, unless it failed.
  int last_as_long_as(Slot** handle, int error) {
    if (error || !first_) return error;
    const LowerScope scope;
    Request* const request = request_of(*handle);
    void** link = &request->kept_until_done;
    if (request->kind == RequestKind::kPersistentCollective)
      link = &static_cast<KeptCollective*>(*link)->arrays;
    KeptArray* last = unmarked(first_);
    while (last->next) last = unmarked(last->next);
    last->next = *link;
    *link = first_;
    request->owns = true;
    first_ = nullptr;
    return kSuccess;
  }

 private:
  void* first_ = nullptr;
  bool fits_ = true;
};

namespace core {

inline int Op_create_c(void* user_fn, int commute, Slot** handle) {
  const int error = Op_create(user_fn, commute, handle);
  if (!error) op_of(*handle)->counts_widely = true;
  return error;
}

/// A type of more elements than an int counts is told as it was made, every other one as if the
/// plain call had made it.
inline int Type_get_envelope_c(Slot* datatype, i64* ints, i64* aints, i64* counts, i64* types,
                               int* combiner) {
  const Type* const type = type_of(datatype);
  if (type && type->large) {
    *ints = *aints = 0;
    *counts = type->large->counts_count;
    *types = type->large->types_count;
    *combiner = type->large->combiner;
    return kSuccess;
  }
  int small_ints = 0, small_aints = 0, small_types = 0;
  const int error =
      Type_get_envelope(datatype, &small_ints, &small_aints, &small_types, combiner);
  *ints = small_ints;
  *aints = small_aints;
  *counts = 0;
  *types = small_types;
  return error;
}
inline int Type_get_contents_c(Slot* datatype, i64 max_ints, i64 max_aints, i64 max_counts,
                               i64 max_types, int* ints, i64* aints, i64* counts, Slot** types) {
  const Type* const type = type_of(datatype);
  if (type && type->large) {
    const LargeArguments& large = *type->large;
    if (max_counts < large.counts_count || max_types < large.types_count) return kErrArg;
    const LowerScope scope;
    for (i64 i = 0; i < large.counts_count; i++) counts[i] = large.counts[i];
    for (i32 i = 0; i < large.types_count; i++) {
      types[i] = large.types[i];
      type_hand_out(types[i]);
    }
    return kSuccess;
  }
  constexpr i64 kMost = 0x7fffffff;
  const auto bounded = [](i64 max) { return int(max < kMost ? max : kMost); };
  return Type_get_contents(datatype, bounded(max_ints), bounded(max_aints), bounded(max_types),
                           ints, aints, types);
}

}  // namespace core
}  // namespace fermata::mpi

#include "mpi/comms/narrow.gen.h"
