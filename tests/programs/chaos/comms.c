// SPDX-License-Identifier: Apache-2.0
// The tree of communicators: made from each other in every way MPI has, freed in any order. Each
// rank keeps the table of all of them, so that all draw alike.
#include "chaos.h"

enum { kMostComms = 14, kTag = 1001 };

static struct comm comms[kMostComms];

static struct comm *world_comm(void) {
  struct comm *const world = &comms[0];
  if (!world->kind) {
    *world = (struct comm){.handle = MPI_COMM_WORLD, .kind = kPlain, .rank = self};
    world->side[0].size = world_size;
    for (int r = 0; r < world_size; r++) world->side[0].member[r] = r;
  }
  return world;
}

static int find(const struct side *side, int world) {
  for (int r = 0; r < side->size; r++)
    if (side->member[r] == world) return r;
  return -1;
}

struct comm *draw_comm(struct step *step, int kinds, int least) {
  struct comm *fit[kMostComms];
  int count = 0;
  world_comm();
  for (int i = 0; i < kMostComms; i++) {
    struct comm *const c = &comms[i];
    if (!(c->kind & kinds) || c->side[0].size < least) continue;
    if (c->kind == kInter && c->side[1].size < least) continue;
    fit[count++] = c;
  }
  return count ? fit[below(&step->chance, count)] : NULL;
}

static int free_entries(void) {
  int count = 0;
  for (int i = 1; i < kMostComms; i++) count += comms[i].kind == 0;
  return count;
}

// Enters a new communicator whose members are known.
static struct comm *enter(int kind, MPI_Comm handle, struct side near, struct side far) {
  struct comm *entry = &comms[1];
  while (entry->kind) entry++;
  memset(entry, 0, sizeof *entry);
  entry->handle = handle, entry->kind = kind;
  entry->side[0] = near, entry->side[1] = far;
  entry->mine = find(&near, self) >= 0 ? 0 : find(&far, self) >= 0 ? 1 : -1;
  entry->rank = entry->mine < 0 ? -1 : find(&entry->side[entry->mine], self);
  EXPECT(entry->rank >= 0, handle != MPI_COMM_NULL);
  if (entry->rank < 0) return entry;
  int rank = -1, size = -1;
  DO(MPI_Comm_rank(handle, &rank));
  DO(MPI_Comm_size(handle, &size));
  EXPECT(rank, entry->rank);
  EXPECT(size, entry->side[entry->mine].size);
  return entry;
}

static const struct side nobody;

int address(const struct comm *comm, int world) {
  return find(&comm->side[comm->kind == kInter ? !comm->mine : 0], world);
}

void draw_pair(struct step *step, const struct comm *comm, int to_self, int *from, int *to) {
  const int from_side = comm->kind == kInter ? below(&step->chance, 2) : 0;
  const struct side *const a = &comm->side[from_side];
  const struct side *const b = &comm->side[comm->kind == kInter ? !from_side : 0];
  const int i = below(&step->chance, a->size);
  int j = below(&step->chance, b->size);
  if (a == b && i == j && !to_self) j = (j + 1) % b->size;
  *from = a->member[i], *to = b->member[j];
}

// ---- making them --------------------------------------------------------------------------------

void comm_dup(struct step *step) {
  struct comm *const from = draw_comm(step, kIntra | kInter, 1);
  const int form = below(&step->chance, 3);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request;
  if (!free_entries()) return;
  if (is_member(from)) {
    if (form == 0) DO(MPI_Comm_dup_with_info(from->handle, MPI_INFO_NULL, &made));
    if (form == 1) DO(MPI_Comm_dup(from->handle, &made));
    if (form == 2) {
      DO(MPI_Comm_idup(from->handle, &made, &request));
      wait_for(&request, MPI_STATUSES_IGNORE, 1, step->key);
    }
  }
  struct comm *const copy = enter(from->kind, made, from->side[0], from->side[1]);
  memcpy(copy->from, from->from, sizeof copy->from);
  memcpy(copy->to, from->to, sizeof copy->to);
  inherit_attribute(copy, from);
}

