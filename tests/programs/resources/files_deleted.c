// SPDX-License-Identifier: Apache-2.0
// Row: scratch files that were deleted while open, one of them opened twice
//
// --kept-as PREFIX: the file is not deleted but renamed, as a client of NFS or of FUSE does, to
// PREFIX and 8 hexadecimal digits. --second DIR: the nameless file is there.
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "directory.h"

#define BYTES 300000

static const char *option(int argc, char **argv, const char *name) {
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], name)) return argv[i + 1];
  return NULL;
}

static int delete_scratch(const char *prefix) {
  char name[1000];
  if (!prefix) return unlink(own_path("scratch"));
  snprintf(name, sizeof name, "%s/%s%08x", directory, prefix, rank);
  return rename(own_path("scratch"), name);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int out = open(own_path("scratch"), O_WRONLY | O_CREAT | O_EXCL, 0600);
  const int in = open(own_path("scratch"), O_RDWR);
  CHECK(out >= 0 && in >= 0 && delete_scratch(option(argc, argv, "--kept-as")) == 0);
  const char *second = option(argc, argv, "--second");
  FILE *nameless = second ? fdopen(open(second, O_RDWR | O_TMPFILE, 0600), "w+") : tmpfile();
  CHECK(nameless);
  static unsigned char block[BYTES], got[BYTES];
  for (int step = 1; step <= o.steps; step++) {
    memset(block, step + rank, sizeof block);
    CHECK(lseek(out, BYTES, SEEK_CUR) >= BYTES);  // leaves a hole
    CHECK(write(out, block, sizeof block) == BYTES);
    CHECK(fprintf(nameless, "%d\n", step) > 0 && (step % 2 || fflush(nameless) == 0));
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(pread(in, got, BYTES, (2L * step - 1) * BYTES) == BYTES && got[0] == step + rank);
    CHECK(!memcmp(block, got, BYTES));
    CHECK(pread(in, got, 1, (2L * step - 2) * BYTES) == 1 && got[0] == 0);
    CHECK(lseek(in, 0, SEEK_END) == 2L * step * BYTES);
    mix(block, 1000);
  }
  rewind(nameless);
  for (int step = 1, value; step <= o.steps; step++)
    CHECK(fscanf(nameless, "%d", &value) == 1 && value == step);
  CHECK(access(own_path("scratch"), F_OK) != 0);
  finish();
  return 0;
}
