// SPDX-License-Identifier: Apache-2.0
// Row: owner, group, permissions, times, attributes and flags of deleted files
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "directory.h"

enum { FILES = 4 };
static int files[FILES], has_attribute[FILES], has_flags[FILES];
static const mode_t kModes[FILES] = {0640, 04711, 0400, 02754};
static const char kValue[] = "a\0b\377c";
static uid_t user;
static gid_t group;

// The user may give a file away only as root.
static void make_owner(void) {
  user = geteuid() ? geteuid() : 12345;
  group = geteuid() ? getegid() : 23456;
}

static void give(int i) {
  const struct timespec times[2] = {{1000000000 + i, 5}, {1100000000 + i, 7}};
  CHECK(fchown(files[i], user, group) == 0 && fchmod(files[i], kModes[i]) == 0);
  has_attribute[i] = fsetxattr(files[i], "user.what", kValue, sizeof kValue, 0) == 0;
  int flags = 0;
  if (ioctl(files[i], FS_IOC_GETFLAGS, &flags) == 0) {
    flags |= FS_NODUMP_FL;
    has_flags[i] = ioctl(files[i], FS_IOC_SETFLAGS, &flags) == 0;
  }
  CHECK(futimens(files[i], times) == 0);
}

static void check_file(int i) {
  struct stat info;
  char value[64];
  CHECK(fstat(files[i], &info) == 0 && info.st_nlink == 0);
  if (info.st_mode != (S_IFREG | kModes[i])) printf("file %d: mode %o\n", i, info.st_mode);
  CHECK(info.st_uid == user && info.st_gid == group && info.st_mode == (S_IFREG | kModes[i]));
  CHECK(info.st_mtim.tv_sec == 1100000000 + i && info.st_mtim.tv_nsec == 7);
  CHECK(info.st_atim.tv_sec == 1000000000 + i && info.st_atim.tv_nsec == 5);
  if (has_attribute[i]) CHECK(fgetxattr(files[i], "user.what", value, 64) == sizeof kValue);
  if (has_attribute[i]) CHECK(!memcmp(value, kValue, sizeof kValue));
  int flags = 0;
  if (has_flags[i]) CHECK(ioctl(files[i], FS_IOC_GETFLAGS, &flags) == 0 && flags & FS_NODUMP_FL);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  make_owner();
  files[0] = open(own_path("scratch"), O_RDWR | O_CREAT | O_EXCL | O_NOATIME, 0600);
  CHECK(files[0] >= 0 && unlink(own_path("scratch")) == 0);
  files[1] = open(directory, O_RDWR | O_TMPFILE, 0600);
  if (files[1] < 0) files[1] = memfd_create("instead", 0);
  files[2] = memfd_create("memory", 0);
  files[3] = open("/dev/shm", O_RDWR | O_TMPFILE, 0600);
  if (files[3] < 0) files[3] = memfd_create("instead", 0);
  for (int i = 0; i < FILES; i++) CHECK(files[i] >= 0 && write(files[i], "text", 4) == 4);
  for (int i = 0; i < FILES; i++) give(i);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int i = 0; i < FILES; i++) check_file(i);
    mix_int(step);
  }
  finish();
  return 0;
}