void comm_split(struct step *step) {
  struct comm *const from = draw_comm(step, kIntra, 2);
  const int backwards = one_in(&step->chance, 2);
  struct side part[3] = {{0}};
  int color = MPI_UNDEFINED;
  if (!from || free_entries() < 2) return;
  for (int i = 0; i < size_of(from); i++) {
    const int r = backwards ? size_of(from) - 1 - i : i, c = below(&step->chance, 5) / 2;
    part[c].member[part[c].size++] = from->side[0].member[r];
    if (r == from->rank && c < 2) color = c;
  }
  MPI_Comm made = MPI_COMM_NULL;
  if (is_member(from))
    DO(MPI_Comm_split(from->handle, color, backwards ? -from->rank : from->rank, &made));
  for (int c = 0; c < 2; c++)
    if (part[c].size) enter(kPlain, color == c ? made : MPI_COMM_NULL, part[c], nobody);
}

// Some members of a communicator, in any order.
static struct side draw_members(struct step *step, const struct comm *from, int ranks[]) {
  struct side some = nobody;
  int left[kMostRanks], count = size_of(from);
  for (int r = 0; r < count; r++) left[r] = r;
  for (int wanted = 1 + below(&step->chance, count); wanted > 0; wanted--) {
    const int which = below(&step->chance, count);
    ranks[some.size] = left[which];
    some.member[some.size++] = from->side[0].member[left[which]];
    left[which] = left[--count];
  }
  return some;
}

// Not of grids: Open MPI 4.1 hands their topology on in MPI_Comm_create_group, and writes to memory
// that it does not have when such a communicator opens a file.
void comm_group(struct step *step) {
  struct comm *const from = draw_comm(step, kPlain, 2);
  if (!from || !free_entries()) return;
  const int among_them = one_in(&step->chance, 2);
  int ranks[kMostRanks];
  const struct side some = draw_members(step, from, ranks);
  MPI_Comm made = MPI_COMM_NULL;
  if (is_member(from)) {
    MPI_Group all, group;
    DO(MPI_Comm_group(from->handle, &all));
    DO(MPI_Group_incl(all, some.size, ranks, &group));
    if (!among_them) DO(MPI_Comm_create(from->handle, group, &made));
    else if (find(&some, self) >= 0)
      DO(MPI_Comm_create_group(from->handle, group, kTag, &made));
    if (made != MPI_COMM_NULL) drop_attribute(made);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
  }
  enter(kPlain, made, some, nobody);
}

// Two dimensions. One of length two is not periodic, for there both neighbours would be one.
void comm_cart(struct step *step) {
  struct comm *const from = draw_comm(step, kIntra, 2);
  if (!from || !free_entries()) return;
  const int rows = 1 + below(&step->chance, size_of(from)), columns = size_of(from) / rows;
  const int dims[2] = {rows, columns};
  int round[2];
  for (int d = 0; d < 2; d++) round[d] = dims[d] > 2 && one_in(&step->chance, 2);
  struct side grid = from->side[0];
  grid.size = rows * columns;
  MPI_Comm made = MPI_COMM_NULL;
  if (is_member(from)) DO(MPI_Cart_create(from->handle, 2, dims, round, 0, &made));
  struct comm *const cart = enter(kNeighbours, made, grid, nobody);
  for (int r = 0; r < grid.size; r++)
    for (int n = 0; n < 4; n++) {
      int at[2] = {r / columns, r % columns};
      const int d = n / 2;
      at[d] += n % 2 ? 1 : -1;
      if (round[d]) at[d] = (at[d] + dims[d]) % dims[d];
      const int outside = at[d] < 0 || at[d] >= dims[d];
      cart->from[r].member[n] = cart->to[r].member[n] = outside ? -1 : at[0] * columns + at[1];
      cart->from[r].size = cart->to[r].size = 4;
    }
}

