/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fermata.h: for applications that say when and how they are saved. Nobody has to use it:
 * Fermata saves programs that have never heard of it.
 *
 * There is nothing to link against and nothing to initialise. A program built with this header runs
 * with and without Fermata: natively every function does nothing and returns FERMATA_ABSENT. Under
 * Fermata the program finds a table of functions by an entry of the auxiliary vector
 * (getauxval(3)), which costs no system call. C89 and later, C++; for Fortran there is the module
 * in fermata.f90.
 *
 * All functions are local to the rank but fermata_checkpoint, which is collective over all ranks.
 * None may be called from a signal handler, nor in a child made by fork(2).
 */
#ifndef FERMATA_H
#define FERMATA_H

#include <stddef.h>
#include <sys/auxv.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions return. Those that have nothing to tell return 0. */
enum {
  FERMATA_COMMITTED = 0,  /* the snapshot is on disk, and this is the process that asked for it */
  FERMATA_RESTARTED = 1,  /* this is the process that was restarted from that snapshot */
  FERMATA_ABSENT = -1,    /* not a rank of MPI under Fermata */
  FERMATA_FAILED = -2,    /* no snapshot; the job continues. The message says why. */
  FERMATA_MISUSE = -3     /* no such section, region or callback; or no room for another */
};

/* When a callback is called; see fermata_callback. */
enum { FERMATA_BEFORE = 0, FERMATA_CONTINUE = 1, FERMATA_RESTART = 2 };

/* Where a callback is called. */
enum { FERMATA_ON_MAIN_THREAD = 0, FERMATA_ON_OWN_THREAD = 1 };

typedef void (*fermata_function)(int when, void *argument);
typedef int (*fermata_saver)(const char *directory, void *argument);

/* The table; it only grows, and `bytes` says how far. Not for programs: use the functions below. */
struct fermata_table {
  unsigned abi; /* 1; 0: the program is not a rank */
  unsigned bytes;
  char version[16];
  int (*critical_begin)(const char *name);
  int (*critical_end)(void);
  int (*checkpoint)(char *message, size_t bytes);
  int (*request)(void);
  int (*callback)(int where, fermata_function function, void *argument);
  int (*no_callback)(int where, fermata_function function, void *argument);
  int (*exclude)(void *address, size_t bytes);
  int (*include)(void *address, size_t bytes);
  int (*self_save)(fermata_saver function, void *argument);
  const char *(*self_state)(void);
};

#define FERMATA_AUXV 0x4645524dUL

static __inline__ const struct fermata_table *fermata_find(void) {
  const struct fermata_table *const table =
      (const struct fermata_table *)(size_t)getauxval(FERMATA_AUXV);
  return table && table->abi == 1 && table->bytes >= sizeof *table ? table : NULL;
}

/* The version of Fermata ("0.1.0") that this rank runs under; NULL if under none. */
static __inline__ const char *fermata_version(void) {
  const struct fermata_table *const table = fermata_find();
  return table ? table->version : NULL;
}

/*
 * Begins a section during which no checkpoint of this rank happens, and so none of the job. It
 * holds for the whole rank: whichever thread begins it, it lasts until as many calls of
 * fermata_critical_end as there were of fermata_critical_begin, on any threads. Sections nest. A
 * checkpoint that is asked for meanwhile waits; if its deadline passes it fails, the job continues,
 * and the message names the rank and `name` (may be NULL), that of the outermost section. If a
 * checkpoint has already stopped this rank the call waits until that is over. Keep sections short,
 * and receive nothing in them from ranks that are not in one as well: those may have stopped
 * already, and the attempt is then given up and tried again.
 */
static __inline__ int fermata_critical_begin(const char *name) {
  const struct fermata_table *const table = fermata_find();
  return table ? table->critical_begin(name) : FERMATA_ABSENT;
}
/* FERMATA_MISUSE: no section has been begun. */
static __inline__ int fermata_critical_end(void) {
  const struct fermata_table *const table = fermata_find();
  return table ? table->critical_end() : FERMATA_ABSENT;
}

/*
 * Takes a checkpoint now and waits until it has been committed or has failed. Collective: every
 * rank of the job calls it, one thread of each that may call MPI, between MPI_Init and MPI_Finalize
 * and outside critical sections. All ranks get the same result: FERMATA_COMMITTED, FERMATA_FAILED,
 * or, when the job is restarted from this snapshot, FERMATA_RESTARTED. The snapshot holds every
 * rank inside this call. Ranks that do not call it within a minute of the first fail it, by name.
 * message: room for one line that says why it failed, or where the snapshot is; bytes: its
 * size.
 */
static __inline__ int fermata_checkpoint(char *message, size_t bytes) {
  const struct fermata_table *const table = fermata_find();
  if (table) return table->checkpoint(message, bytes);
  if (message && bytes) message[0] = 0;
  return FERMATA_ABSENT;
}

/*
 * Asks for a checkpoint soon and returns at once, with 0; FERMATA_FAILED before MPI_Init, after
 * MPI_Finalize, in a callback, or if the coordinator cannot be reached. Local: one rank suffices,
 * and what others ask for before it has begun is the same checkpoint. Its outcome is in the log of
 * the coordinator.
 */
