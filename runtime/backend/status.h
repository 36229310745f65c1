// SPDX-License-Identifier: Apache-2.0
// Statuses and error codes of one real MPI in canonical form. Included by shim.gen.h, after the
// tables of constants that it needs.
#pragma once

#include "backend/convert.h"

namespace fermata::backend {

/// A native error code's canonical class.
inline int failed(int code) {
  int error_class = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &error_class);
  return error_class_out(error_class);
}
inline int done(int code) { return FERMATA_LIKELY(code == MPI_SUCCESS) ? 0 : failed(code); }

/// The bytes a status counts, and whether it was cancelled. The fields' names are public in mpi.h.
template <typename Native>
void count_out(const Native& from, CanonStatus& to) {
  if constexpr (requires { from._ucount; }) {
    to.set_bytes(from._ucount);
    to.internal[2] = from._cancelled;
  } else if constexpr (requires { from.count_hi_and_cancelled; }) {
    to.set_bytes(u64(u32(from.count_lo)) | u64(u32(from.count_hi_and_cancelled) >> 1) << 32);
    to.internal[2] = from.count_hi_and_cancelled & 1;
  } else {
    MPI_Count bytes = 0;
    int cancelled = 0;
    MPI_Get_elements_x(const_cast<Native*>(&from), MPI_BYTE, &bytes);
    MPI_Test_cancelled(const_cast<Native*>(&from), &cancelled);
    to.set_bytes(u64(bytes));
    to.internal[2] = cancelled;
  }
}

inline void status_out(const MPI_Status& from, CanonStatus& to) {
  to.source = rank_out(from.MPI_SOURCE);
  to.tag = tag_out(from.MPI_TAG);
  to.error = FERMATA_LIKELY(from.MPI_ERROR == MPI_SUCCESS) ? 0 : failed(from.MPI_ERROR);
  count_out(from, to);
}

inline void status_in(const CanonStatus& from, MPI_Status& to) {
  memset(&to, 0, sizeof to);
  to.MPI_SOURCE = rank_in(from.source);
  to.MPI_TAG = tag_in(from.tag);
  to.MPI_ERROR = from.error == 0 ? MPI_SUCCESS : error_class_in(from.error);
  MPI_Status_set_elements_x(&to, MPI_BYTE, MPI_Count(from.bytes()));
  MPI_Status_set_cancelled(&to, from.internal[2]);
}

class OutStatus {
 public:
  explicit OutStatus(CanonStatus* out) : out_(out) {
    // Calls that return one status do not set MPI_ERROR (MPI 4.1, 3.2.5).
    if (out_) native_.MPI_ERROR = MPI_SUCCESS;
  }
  MPI_Status* data() { return out_ ? &native_ : MPI_STATUS_IGNORE; }
  /// Hands the status over, if the call has set it.
  void finish(int flag = 1) {
    if (out_ && flag) status_out(native_, *out_);
  }

 private:
  CanonStatus* out_;
  MPI_Status native_;
};

class InStatus {
 public:
  explicit InStatus(const CanonStatus* in) { status_in(*in, native_); }
  MPI_Status* data() { return &native_; }

 protected:
  MPI_Status native_;
};

class InoutStatus : public InStatus {
 public:
  explicit InoutStatus(CanonStatus* both) : InStatus(both), both_(both) {}
  void finish() { status_out(native_, *both_); }

 private:
  CanonStatus* both_;
};

/// Statuses of a call on many requests. All are handed over; which of them are meaningful, the
/// caller knows from the other results.
class StatusArray {
 public:
  StatusArray(CanonStatus* out, i64 count) : out_(out), count_(count), scratch_(out ? count : 0) {
    for (i64 i = 0; out && i < count; i++) {
      memset(&scratch_.data()[i], 0, sizeof(MPI_Status));
      scratch_.data()[i].MPI_ERROR = MPI_SUCCESS;
    }
  }
  ~StatusArray() {
    for (i64 i = 0; out_ && i < count_; i++) status_out(scratch_.data()[i], out_[i]);
  }
  MPI_Status* data() { return out_ ? scratch_.data() : MPI_STATUSES_IGNORE; }

 private:
  CanonStatus* out_;
  i64 count_;
  Scratch<MPI_Status> scratch_;
};

/// How many types an alltoallw call reads on one side.
inline i64 peers(RealComm real, bool sends, const void* send_buffer) {
  if (sends && reinterpret_cast<u64>(send_buffer) == abi::kInPlace) return 0;
  const MPI_Comm comm = native(real);
  int inter = 0, count = 0;
  MPI_Comm_test_inter(comm, &inter);
  if (inter) MPI_Comm_remote_size(comm, &count);
  else MPI_Comm_size(comm, &count);
  return count;
}

/// The same for neighbourhood calls: out-degree for sends, in-degree for receives.
inline i64 neighbours(RealComm real, bool sends, const void*) {
  const MPI_Comm comm = native(real);
  int topology = MPI_UNDEFINED, in = 0, out = 0, weighted = 0;
  MPI_Topo_test(comm, &topology);
  if (topology == MPI_DIST_GRAPH) {
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
  } else if (topology == MPI_CART) {
    MPI_Cartdim_get(comm, &in);
    in = out = 2 * in;
  } else if (topology == MPI_GRAPH) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Graph_neighbors_count(comm, rank, &in);
    out = in;
  }
  return sends ? out : in;
}

}  // namespace fermata::backend
