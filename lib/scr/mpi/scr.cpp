// SPDX-License-Identifier: Apache-2.0
// The names of scr.h for one MPI: its communicator for the library, and the library's calls for the
// program.
#include <mpi.h>
#include <scr.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "library.h"

namespace {

// A duplicate of MPI_COMM_WORLD, whose errors are returned: none of the program's messages are in
// it, and none of ours in its.
MPI_Comm all_ranks = MPI_COMM_NULL;
constexpr int kTag = 1;

int min(int64_t* value) {
  return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, all_ranks);
}

int broadcast(void* bytes, int length, int root) {
  return MPI_Bcast(bytes, length, MPI_BYTE, root, all_ranks);
}

int gather(const void* mine, void* all, const int* lengths, const int* offsets) {
  int rank = 0;
  if (const int error = MPI_Comm_rank(all_ranks, &rank)) return error;
  return MPI_Allgatherv(mine, lengths[rank], MPI_BYTE, all, lengths, offsets, MPI_BYTE, all_ranks);
}

int send(const void* bytes, int length, int to) {
  return MPI_Send(bytes, length, MPI_BYTE, to, kTag, all_ranks);
}

int receive(void* bytes, int length, int from) {
  return MPI_Recv(bytes, length, MPI_BYTE, from, kTag, all_ranks, MPI_STATUS_IGNORE);
}

int exchange(const void* sent, int sent_length, int to, void* received, int received_length,
             int from) {
  return MPI_Sendrecv(sent, sent_length, MPI_BYTE, to, kTag, received, received_length, MPI_BYTE,
                      from, kTag, all_ranks, MPI_STATUS_IGNORE);
}

// Between MPI_Init and MPI_Finalize.
bool has_mpi() {
  int has_begun = 0, is_over = 0;
  MPI_Initialized(&has_begun);
  MPI_Finalized(&is_over);
  return has_begun && !is_over;
}

void leave() {
  if (all_ranks != MPI_COMM_NULL) MPI_Comm_free(&all_ranks);
}

// SCR_HALT_EXIT: the library ends the program, by the user's wish.
int end_or(int code) {
  if (code != kExit) return code;
  leave();
  MPI_Finalize();
  std::exit(0);
}

char* configure(const char* line) {
  const char* value = nullptr;
  return fscr_config(line, &value) == SCR_SUCCESS && value ? strdup(value) : nullptr;
}

// After a failure, which all have together as a rule: what the first one says has left it before
// another one ends the program. Who has failed alone is back after a second.
bool all_have_failed() {
  MPI_Request all = MPI_REQUEST_NULL;
  int are_here = MPI_Ibarrier(all_ranks, &all) != MPI_SUCCESS;
  for (int i = 0; i < 1000 && !are_here; ++i) {
    if (MPI_Test(&all, &are_here, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (!are_here) usleep(1000);
  }
  return are_here;
}

}  // namespace

extern "C" {

int SCR_Init() {
  if (!has_mpi()) {
    std::fputs("scr: SCR_Init: it is called between MPI_Init and MPI_Finalize\n", stderr);
    return SCR_FAILURE;
  }
  const bool is_first_call = all_ranks == MPI_COMM_NULL;
  if (is_first_call && (MPI_Comm_dup(MPI_COMM_WORLD, &all_ranks) != MPI_SUCCESS ||
                        MPI_Comm_set_errhandler(all_ranks, MPI_ERRORS_RETURN) != MPI_SUCCESS)) {
    return SCR_FAILURE;
  }
  fscr_comm comm = {0, 1, min, broadcast, gather, send, receive, exchange};
  MPI_Comm_rank(all_ranks, &comm.rank);
  MPI_Comm_size(all_ranks, &comm.size);
  const int code = fscr_init(&comm);
  if (code == SCR_FAILURE && is_first_call && all_have_failed()) leave();
  return end_or(code);
}

int SCR_Finalize() {
  const int code = fscr_finalize();
  if (code == SCR_SUCCESS) leave();
  return code;
}

const char* SCR_Config(const char* config) { return configure(config); }

const char* SCR_Configf(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  char* line = nullptr;
  const int length = vasprintf(&line, format, arguments);
  va_end(arguments);
  if (length < 0) return nullptr;
  char* const value = configure(line);
  std::free(line);
  return value;
}

int SCR_Route_file(const char* name, char* file) { return fscr_route_file(name, file); }
int SCR_Have_restart(int* flag, char* name) { return fscr_have_restart(flag, name); }
int SCR_Start_restart(char* name) { return fscr_start_restart(name); }
int SCR_Complete_restart(int valid) { return fscr_complete_restart(valid); }
int SCR_Need_checkpoint(int* flag) { return fscr_need_checkpoint(flag); }
int SCR_Start_output(const char* name, int flags) { return fscr_start_output(name, flags); }
int SCR_Complete_output(int valid) { return end_or(fscr_complete_output(valid)); }
int SCR_Start_checkpoint() { return fscr_start_output(nullptr, SCR_FLAG_CHECKPOINT); }
int SCR_Complete_checkpoint(int valid) { return SCR_Complete_output(valid); }
int SCR_Should_exit(int* flag) { return fscr_should_exit(flag); }
int SCR_Current(const char* name) { return fscr_current(name); }
int SCR_Drop(const char* name) { return fscr_drop(name); }
int SCR_Delete(const char* name) { return fscr_delete(name); }

char* SCR_Get_version() {
  static char version[] = SCR_VERSION " (fermata)";
  return version;
}

}  // extern "C"
