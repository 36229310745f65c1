// SPDX-License-Identifier: Apache-2.0
// Collectives that survive dead processes. Link with -lftcoll.
//
// Processes of a job know each other by rank (0, 1, ..). A call of a communicator blocks until it
// has a result, which is the same at all processes that live, and which says whose contributions
// it lacks; a dead process costs the first call after its death a timeout at most, later ones
// nothing. All members of a communicator make the same calls of it in the same order. Calls of
// different communicators may be made by different threads at a time.
//
// Every function returns FTC_OK or says what failed: ftc_error() has the text.
#ifndef FTCOLL_H
#define FTCOLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ftc_door ftc_door;    // listens; has not met the others yet
typedef struct ftc_world ftc_world;  // a process of a job
typedef struct ftc_comm ftc_comm;    // some of them, or all

enum {
  FTC_OK = 0,
  FTC_ROOT_DIED = 1,   // and no living process has a result
  FTC_MISMATCH = 2,    // the processes' calls differ in length, type or operation
  FTC_FORGOTTEN = 3,   // others took this process for dead and are far ahead
  FTC_DEADLINE = 4,    // somebody lives and did not enter; the communicator is of no more use
  FTC_BUSY = 5,        // another thread is in a call of it, or it has been started already
  FTC_OPERATION = 6,   // not defined for the type
  FTC_ARGUMENT = 7,    // a rank, a length, a pointer or a number that cannot be
  FTC_JOIN = 8         // the job cannot be joined
};

typedef enum {
  FTC_INT8 = 1, FTC_INT16, FTC_INT32, FTC_INT64,
  FTC_UINT8, FTC_UINT16, FTC_UINT32, FTC_UINT64,
  FTC_FLOAT, FTC_DOUBLE,
  FTC_COMPLEX_FLOAT, FTC_COMPLEX_DOUBLE,
  FTC_SHORT_INT, FTC_INT_INT, FTC_LONG_INT,  // struct { short value; int index; } and so on,
  FTC_FLOAT_INT, FTC_DOUBLE_INT              // for FTC_MINLOC and FTC_MAXLOC
} ftc_type;

typedef enum {
  FTC_SUM = 1, FTC_PROD, FTC_MIN, FTC_MAX, FTC_LAND, FTC_LOR, FTC_LXOR, FTC_BAND, FTC_BOR,
  FTC_BXOR, FTC_MINLOC, FTC_MAXLOC
} ftc_op;

// What carries the messages.
enum { FTC_TCP = 0, FTC_UCX = 1 };

// An operation of the program's own: behind[i] = ahead[i] op behind[i]. It is called by the thread
// that is in the call, or by another one that is in a call; of a call that was started and is not
// waited for, by the library's own; never by two at a time.
typedef struct {
  void (*function)(const void *ahead, void *behind, size_t count, void *context);
  void *context;
  size_t element_bytes;
  int commutes;  // if not, the order of the operands is that of the ranks
} ftc_user_op;

// How a call has ended. The caller sets `missing` and `room`; both may be 0.
typedef struct {
  int32_t processes;      // of the communicator
  int32_t contributions;  // in the result
  int32_t *missing;       // whose the result lacks, as many as there is room for
  int32_t room;
} ftc_ended;

// Times in milliseconds; 0: what ftc_join() takes if the environment says nothing.
typedef struct {
  const char *address;       // IP to listen at; NULL: this host alone can connect
  uint32_t meeting_ms;       // until all have to have connected (60 000)
  uint32_t timeout_ms;       // of silence, until a process is dead (2000)
  uint32_t timeout_step_ms;  // more for each level of the tree above the leaves (2)
  uint32_t deadline_ms;      // of a call that somebody who lives does not enter (600 000)
  uint32_t only_silence;     // not 0: a connection that breaks is no death
  uint32_t may_part;         // not 0: connections may be made again, see ftc_part()
  uint32_t transport;        // FTC_TCP (0), or FTC_UCX between hosts that it connects, unless
                             // may_part; ftc_listen() says why if UCX cannot be used
} ftc_options;

// The text of what failed last in this thread.
const char *ftc_error(void);

// Joins the job by the environment: FTCOLL_KEY (64 hexadecimal digits), FTCOLL_RANK, FTCOLL_SIZE,
// FTCOLL_DIR (a directory that all processes see and only their user can enter). Blocks.
int ftc_join(ftc_world **world);

// The same by other means: listens for those who know the key, and says where ("IP:PORT"); when
// all addresses are known, in the order of the ranks, ftc_meet() connects, blocks until all have
// come, and frees the door. A process that may be found at several addresses ("IP:PORT,IP:PORT") is
// looked for at one after the other.
int ftc_listen(const uint8_t key[32], const ftc_options *options, ftc_door **door, char *address,
               size_t room);
int ftc_meet(ftc_door *door, int32_t rank, int32_t size, const char *const *addresses,
             ftc_world **world);

int32_t ftc_rank(const ftc_world *world);
int32_t ftc_size(const ftc_world *world);

// Waits for the others, at most until the deadline, closes all connections, frees the world. Its
// communicators are freed before.
int ftc_leave(ftc_world *world);
// The same without waiting for anybody: who still needs this process takes it for dead.
void ftc_close(ftc_world *world);

// While a thread waits in a call of the library it calls `progress` every millisecond or so, for
// what else the program has begun, such as messages of an MPI. `progress` neither waits nor calls
// this library. Calls that take less do without it.
typedef void ftc_progress(void *context);
int ftc_progress_by(ftc_world *world, ftc_progress *progress, void *context);