static __inline__ int fermata_request(void) {
  const struct fermata_table *const table = fermata_find();
  return table ? table->request() : FERMATA_ABSENT;
}

/*
 * Has `function` called around every checkpoint of this rank:
 *   FERMATA_BEFORE    before the rank stops; the checkpoint waits until it returns
 *   FERMATA_CONTINUE  after it, in the process that continues, whatever became of the snapshot
 *   FERMATA_RESTART   after it, in a restarted process, when all MPI objects exist again
 * Each BEFORE is followed by one CONTINUE or one RESTART. An attempt that is tried again is a
 * checkpoint of its own. Callbacks are called in the order of their registration before, and in the
 * opposite order after a checkpoint.
 *
 * FERMATA_ON_MAIN_THREAD: on the main thread, while it is in an MPI function or in one of these,
 * and there only: the checkpoint waits until it gets there. The callback may do what the program
 * may do there, calls of MPI included. FERMATA_ON_OWN_THREAD: on a thread that is made for it by
 * the first registration, at once, while the program's own threads run on: it has to lock what it
 * shares with them. It may call MPI only under MPI_THREAD_MULTIPLE. The program does not wait for
 * what it does after a checkpoint.
 *
 * A callback must not wait for other ranks, so it makes no collective calls: they may be in another
 * place of the program, in a call that waits for this rank. It may neither register callbacks nor
 * ask for checkpoints. At most 64 in all.
 */
static __inline__ int fermata_callback(int where, fermata_function function, void *argument) {
  const struct fermata_table *const table = fermata_find();
  return table ? table->callback(where, function, argument) : FERMATA_ABSENT;
}
/* Takes the newest registration with the same three arguments back. */
static __inline__ int fermata_no_callback(int where, fermata_function function, void *argument) {
  const struct fermata_table *const table = fermata_find();
  return table ? table->no_callback(where, function, argument) : FERMATA_ABSENT;
}

/*
 * The contents of this memory need not be saved: whole pages within it are left out of the images.
 * In a restarted process they hold zeroes (private mappings of files: what the file holds); where
 * the job just continues they are what they were. Shared memory is saved all the same. The
 * registration stays, also over a restart, until fermata_include with the same arguments: take it
 * back before the memory is freed. At most 1024 regions.
 */
static __inline__ int fermata_exclude(void *address, size_t bytes) {
  const struct fermata_table *const table = fermata_find();
  return table ? table->exclude(address, bytes) : FERMATA_ABSENT;
}
static __inline__ int fermata_include(void *address, size_t bytes) {
  const struct fermata_table *const table = fermata_find();
  return table ? table->include(address, bytes) : FERMATA_ABSENT;
}

/*
 * The program connects this TCP socket again itself after a restart, so it need not be saved: there
 * its descriptor is one of a fresh socket, neither bound nor connected, and what had been sent and
 * not been read is lost. Where the job just continues it is what it was. A callback is told of a
 * restart. It holds for the socket, until that is closed, not for its number.
 * FERMATA_MISUSE: no socket.
 */
#define FERMATA_RECONNECTS 0x4645524d
static __inline__ int fermata_reconnects(int descriptor) {
  const int yes = 1;
  if (!fermata_find()) return FERMATA_ABSENT;
  return setsockopt(descriptor, SOL_SOCKET, FERMATA_RECONNECTS, &yes, sizeof yes) == 0
             ? 0
             : FERMATA_MISUSE;
}

/*
 * For programs that would rather save their own state. Run by `fermata run --checkpointer self`,
 * fermata_checkpoint saves no process but has `function` called in every rank, on the thread that
 * called fermata_checkpoint; that is then the only place where the job is saved, also when a
 * command asks for it. `directory` is new, the same for all ranks, and part of the snapshot: it
 * becomes one when the function has returned 0 in all ranks, and vanishes otherwise. The function
 * may call MPI. When it returns, its files must be complete and closed.
 *
 * Such a job is restarted by starting the program anew, perhaps on another MPI: it calls MPI_Init
 * as ever and makes its communicators again; no message of the old run arrives. After
 * fermata_checkpoint it never finds FERMATA_RESTARTED. Callbacks and excluded memory play no part.
 *
 * Under `--checkpointer native`, the default, the function is never called. Every rank sets one, or
 * the checkpoint fails and says so; NULL takes it back. FERMATA_MISUSE: fermata_checkpoint is
 * running.
 */
static __inline__ int fermata_self_save(fermata_saver function, void *argument) {
  const struct fermata_table *const table = fermata_find();
  return table ? table->self_save(function, argument) : FERMATA_ABSENT;
}
/*
 * The directory to continue from, of a program that has saved itself; it is only to be read. NULL:
 * there is none, the program begins. It may be asked for before MPI_Init.
 */
static __inline__ const char *fermata_self_state(void) {
  const struct fermata_table *const table = fermata_find();
  return table ? table->self_state() : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
