// SPDX-License-Identifier: Apache-2.0
// Row: a file of one's own, mapped shared; the file and the mapping stay one
//
// --kept-as PREFIX: another one is not unlinked but renamed, as a client of NFS or of FUSE does, to
// PREFIX and 8 hexadecimal digits.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory_shared.h"

#define BYTES (64 * 4096)

static int forget(const char *path, int argc, char **argv) {
  char name[4096];
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], "--kept-as")) continue;
    snprintf(name, sizeof name, "%s/%s%08x", directory_option(argc, argv), argv[i + 1], rank);
    return rename(path, name);
  }
  return unlink(path);
}

// A file of which only the mapping is left: no name, no descriptor, and it is on disk, no longer in
// memory.
static const unsigned char *map_forgotten(const char *path, int argc, char **argv) {
  static unsigned char block[BYTES];
  memset(block, 7 + rank, sizeof block);
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
  CHECK(fd >= 0 && write(fd, block, sizeof block) == BYTES);
  CHECK(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  void *const map = mmap(NULL, sizeof block, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(map != MAP_FAILED && forget(path, argc, argv) == 0 && close(fd) == 0);
  return map;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char path[4096];
  snprintf(path, sizeof path, "%s/mapped.%d", directory_option(argc, argv), rank);
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
  struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED);
  strcat(path, ".forgotten");
  const unsigned char *const forgotten = map_forgotten(path, argc, argv);
  path[strlen(path) - strlen(".forgotten")] = 0;
  for (int step = 1; step <= o.steps; step++) {
    shared_step(s, step, o, 1);
    uint64_t word = 0;
    CHECK(pread(fd, &word, 8, (off_t)offsetof(struct shared, words[rank][7])) == 8);
    CHECK(word == s->words[rank][7]);
    const int again = open(path, O_RDWR);  // what others see under the name
    CHECK(again >= 0);
    word = (uint64_t)step * 77;
    CHECK(pwrite(again, &word, 8, (off_t)offsetof(struct shared, words[63][0])) == 8);
    CHECK(close(again) == 0);
    CHECK(((volatile struct shared *)s)->words[63][0] == word);
    if (step % 4 == 0) CHECK(msync(s, sizeof *s, MS_SYNC) == 0);
  }
  for (int i = 0; i < BYTES; i++) CHECK(forgotten[i] == 7 + rank);
  finish();
}