// A process that is saved with its memory and its threads, and made again elsewhere, as all of its
// job are at the same moment, while they stand still. ftc_hold() before that: it waits until the
// libraries of the others have what was sent to them, no longer than a timeout; until the next of
// these calls silence means nothing, and a connection that breaks is no death. ftc_release() where
// the process just continues. ftc_part() where it was made again: its connections are gone, and
// what was sent and has not come is sent again when there are new ones. All of a job have
// `may_part` set, or none.
void ftc_hold(ftc_world *world);
void ftc_release(ftc_world *world);
void ftc_part(ftc_world *world);
// How many sockets there are; their descriptors, as many as there is room for.
int32_t ftc_sockets(ftc_world *world, int *descriptors, int32_t room);

// After ftc_part() a process listens again, tells the others where by means of its own, and calls
// ftc_meet_again() for each process of lower rank of which it has heard ("IP:PORT,IP:PORT"), which
// does not wait; those of higher rank connect themselves. A thread that waits in a call calls
// `seeker` for that, several at a time, until all members of the communicator are found; of others
// nothing is expected, since they may be in no call. `parting` is what ftc_partings() says at the
// beginning, the number of calls of ftc_part(): if there was another one since, nothing happens
// (FTC_JOIN, FTC_OK).
typedef void ftc_seeker(void *context);
int ftc_seek_by(ftc_world *world, ftc_seeker *seeker, void *context);
uint32_t ftc_partings(ftc_world *world);
int ftc_open_again(ftc_world *world, uint32_t parting, const char *ip, char *address,
                   size_t room);
int ftc_meet_again(ftc_world *world, uint32_t parting, int32_t rank, const char *address);

// Communicators. Nobody waits; members make those of the same members in the same order.
int ftc_comm_all(ftc_world *world, ftc_comm **comm);
int ftc_comm_of(ftc_world *world, const int32_t *ranks, int32_t count, ftc_comm **comm);
int32_t ftc_comm_rank(const ftc_comm *comm);
int32_t ftc_comm_size(const ftc_comm *comm);
void ftc_comm_free(ftc_comm *comm);

// To measure what it costs to survive: from now on a death is not survived in this communicator.
// All members say so before any of them makes a call of it.
int ftc_comm_survive_nothing(ftc_comm *comm);

// The collectives. Buffers hold `count` elements; `send` and `receive` may be the same. `ended` may
// be NULL. Only the root's `receive` is written to by a reduction.
int ftc_barrier(ftc_comm *comm, ftc_ended *ended);
int ftc_bcast(ftc_comm *comm, void *buffer, size_t count, ftc_type type, int32_t root,
              ftc_ended *ended);
int ftc_reduce(ftc_comm *comm, const void *send, void *receive, size_t count, ftc_type type,
               ftc_op op, int32_t root, ftc_ended *ended);
int ftc_allreduce(ftc_comm *comm, const void *send, void *receive, size_t count, ftc_type type,
                  ftc_op op, ftc_ended *ended);
int ftc_reduce_user(ftc_comm *comm, const void *send, void *receive, size_t count,
                    const ftc_user_op *op, int32_t root, ftc_ended *ended);
int ftc_allreduce_user(ftc_comm *comm, const void *send, void *receive, size_t count,
                       const ftc_user_op *op, ftc_ended *ended);

// Persistent calls: made once, and begun as often as one likes (MPI-4.1, section 6.13). ftc_start()
// reads what is sent, begins the call and returns at once; the library's own thread goes through
// with it, and calls an operation of the program's own. ftc_wait() blocks until it is over, and
// ftc_test() looks whether it is: they write what is received, and then it can be started again. Of
// one that has not been started they say FTC_OK at once, and leave `ended` as it is. The deadline
// counts from the first of them.
//
// Calls that are started before others of the communicator have ended are made in the order in
// which they were started, which is the same at all members. A call in progress cannot be started
// (FTC_BUSY); one that is freed then is made nevertheless, since others need it, and nothing is
// received. So one with an operation of the program's own is freed when it is over. Buffers and the
// communicator stay until it is freed. One thread at a time uses a call.
//
// After ftc_part() a process finds the others while it is in a call of the library: one that has
// begun a call and computes keeps them waiting until then.
typedef struct ftc_call ftc_call;
int ftc_barrier_init(ftc_comm *comm, ftc_call **call);
int ftc_bcast_init(ftc_comm *comm, void *buffer, size_t count, ftc_type type, int32_t root,
                   ftc_call **call);
int ftc_reduce_init(ftc_comm *comm, const void *send, void *receive, size_t count, ftc_type type,
                    ftc_op op, int32_t root, ftc_call **call);
int ftc_allreduce_init(ftc_comm *comm, const void *send, void *receive, size_t count,
                       ftc_type type, ftc_op op, ftc_call **call);
int ftc_reduce_user_init(ftc_comm *comm, const void *send, void *receive, size_t count,
                         const ftc_user_op *op, int32_t root, ftc_call **call);
int ftc_allreduce_user_init(ftc_comm *comm, const void *send, void *receive, size_t count,
                            const ftc_user_op *op, ftc_call **call);
int ftc_start(ftc_call *call);
int ftc_test(ftc_call *call, int *is_over, ftc_ended *ended);
int ftc_wait(ftc_call *call, ftc_ended *ended);
void ftc_call_free(ftc_call *call);

#ifdef __cplusplus
}
#endif
#endif
