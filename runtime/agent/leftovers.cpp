// SPDX-License-Identifier: Apache-2.0
#include "agent/leftovers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "halves/layout.h"

namespace fermata::agent {

namespace {

constexpr char kSharedMemory[] = "/dev/shm/";
// As the launcher: this rank could not be started.
constexpr int kExitRefused = 70;
// What a rank's byte says of it.
constexpr u32 kRanksMax = 1 << 20;
constexpr char kRuns = 'R', kEnded = 'F';

int ranks_file = -1;

struct MappedFile {
  u64 start = 0;
  dev_t device = 0;
  u64 inode = 0;
  const char* path = "";
};

// One line of /proc/self/maps; false where it names no file directly in /dev/shm.
bool parse(char* line, MappedFile& out) {
  unsigned long start = 0, inode = 0;
  unsigned major = 0, minor = 0;
  int path_at = 0;
  if (sscanf(line, "%lx-%*x %*s %*x %x:%x %lu %n", &start, &major, &minor, &inode, &path_at) < 4)
    return false;
  char* const path = line + path_at;
  path[strcspn(path, "\n")] = 0;
  constexpr u64 kLength = sizeof(kSharedMemory) - 1;
  if (strncmp(path, kSharedMemory, kLength) != 0 || strchr(path + kLength, '/')) return false;
  out = MappedFile{start, makedev(major, minor), inode, path};
  return true;
}

// The name may be somebody else's by now.
bool is_still_there(const MappedFile& file) {
  struct stat info;
  return lstat(file.path, &info) == 0 && info.st_ino == file.inode &&
         info.st_dev == file.device && info.st_uid == geteuid();
}

[[noreturn]] void refuse_second(u32 rank, pid_t first) {
  dprintf(2,
          "fermata: rank %u of this job runs already, as process %d; two would write to the same "
          "files\n  hint: end one of the two runs, or give this one another --name\n",
          rank, int(first));
  _exit(kExitRefused);
}

// Nobody is told if it fails: then less is known of this rank.
void leave_word(u32 rank, char word) {
  if (rank < kRanksMax) (void)!pwrite(ranks_file, &word, 1, rank);
}

void take_lock(u32 rank) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  // This process may have it already, if it was another program before.
  for (int tries = 0; tries < 1000 && fcntl(ranks_file, F_SETLK, &lock) != 0; tries++) {
    if (errno != EAGAIN && errno != EACCES) return;  // no locks here
    struct flock other = lock;
    if (fcntl(ranks_file, F_GETLK, &other) != 0) return;
    if (other.l_type == F_UNLCK) continue;  // it has just ended
    // One on another host has no number here; whoever started this run knows of it.
    if (other.l_pid > 0) refuse_second(rank, other.l_pid);
    return;
  }
}

}  // namespace

void lock_rank(const char* path, u32 rank) {
  if (path[0] == 0) return;
  ranks_file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (ranks_file < 0) return;
  take_lock(rank);  // the descriptor stays open: closing it would end the lock
  leave_word(rank, kRuns);
}

void note_end(u32 rank) {
  if (ranks_file >= 0) leave_word(rank, kEnded);
}

void remove_library_files() {
  FILE* const maps = fopen("/proc/self/maps", "re");
  if (maps == nullptr) return;
  char line[4352];
  while (fgets(line, sizeof(line), maps)) {
    MappedFile file;
    if (parse(line, file) && !in_upper(file.start) && is_still_there(file)) unlink(file.path);
  }
  fclose(maps);
}

}  // namespace fermata::agent
