// SPDX-License-Identifier: Apache-2.0
// The MPI's names. What is not marked goes to the MPI as it came.
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "calls.h"

using ftcoll::Mark;
using ftcoll::mark_of;

namespace {

bool is_over = false;  // MPI_Finalize has returned without the MPI's own

// Marks what the environment says, after the MPI's beginning.
int begin(int error) {
  const char* const what = std::getenv("FTCOLL_MARK");
  if (error != MPI_SUCCESS || !what) return error;
  if (std::strcmp(what, "world") == 0) return ftc_mark(MPI_COMM_WORLD);
  std::fprintf(stderr, "ftcoll: FTCOLL_MARK=%s: only 'world' can be marked so\n", what);
  return error;
}

// Ends a process whose MPI_Finalize does not return. All have entered it together, so somebody has
// died since.
void* watch(void*) {
  const uint32_t limit = ftcoll::deadline_ms();
  const timespec time = {limit / 1000, static_cast<long>(limit % 1000) * 1'000'000};
  nanosleep(&time, nullptr);
  std::fprintf(stderr, "ftcoll: MPI_Finalize does not return: a process has died in it\n");
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace

extern "C" {

int MPI_Init(int* argc, char*** argv) { return begin(PMPI_Init(argc, argv)); }

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return begin(PMPI_Init_thread(argc, argv, required, provided));
}

// With dead processes the MPI's own would wait for them. The process comes to its end without
// it; what it has open of the MPI ends with it.
int MPI_Finalize() {
  const bool is_together = ftcoll::spans_world();
  if (ftcoll::leave_all()) {
    is_over = true;
    return MPI_SUCCESS;
  }
  pthread_t watcher;
  if (is_together && pthread_create(&watcher, nullptr, watch, nullptr) == 0) {
    const int error = PMPI_Finalize();
    pthread_cancel(watcher);
    pthread_join(watcher, nullptr);
    return error;
  }
  return PMPI_Finalize();
}

int MPI_Finalized(int* flag) {
  if (!is_over) return PMPI_Finalized(flag);
  *flag = 1;
  return MPI_SUCCESS;
}

int MPI_Comm_set_info(MPI_Comm comm, MPI_Info info) {
  const int error = PMPI_Comm_set_info(comm, info);
  char value[8] = {};
  int is_there = 0;
  if (error != MPI_SUCCESS || info == MPI_INFO_NULL) return error;
  PMPI_Info_get(info, "ftcoll", sizeof value - 1, value, &is_there);
  return is_there && std::strcmp(value, "true") == 0 ? ftc_mark(comm) : error;
}

int MPI_Barrier(MPI_Comm comm) {
  Mark* const mark = mark_of(comm);
  return mark ? ftcoll::barrier(comm, *mark) : PMPI_Barrier(comm);
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  Mark* const mark = mark_of(comm);
  return mark ? ftcoll::bcast(buffer, count, type, root, comm, *mark)
              : PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Reduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
  Mark* const mark = mark_of(comm);
  if (!mark) return PMPI_Reduce(send, receive, count, type, op, root, comm);
  if (root < 0) return ftcoll::raise_error(comm, MPI_ERR_ROOT);
  return ftcoll::reduce(send, receive, count, type, op, root, comm, *mark);
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  Mark* const mark = mark_of(comm);
  return mark ? ftcoll::reduce(send, receive, count, type, op, -1, comm, *mark)
              : PMPI_Allreduce(send, receive, count, type, op, comm);
}

#if MPI_VERSION >= 4
int MPI_Bcast_c(void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  Mark* const mark = mark_of(comm);
  return mark ? ftcoll::bcast(buffer, count, type, root, comm, *mark)
              : PMPI_Bcast_c(buffer, count, type, root, comm);
}

int MPI_Reduce_c(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Op op,
                 int root, MPI_Comm comm) {
  Mark* const mark = mark_of(comm);
  if (!mark) return PMPI_Reduce_c(send, receive, count, type, op, root, comm);
  if (root < 0) return ftcoll::raise_error(comm, MPI_ERR_ROOT);
  return ftcoll::reduce(send, receive, count, type, op, root, comm, *mark);
}

int MPI_Allreduce_c(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm) {
  Mark* const mark = mark_of(comm);
  return mark ? ftcoll::reduce(send, receive, count, type, op, -1, comm, *mark)
              : PMPI_Allreduce_c(send, receive, count, type, op, comm);
}
#endif

}  // extern "C"
