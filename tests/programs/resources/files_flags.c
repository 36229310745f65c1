// SPDX-License-Identifier: Apache-2.0
// Row: files opened with every flag: with a name, renamed, deleted, in memory, by O_TMPFILE
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

enum { BYTES = 4096, FLAGS = 14, PLACES = 6, DIRECTORIES = 4 };
static const int kFlags[FLAGS] = {
    O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_NOFOLLOW, O_RDWR | O_EXCL, O_RDWR | O_TRUNC,
    O_RDWR | O_NOFOLLOW | O_CREAT | O_EXCL, O_WRONLY | O_APPEND, O_RDWR | O_NOATIME,
    O_RDWR | O_DIRECT | O_NOFOLLOW, O_RDWR | O_SYNC, O_WRONLY | O_DSYNC | O_NONBLOCK,
    O_PATH | O_NOFOLLOW, O_PATH | O_CLOEXEC | O_NOFOLLOW};
static const int kDirectories[DIRECTORIES] = {O_RDONLY, O_DIRECTORY, O_DIRECTORY | O_NOFOLLOW,
                                              O_PATH | O_DIRECTORY | O_NOFOLLOW};
enum { NAMED, RENAMED, DELETED, IN_MEMORY, MEMORY_DELETED, NAMELESS };
static struct held {
  int fd, flags, is_file;
  mode_t mode;
} held[FLAGS * PLACES + DIRECTORIES];
static int count;

// Kept for good, but for what a link of /proc cannot be opened with again.
#define SHOWN (~(O_NOFOLLOW | O_TMPFILE | O_CLOEXEC))

static void remember(int fd, int is_file) {
  struct stat info;
  CHECK(fstat(fd, &info) == 0);
  held[count++] = (struct held){fd, fcntl(fd, F_GETFL), is_file, info.st_mode};
}

static void fill(const char *path) {
  char text[BYTES];
  memset(text, 'a', sizeof text);
  const int fd = open(path, O_WRONLY);
  CHECK(fd >= 0 && write(fd, text, BYTES) == BYTES && close(fd) == 0);
}

static void hold(int flags, int place) {
  char path[500], other[510], link[40];
  const int memory = place == IN_MEMORY || place == MEMORY_DELETED;
  snprintf(path, sizeof path, "%s/flags-%d-%d-%d", memory ? "/dev/shm" : directory, (int)getpid(),
           rank, count);
  snprintf(other, sizeof other, "%s.renamed", path);
  if (place == NAMELESS) {
    // What only gives a path cannot make a file.
    if (flags & O_PATH || !(flags & (O_WRONLY | O_RDWR)) || flags & O_CREAT) return;
    const int fd = open(directory, flags | O_TMPFILE, 0640);
    CHECK(fd >= 0 || errno == EOPNOTSUPP || errno == EINVAL);
    if (fd < 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    fill(link);
    return remember(fd, 1);
  }
  if (!(flags & O_CREAT)) CHECK(close(open(path, O_CREAT | O_WRONLY | O_EXCL, 0640)) == 0);
  int fd = open(path, flags, 0640);
  if (fd < 0 && errno == EINVAL) fd = open(path, flags & ~O_DIRECT, 0640);  // in memory
  CHECK(fd >= 0);
  fill(path);
  if (place == RENAMED) CHECK(rename(path, other) == 0);
  if (place == DELETED || place == MEMORY_DELETED) CHECK(unlink(path) == 0);
  remember(fd, 1);
}

static void check_one(const struct held *h) {
  static char got[BYTES] __attribute__((aligned(BYTES)));
  struct stat info;
  CHECK(fstat(h->fd, &info) == 0 && info.st_mode == h->mode);
  const int now = fcntl(h->fd, F_GETFL);
  if ((now & SHOWN) != (h->flags & SHOWN)) printf("flags %o, were %o\n", now, h->flags);
  CHECK((now & SHOWN) == (h->flags & SHOWN));
  if (!h->is_file || h->flags & O_PATH) return;
  CHECK(info.st_size == BYTES);
  if ((h->flags & O_ACCMODE) != O_WRONLY) {
    CHECK(pread(h->fd, got, BYTES, 0) == BYTES);
    for (int i = 0; i < BYTES; i++) CHECK(got[i] == 'a');
  }
  if ((h->flags & O_ACCMODE) == O_RDWR) {
    memset(got, 'a', BYTES);
    CHECK(pwrite(h->fd, got, BYTES, 0) == BYTES);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int place = 0; place < PLACES; place++)
    for (int i = 0; i < FLAGS; i++) hold(kFlags[i], place);
  for (int i = 0; i < DIRECTORIES; i++) remember(open(directory, kDirectories[i]), 0);
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < count; i++) check_one(&held[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(step);
  }
  for (int i = 0; i < count; i++) {
    char link[40], path[600];
    snprintf(link, sizeof link, "/proc/self/fd/%d", held[i].fd);
    const ssize_t got = readlink(link, path, sizeof path - 1);
    if (got > 0) path[got] = 0;
    if (got > 0 && !strncmp(path, "/dev/shm/", 9)) unlink(path);
  }
  finish();
  return 0;
}
