// SPDX-License-Identifier: Apache-2.0
// A random MPI program that checks itself. From a seed every rank derives the same script, a list
// of steps, and plays its part in each; what it receives it compares with what the script says.
//
// Deadlock-free by construction. A step is a sequence of actions (one message, one collective call,
// one completion), and all ranks carry out those that concern them in one order, the script's; what
// is begun in one step and completed in a later one (pending.c) has its place in that order, too.
// An action waits at most for actions of other ranks at the same or an earlier place: a send for
// its own receive, a completion for what was begun before it, a collective call for itself. So the
// rank that is furthest behind always gets on. Locks of windows are held over no other action, and
// polls are for what a blocking call at the same place could wait for.
//
// Hence the law of this folder: whatever decides about actions is drawn from `step->chance` by
// *all* ranks alike, members or not. What only concerns a rank itself (how it waits, say) comes
// from `derive`, so that it does not disturb the others' draws.
#ifndef CHAOS_H
#define CHAOS_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMostRanks = 8 };

extern int self, world_size;  // in MPI_COMM_WORLD
extern const char *kind;      // of the step whose values are compared now

// ---- chance -------------------------------------------------------------------------------------

static inline uint64_t scramble(uint64_t x) {  // the finalizer of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static inline uint64_t derive(uint64_t key, int which) {
  return scramble(key + 0x9e3779b97f4a7c15u * (uint64_t)(which + 1));
}

struct chance {
  uint64_t state;
};

static inline int below(struct chance *chance, int bound) {
  return (int)(scramble(chance->state += 0x9e3779b97f4a7c15u) % (uint64_t)bound);
}

static inline int one_in(struct chance *chance, int n) { return below(chance, n) == 0; }

struct step {
  int number;
  uint64_t key;
  struct chance chance;
};

// ---- values: main.c -----------------------------------------------------------------------------

/// What the script says in place `index` under a key; 20 bits, so that sums fit.
static inline int value(uint64_t key, int index) { return (int)(derive(key, index) & 0xfffff); }

/// A wrong value ends the program with the step and the place; a right one is folded into the
/// checksum.
void expect_at(const char *file, int line, long long found, long long expected);
#define EXPECT(found, expected) expect_at(__FILE__, __LINE__, (found), (expected))
/// For what may be asked a different number of times in each run: does not touch the checksum.
void must_at(const char *file, int line, int error, const char *what);
#define MUST(condition) must_at(__FILE__, __LINE__, (condition) ? 0 : -1, #condition)
#define DO(call) must_at(__FILE__, __LINE__, (call), #call)
void *memory(size_t bytes);  // zeroed, never null

// ---- what is completed in a later step: pending.c -----------------------------------------------

typedef void finisher(void *data);
/// Calls `finish(data)` at the beginning of step `due`, after what was registered before.
void later(int due, finisher *finish, void *data);
void finish_due(int step);
/// When what begins now is to be completed: in this step (half of the time) or a later one.
int draw_due(struct step *step);

// ---- datatypes: layouts.c -----------------------------------------------------------------------

/// A datatype and what it means. It outlives its MPI datatype, for messages may be under way.
struct layout {
  MPI_Datatype type, base;
  int base_bytes, elements, extent;  // extent in bytes
  int *offset;                       // of each element in bytes
};

/// A buffer with `count` layouts in it. Between the elements a pattern that nobody may touch.
struct body {
  const struct layout *layout;
  int count;
  uint64_t key;
  unsigned char *bytes;
};

struct layout *draw_layout(struct chance *chance);
/// Between steps: frees the datatypes that are no longer drawn, whoever still waits for a message.
void free_old_layouts(void);
/// Those that are drawn, too.
void forget_layouts(void);
/// The same elements without gaps.
struct body plain_body(const struct body *other);
struct body make_body(const struct layout *layout, int count, uint64_t key);
int body_elements(const struct body *body);
void fill_body(struct body *body);
void expect_body(struct body *body);
void free_body(struct body *body);

// ---- communicators: comms.c ---------------------------------------------------------------------

enum { kPlain = 1, kNeighbours = 2, kInter = 4, kIntra = kPlain | kNeighbours };

struct side {
  int size, member[kMostRanks];  // world ranks in the order of their ranks
};

/// Known to all ranks, also to those that are not in it.
struct comm {
  MPI_Comm handle;  // MPI_COMM_NULL on others
  int kind;         // 0: a free entry
  struct side side[2];
  int rank, mine;           // own rank and side; -1 on others
  int busy;                 // something in a step up to this one still needs the handle
  int unreceived;           // up to this step messages may lie there that are received later
  struct side from[kMostRanks], to[kMostRanks];  // kNeighbours: ranks by rank, -1 for none
  int attribute;            // 0: none
};

/// One of the communicators of these kinds with at least that many members on each side; or null.
struct comm *draw_comm(struct step *step, int kinds, int least);
static inline int size_of(const struct comm *comm) { return comm->side[0].size; }
static inline int is_member(const struct comm *comm) { return comm->rank >= 0; }
/// The rank by which a member addresses this process in point-to-point calls.
int address(const struct comm *comm, int world);
/// Two members that may talk to each other, as world ranks; the same one twice if `to_self`.
void draw_pair(struct step *step, const struct comm *comm, int to_self, int *from, int *to);
static inline void hold_comm(struct comm *comm, int until) {
  if (comm->busy < until) comm->busy = until;
}
void free_all_comms(void);

// ---- programs that save themselves: saving.c ----------------------------------------------------

struct place {
  int step;  // the last one that is done
  uint64_t hash;
};
/// Sets what is saved from then on; and what has been saved before, if the program begins anew.
void start_saving(struct place *place);
void ask_for_checkpoint(void);
/// Asks again and again while there is this file.
void rest_while_held(const char *hold_file);

// ---- threads that serve: serving.c --------------------------------------------------------------

void start_serving(void);
void end_serving(void);

// ---- steps --------------------------------------------------------------------------------------

typedef void step_function(struct step *step);
step_function comm_dup, comm_split, comm_group, comm_cart, comm_graph, comm_inter, comm_part,
    comm_merge, comm_free, attributes, exchange, posted, unexpected, matched, persistent, shift,
    ignored, cancelled, packed, handshake, sparse, collective, pending_collective,
    persistent_collective, neighbours, inter_collective, window_fence, window_lock, window_groups,
    window_atomic, file_blocks, file_ordered, file_shared, posix_file, posix_pipe, question,
    compute, heap, tight_clocks, tight_signals, tight_memory, tight_transfers, tight_processes,
    tight_registers, tight_exceptions;
void start_attributes(void);
void start_messages(void);
void end_messages(void);

void wait_for(MPI_Request *requests, MPI_Status *statuses, int count, uint64_t key);
void compute_for_ms(int ms);
void sleep_for_ms(int ms);
extern const char *directory;  // for files
void expect_attribute(const struct comm *comm);
void drop_attribute(MPI_Comm fresh);
void inherit_attribute(struct comm *copy, const struct comm *original);

#endif
