// SPDX-License-Identifier: Apache-2.0
// One row of the table of families: a piece of a program that is run `n` times on both ranks.
#pragma once

#include <mpi.h>
#include <string.h>

enum { kMaxRequests = 512, kBufferBytes = 1 << 20 };

struct Case {
  const char *family;
  const char *name;
  void (*run)(int n, int argument);
  int argument;
  double divisor;  // what one round counts as: so many requests, messages or calls
};

// The cases of one source. Each ends with an entry that has no name.
extern const struct Case request_cases[], message_cases[], object_cases[], local_cases[],
    collective_cases[], file_cases[], window_cases[], thread_cases[];

extern int rank, peer;
extern char sending[kBufferBytes], receiving[kBufferBytes];
extern double numbers[kBufferBytes / 8], results[kBufferBytes / 8];
extern MPI_Datatype vector_type, struct_type, indexed_type;  // committed
extern MPI_Request requests[kMaxRequests];
extern MPI_Status statuses[kMaxRequests], status;

// What a source needs beside that, made before its cases and ended behind them. Collective.
void begin_collectives(void);
void end_collectives(void);
void begin_files(const char *path);
void end_files(void);
void begin_windows(void);
void end_windows(void);
