// SPDX-License-Identifier: Apache-2.0
// MPI files, open over several steps. They are never deleted, and no byte is written twice with
// different contents, so a job that continues from an earlier snapshot finds what it may find.
// Atomic mode instead of MPI_File_sync, which Open MPI 4.1 refuses while any file has a request
// pending.
#include "chaos.h"

enum { kBlock = 64, kRounds = 3 };

struct file {
  MPI_File file;
  MPI_Comm comm;
  int rank, size, round, due, gap, form, with_view;
  uint64_t key;
  int out[kBlock];
  MPI_Request request;
};

static void block_of(const struct file *f, int rank, int round, int block[]) {
  for (int i = 0; i < kBlock; i++) block[i] = value(derive(derive(f->key, rank), round), i);
}

// In ints, as the file's view counts.
static MPI_Offset place(const struct file *f, int rank, int round) {
  return (MPI_Offset)kBlock * (f->with_view ? round : round * f->size + rank);
}

static struct file *open_file(struct step *step, const char *name, int until) {
  struct comm *const comm = draw_comm(step, kIntra, 1);
  hold_comm(comm, until);
  if (!is_member(comm)) return NULL;
  struct file *const f = memory(sizeof *f);
  char path[4096];
  f->comm = comm->handle, f->rank = comm->rank, f->size = size_of(comm), f->key = step->key;
  snprintf(path, sizeof path, "%s/%s.%d", directory, name, step->number);
  DO(MPI_File_open(f->comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f->file));
  DO(MPI_File_set_atomicity(f->file, 1));
  return f;
}

static void close_file(struct file *f) {
  DO(MPI_File_close(&f->file));
  free(f);
}

// ---- blocks -------------------------------------------------------------------------------------

// The blocks of the ranks take turns.
static void set_view(struct file *f) {
  const MPI_Offset before = f->with_view ? (MPI_Offset)(kBlock * sizeof(int)) * f->rank : 0;
  const int sizes = kBlock * f->size, part = kBlock, zero = 0;
  MPI_Datatype mine = MPI_INT;
  if (f->with_view) {
    DO(MPI_Type_create_subarray(1, &sizes, &part, &zero, MPI_ORDER_C, MPI_INT, &mine));
    DO(MPI_Type_commit(&mine));
  }
  DO(MPI_File_set_view(f->file, before, MPI_INT, mine, "native", MPI_INFO_NULL));
  if (f->with_view) DO(MPI_Type_free(&mine));
}

static void begin_write(struct file *f) {
  const MPI_Offset at = place(f, f->rank, f->round);
  block_of(f, f->rank, f->round, f->out);
  switch ((f->form + f->round) % 5) {
    case 0:
      DO(MPI_File_write_at_all(f->file, at, f->out, kBlock, MPI_INT, MPI_STATUS_IGNORE));
      break;
    case 1:
      DO(MPI_File_write_at(f->file, at, f->out, kBlock, MPI_INT, MPI_STATUS_IGNORE));
      break;
    case 2:
      DO(MPI_File_iwrite_at(f->file, at, f->out, kBlock, MPI_INT, &f->request));
      break;
    case 3:
      DO(MPI_File_seek(f->file, at, MPI_SEEK_SET));
      DO(MPI_File_write_all_begin(f->file, f->out, kBlock, MPI_INT));
      break;
    default:
      DO(MPI_File_seek(f->file, at, MPI_SEEK_SET));
      DO(MPI_File_write(f->file, f->out, kBlock, MPI_INT, MPI_STATUS_IGNORE));
  }
}

