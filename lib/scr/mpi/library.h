// SPDX-License-Identifier: Apache-2.0
// The library in Rust (lib/scr/library/src/abi.rs), and what it needs of the MPI.
#ifndef FERMATA_SCR_LIBRARY_H
#define FERMATA_SCR_LIBRARY_H

#include <cstdint>

extern "C" {

// A communicator of all ranks. Each function returns 0, or an error of the MPI's. Lengths are in
// bytes; lengths[rank] and offsets[rank] say where in `all` a rank's are.
struct fscr_comm {
  int32_t rank, size;
  int (*min)(int64_t* value);
  int (*broadcast)(void* bytes, int length, int root);
  int (*gather)(const void* mine, void* all, const int* lengths, const int* offsets);
  int (*send)(const void* bytes, int length, int to);
  int (*receive)(void* bytes, int length, int from);
  int (*exchange)(const void* sent, int sent_length, int to, void* received, int received_length,
                  int from);
};

// 0: it is done; 1: it has failed, and the user has been told; kExit: the program is to end.
constexpr int kExit = 2;

int fscr_init(const fscr_comm* comm);
int fscr_finalize();
int fscr_config(const char* line, const char** value);
int fscr_route_file(const char* name, char* file);
int fscr_have_restart(int* flag, char* name);
int fscr_start_restart(char* name);
int fscr_complete_restart(int valid);
int fscr_need_checkpoint(int* flag);
int fscr_start_output(const char* name, int flags);
int fscr_complete_output(int valid);
int fscr_should_exit(int* flag);
int fscr_current(const char* name);
int fscr_drop(const char* name);
int fscr_delete(const char* name);
}
#endif