void comm_graph(struct step *step) {
  struct comm *const from = draw_comm(step, kIntra, 2);
  if (!from || !free_entries()) return;
  struct side in[kMostRanks] = {{0}}, out[kMostRanks] = {{0}};
  for (int a = 0; a < size_of(from); a++)
    for (int b = 0; b < size_of(from); b++) {
      if (!one_in(&step->chance, 2) || (a == b && !one_in(&step->chance, 3))) continue;
      out[a].member[out[a].size++] = b;
      in[b].member[in[b].size++] = a;
    }
  MPI_Comm made = MPI_COMM_NULL;
  if (is_member(from)) {
    const struct side *const i = &in[from->rank], *const o = &out[from->rank];
    DO(MPI_Dist_graph_create_adjacent(from->handle, i->size, i->member, MPI_UNWEIGHTED, o->size,
                                      o->member, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made));
  }
  struct comm *const graph = enter(kNeighbours, made, from->side[0], nobody);
  memcpy(graph->from, in, sizeof in);
  memcpy(graph->to, out, sizeof out);
}

void comm_inter(struct step *step) {
  struct comm *const from = draw_comm(step, kIntra, 2);
  if (!from || !free_entries()) return;
  const int cut = 1 + below(&step->chance, size_of(from) - 1);
  struct side low = from->side[0], high = nobody;
  low.size = cut;
  for (int r = cut; r < size_of(from); r++) high.member[high.size++] = from->side[0].member[r];
  MPI_Comm made = MPI_COMM_NULL, half;
  if (is_member(from)) {
    const int is_low = from->rank < cut;
    DO(MPI_Comm_split(from->handle, is_low, from->rank, &half));
    DO(MPI_Intercomm_create(half, 0, from->handle, is_low ? cut : 0, kTag, &made));
    DO(MPI_Comm_free(&half));
  }
  enter(kInter, made, low, high);
}

// Some of each side by groups, or all by a color: where some are left out of a split, MPICH 4.0
// hangs later on (seed 398724).
void comm_part(struct step *step) {
  struct comm *const from = draw_comm(step, kInter, 1);
  if (!from || !free_entries()) return;
  const int by_color = one_in(&step->chance, 2), backwards = by_color && one_in(&step->chance, 2);
  struct side part[2] = {{0}};
  int ranks[2][kMostRanks];
  for (int s = 0; s < 2; s++)
    for (int i = 0; i < from->side[s].size; i++) {
      const int r = backwards ? from->side[s].size - 1 - i : i;
      if (one_in(&step->chance, 4) && !by_color) continue;
      ranks[s][part[s].size] = r;
      part[s].member[part[s].size++] = from->side[s].member[r];
    }
  if (part[0].size == 0 || part[1].size == 0) return;
  MPI_Comm made = MPI_COMM_NULL;
  if (is_member(from) && by_color) {
    DO(MPI_Comm_split(from->handle, 7, backwards ? -from->rank : from->rank, &made));
  } else if (is_member(from)) {
    MPI_Group all, group;
    DO(MPI_Comm_group(from->handle, &all));
    DO(MPI_Group_incl(all, part[from->mine].size, ranks[from->mine], &group));
    DO(MPI_Comm_create(from->handle, group, &made));
    MPI_Group_free(&group);
    MPI_Group_free(&all);
  }
  if (made != MPI_COMM_NULL) drop_attribute(made);
  enter(kInter, made, part[0], part[1]);
}

void comm_merge(struct step *step) {
  struct comm *const from = draw_comm(step, kInter, 1);
  if (!from || !free_entries()) return;
  const int first = below(&step->chance, 2);
  struct side all = from->side[first];
  const struct side *const rest = &from->side[!first];
  for (int r = 0; r < rest->size; r++) all.member[all.size++] = rest->member[r];
  MPI_Comm made = MPI_COMM_NULL;
  if (is_member(from)) DO(MPI_Intercomm_merge(from->handle, from->mine != first, &made));
  enter(kPlain, made, all, nobody);
}

// ---- freeing them -------------------------------------------------------------------------------

static void end_comm(struct comm *comm, int disconnect) {
  expect_attribute(comm);
  if (is_member(comm) && disconnect) DO(MPI_Comm_disconnect(&comm->handle));
  else if (is_member(comm)) DO(MPI_Comm_free(&comm->handle));
  comm->kind = 0;
}

void comm_free(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  if (comm == world_comm() || comm->busy >= step->number) return;
  end_comm(comm, 0);
}

void free_all_comms(void) {
  for (int i = kMostComms - 1; i > 0; i--)
    if (comms[i].kind) end_comm(&comms[i], 1);
  drop_attribute(MPI_COMM_WORLD);
  comms[0].kind = 0;
}