static void end_write(struct file *f) {
  const int form = (f->form + f->round) % 5;
  MPI_Status status;
  int count = kBlock;
  if (form == 2) DO(MPI_Wait(&f->request, &status));
  if (form == 3) DO(MPI_File_write_all_end(f->file, f->out, &status));
  if (form == 2 || form == 3) DO(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT(count, kBlock);
}

// Reads what another has written: with views the own block, for others' are out of sight.
static void read_back(struct file *f) {
  const int other = f->with_view ? f->rank : (f->rank + 1) % f->size;
  int found[kBlock], right[kBlock];
  DO(MPI_Barrier(f->comm));
  if (f->round % 2)
    DO(MPI_File_read_at_all(f->file, place(f, other, f->round), found, kBlock, MPI_INT,
                            MPI_STATUS_IGNORE));
  else
    DO(MPI_File_read_at(f->file, place(f, other, f->round), found, kBlock, MPI_INT,
                        MPI_STATUS_IGNORE));
  block_of(f, other, f->round, right);
  for (int i = 0; i < kBlock; i++) EXPECT(found[i], right[i]);
}

static void next_block(void *data) {
  struct file *const f = data;
  end_write(f);
  read_back(f);
  f->due += f->gap;
  if (++f->round >= kRounds) return close_file(f);
  begin_write(f);
  later(f->due, next_block, f);
}

void file_blocks(struct step *step) {
  const int gap = 1 + below(&step->chance, 3), form = below(&step->chance, 5);
  const int with_view = one_in(&step->chance, 2);
  struct file *const f = open_file(step, "blocks", step->number + gap * kRounds);
  if (!f) return;
  f->gap = gap, f->due = step->number + gap, f->form = form, f->with_view = with_view;
  set_view(f);
  begin_write(f);
  later(f->due, next_block, f);
}

// ---- the shared file pointer --------------------------------------------------------------------

static void finish_ordered(void *data) {
  struct file *const f = data;
  int found[kBlock], right[kBlock];
  DO(MPI_Barrier(f->comm));
  DO(MPI_File_seek_shared(f->file, 0, MPI_SEEK_SET));
  DO(MPI_File_read_ordered(f->file, found, kBlock, MPI_INT, MPI_STATUS_IGNORE));
  block_of(f, f->rank, 0, right);
  for (int i = 0; i < kBlock; i++) EXPECT(found[i], right[i]);
  close_file(f);
}

void file_ordered(struct step *step) {
  const int due = draw_due(step);
  struct file *const f = open_file(step, "ordered", due);
  if (!f) return;
  block_of(f, f->rank, 0, f->out);
  DO(MPI_File_set_view(f->file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  DO(MPI_File_write_ordered(f->file, f->out, kBlock, MPI_INT, MPI_STATUS_IGNORE));
  later(due, finish_ordered, f);
}

// One rank alone writes, block after block; then another one reads.
static void next_shared(void *data) {
  struct file *const f = data;
  if (f->rank == f->form) {
    block_of(f, f->rank, f->round, f->out);
    DO(MPI_File_write_shared(f->file, f->out, kBlock, MPI_INT, MPI_STATUS_IGNORE));
  }
  f->due += f->gap;
  if (++f->round < kRounds) return later(f->due, next_shared, f);
  DO(MPI_Barrier(f->comm));
  DO(MPI_File_seek_shared(f->file, 0, MPI_SEEK_SET));
  for (int round = 0; round < kRounds && f->rank == (f->form + 1) % f->size; round++) {
    int found[kBlock], right[kBlock];
    DO(MPI_File_read_shared(f->file, found, kBlock, MPI_INT, MPI_STATUS_IGNORE));
    block_of(f, f->form, round, right);
    for (int i = 0; i < kBlock; i++) EXPECT(found[i], right[i]);
  }
  close_file(f);
}

void file_shared(struct step *step) {
  const int gap = 1 + below(&step->chance, 3), writer = below(&step->chance, kMostRanks);
  struct file *const f = open_file(step, "shared", step->number + gap * kRounds);
  if (!f) return;
  f->gap = gap, f->due = step->number, f->form = writer % f->size;
  DO(MPI_File_set_view(f->file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  next_shared(f);
}
