// SPDX-License-Identifier: Apache-2.0
// What a rank does by itself: files and pipes of POSIX, memory that comes and goes, computation.
#include "chaos.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kInts = 256, kBytes = kInts * sizeof(int) };

struct local {
  uint64_t key;
  FILE *stream;
  int file, pipe[2], form;
  size_t bytes;
  unsigned char *block;
};

static struct local *begin(struct step *step) {
  struct local *const l = memory(sizeof *l);
  l->key = derive(step->key, self);
  return l;
}

static void part(const struct local *l, int number, int ints[]) {
  for (int i = 0; i < kInts; i++) ints[i] = value(derive(l->key, number), i);
}

static void expect_part(const struct local *l, int number, const int found[]) {
  int right[kInts];
  part(l, number, right);
  for (int i = 0; i < kInts; i++) EXPECT(found[i], right[i]);
}

// ---- a file that grows, also through a stream ---------------------------------------------------

static void finish_file(void *data) {
  struct local *const l = data;
  int ints[kInts], line = 0;
  part(l, 1, ints);
  MUST(write(l->file, ints, kBytes) == kBytes);
  for (int p = 0; p < 2; p++) {
    MUST(pread(l->file, ints, kBytes, p * (off_t)kBytes) == kBytes);
    expect_part(l, p, ints);
  }
  fprintf(l->stream, "%d\n", value(l->key, 1));
  rewind(l->stream);
  for (int p = 0; p < 2; p++) {
    MUST(fscanf(l->stream, "%d", &line) == 1);
    EXPECT(line, value(l->key, p));
  }
  close(l->file);
  fclose(l->stream);
  free(l);
}

void posix_file(struct step *step) {
  struct local *const l = begin(step);
  const int due = draw_due(step);
  char path[4096];
  int ints[kInts];
  snprintf(path, sizeof path, "%s/posix.%d.%d", directory, step->number, self);
  l->file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);
  part(l, 0, ints);
  MUST(l->file >= 0 && write(l->file, ints, kBytes) == kBytes);
  snprintf(path, sizeof path, "%s/stream.%d.%d", directory, step->number, self);
  l->stream = fopen(path, "w+");
  MUST(l->stream != NULL);
  fprintf(l->stream, "%d\n", value(l->key, 0));
  later(due, finish_file, l);
}

// ---- bytes in a pipe ----------------------------------------------------------------------------

static void finish_pipe(void *data) {
  struct local *const l = data;
  int ints[kInts];
  MUST(read(l->pipe[0], ints, kBytes) == kBytes);
  expect_part(l, 0, ints);
  close(l->pipe[0]);
  close(l->pipe[1]);
  free(l);
}

void posix_pipe(struct step *step) {
  struct local *const l = begin(step);
  const int due = draw_due(step);
  int ints[kInts];
  MUST(pipe(l->pipe) == 0);
  part(l, 0, ints);
  MUST(write(l->pipe[1], ints, kBytes) == kBytes);
  later(due, finish_pipe, l);
}

// ---- memory -------------------------------------------------------------------------------------

static void touch(struct local *l) {
  for (size_t at = 0; at < l->bytes; at += 1024)
    l->block[at] = (unsigned char)value(l->key, (int)at);
}

static void finish_heap(void *data) {
  struct local *const l = data;
  long long wrong = -1;
  for (size_t at = 0; at < l->bytes; at += 1024)
    if (l->block[at] != (unsigned char)value(l->key, (int)at)) wrong = (long long)at;
  EXPECT(wrong, -1);
  if (l->form == 0) munmap(l->block, l->bytes);
  else free(l->block);
  free(l);
}

void heap(struct step *step) {
  struct local *const l = begin(step);
  const int due = draw_due(step);
  l->form = (int)(l->key % 3), l->bytes = (size_t)(1 + (l->key >> 8) % 64) << 12;
  if (l->form == 0)
    l->block = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  else
    l->block = memory(l->bytes);
  MUST(l->block != MAP_FAILED);
  touch(l);
  if (l->form == 2) l->block = realloc(l->block, l->bytes + 100000);
  MUST(l->block != NULL);
  later(due, finish_heap, l);
}

// ---- computation --------------------------------------------------------------------------------

/// Some ranks compute, some sleep, for different times: timers hit them in the middle.
void compute(struct step *step) {
  const int ms = 1 + below(&step->chance, 40), mine = value(derive(step->key, self), 0);
  unsigned sum = (unsigned)mine, right = (unsigned)mine;
  if (mine % 3 == 0) sleep_for_ms(ms);
  else compute_for_ms(mine % ms);
  for (int i = 0; i < 1000; i++) sum = sum * 1664525u + 1013904223u;
  for (volatile int i = 0; i < 1000; i++) right = right * 1664525u + 1013904223u;
  EXPECT((long long)sum, (long long)right);
}
