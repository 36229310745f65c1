// SPDX-License-Identifier: Apache-2.0
#include "calls.h"

#include <algorithm>
#include <climits>
#include <vector>

#include "types.h"

namespace ftcoll {
namespace {

// What MPI_Reduce_local combines by.
struct Local {
  MPI_Datatype type;
  MPI_Op op;
  MPI_Count extent;
};

void reduce_local(const void* ahead, void* behind, size_t count, void* context) {
  const Local& local = *static_cast<const Local*>(context);
  const char* from = static_cast<const char*>(ahead);
  char* to = static_cast<char*>(behind);
  while (count > 0) {
    const size_t some = std::min<size_t>(count, INT_MAX);
    // An error is the program's: an operation that is not defined for the type. The MPI's error
    // handler has been told.
    PMPI_Reduce_local(from, to, static_cast<int>(some), local.type, local.op);
    from += some * static_cast<size_t>(local.extent);
    to += some * static_cast<size_t>(local.extent);
    count -= some;
  }
}

ftc_ended* prepare(Mark& mark) {
  mark.ended = {};
  mark.ended.missing = mark.missing.data();
  mark.ended.room = mark.size;
  return &mark.ended;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return rank;
}

// Elements as they lie in memory, without what lies between their values.
int copy_values(const void* from, void* to, MPI_Count count, MPI_Datatype type, MPI_Count size) {
  std::vector<char> packed(static_cast<size_t>(count * size));
  const int error = pack(from, count, type, packed.data(), count * size);
  if (error != MPI_SUCCESS) return error;
  return unpack(packed.data(), count * size, to, count, type);
}

// A reduction of which the library knows the type and the operation, or has MPI_Reduce_local do it.
int run(const void* send, void* receive, MPI_Count count, const Layout& layout, Local& local,
        int root, Mark& mark) {
  const auto elements = static_cast<size_t>(count);
  ftc_ended* const ended = prepare(mark);
  ftc_type type;
  ftc_op op;
  if (own_type(local.type, type) && own_op(local.op, op)) {
    if (root < 0) return ftc_allreduce(mark.comm, send, receive, elements, type, op, ended);
    return ftc_reduce(mark.comm, send, receive, elements, type, op, root, ended);
  }
  int commutes = 0;
  PMPI_Op_commutative(local.op, &commutes);
  const auto element = static_cast<size_t>(std::max<MPI_Count>(layout.extent, 1));
  const ftc_user_op user = {reduce_local, &local, element, commutes};
  if (root < 0) return ftc_allreduce_user(mark.comm, send, receive, elements, &user, ended);
  return ftc_reduce_user(mark.comm, send, receive, elements, &user, root, ended);
}

}  // namespace

int barrier(MPI_Comm comm, Mark& mark) {
  return finish(comm, mark, ftc_barrier(mark.comm, prepare(mark)), "MPI_Barrier");
}

int bcast(void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm, Mark& mark) {
  const char* const kName = "MPI_Bcast";
  Layout layout;
  if (count < 0) return raise_error(comm, MPI_ERR_COUNT);
  if (root < 0 || root >= mark.size) return raise_error(comm, MPI_ERR_ROOT);
  int error = layout_of(type, layout);
  if (error != MPI_SUCCESS) return raise_error(comm, error);
  const auto bytes = static_cast<size_t>(count * layout.size);
  ftc_ended* const ended = prepare(mark);
  if (layout.is_plain) {
    return finish(comm, mark, ftc_bcast(mark.comm, buffer, bytes, FTC_UINT8, root, ended), kName);
  }
  std::vector<char> packed(bytes);
  const bool is_root = rank_in(comm) == root;
  if (is_root) error = pack(buffer, count, type, packed.data(), count * layout.size);
  if (error != MPI_SUCCESS) return raise_error(comm, error);
  const int code = ftc_bcast(mark.comm, packed.data(), bytes, FTC_UINT8, root, ended);
  if (code == FTC_OK && !is_root) {
    error = unpack(packed.data(), count * layout.size, buffer, count, type);
    if (error != MPI_SUCCESS) return raise_error(comm, error);
  }
  return finish(comm, mark, code, kName);
}

int reduce(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Op op,
           int root, MPI_Comm comm, Mark& mark) {
  const char* const kName = root < 0 ? "MPI_Allreduce" : "MPI_Reduce";
  Layout layout;
  if (count < 0) return raise_error(comm, MPI_ERR_COUNT);
  if (root >= mark.size) return raise_error(comm, MPI_ERR_ROOT);
  if (op == MPI_OP_NULL) return raise_error(comm, MPI_ERR_OP);
  int error = layout_of(type, layout);
  // Elements that overlap, or begin elsewhere than at the buffer's address.
  if (error == MPI_SUCCESS && !layout.is_apart) error = MPI_ERR_TYPE;
  if (error != MPI_SUCCESS) return raise_error(comm, error);
  if (layout.size == 0) count = 0;
  const bool receives = root < 0 || rank_in(comm) == root;
  const void* const own = send == MPI_IN_PLACE ? receive : send;
  Local local = {type, op, layout.extent};
  if (layout.is_plain) {
    return finish(comm, mark, run(own, receive, count, layout, local, root, mark), kName);
  }
  // The gaps of the program's buffers are its own: neither read nor written.
  std::vector<char> image(static_cast<size_t>(count * layout.extent));
  error = copy_values(own, image.data(), count, type, layout.size);
  if (error != MPI_SUCCESS) return raise_error(comm, error);
  const int code = run(image.data(), image.data(), count, layout, local, root, mark);
  if (code == FTC_OK && receives) {
    error = copy_values(image.data(), receive, count, type, layout.size);
    if (error != MPI_SUCCESS) return raise_error(comm, error);
  }
  return finish(comm, mark, code, kName);
}

}  // namespace ftcoll
