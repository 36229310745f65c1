// SPDX-License-Identifier: Apache-2.0
// Each kind of memory that mmap, shmget, memfd_create and the huge page pool give, written in each
// way that it can be written, and compared in every step. Says which kind is wrong and continues;
// the checksum counts them. --size 1: there is a huge page pool. --only WORD: kinds whose names
// hold it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>

#include "../check.h"

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif
#define PAGE ((size_t)4096)
#define PAGES ((size_t)8)
#define HUGE_PAGES ((size_t)512)

enum source { ANONYMOUS, ZERO, DISK, TMPFS, MEMFD, SYSV };
enum writer {
  MAPPING,  // through the mapping, in every step
  ONCE,     // through the mapping, in the first step
  CHILD,    // a child does, in every step
  FILE_,    // through the descriptor, in every step; the mapping is never written
  BEFORE,   // nobody: the file had its contents when it was mapped
  BOTH,     // page 0 through the mapping, once; the others through the descriptor, in every step
  RANK_0,   // through the mapping, in every step, by rank 0 only
};
enum trait {
  HUGE = 1,
  DELETED = 2,      // the file has no name
  CLOSED = 4,       // no descriptor is left
  READ_ONLY = 8,    // protected after it was written
  SHUT = 16,        // PROT_NONE after it was written
  MOVED = 32,       // by mremap
  PARTED = 64,      // page 3 is unmapped
  SEALED = 128,
  MIDDLE = 256,     // of the file: its first page is not mapped
  DETACHED = 512,   // System V: attached for the moment of use only
  REMOVED = 1024,   // System V: marked for removal
  MAY_VANISH = 2048,// any page may become zeros
  UNTOUCHED = 4096, // not even read before step 16: a checkpoint meets it without pages
};

struct kind {
  const char *name;
  enum source source;
  int flags, traits;
  enum writer writer;
  unsigned char *memory;
  int fd, id, is_wrong;
};

static struct kind kinds[] = {
#define P MAP_PRIVATE
#define S MAP_SHARED
    {"private anonymous", ANONYMOUS, P, 0, MAPPING, 0, 0, 0, 0},
    {"private anonymous, populated", ANONYMOUS, P | MAP_POPULATE, 0, ONCE, 0, 0, 0, 0},
    {"private anonymous, not reserved", ANONYMOUS, P | MAP_NORESERVE, 0, ONCE, 0, 0, 0, 0},
    {"private anonymous, growing down",
     ANONYMOUS, P | MAP_GROWSDOWN | MAP_STACK, 0, MAPPING, 0, 0, 0, 0},
    {"private anonymous, locked", ANONYMOUS, P | MAP_LOCKED, 0, MAPPING, 0, 0, 0, 0},
    {"private anonymous, below 2 GiB", ANONYMOUS, P | MAP_32BIT, 0, MAPPING, 0, 0, 0, 0},
    {"private anonymous, protected", ANONYMOUS, P, READ_ONLY, ONCE, 0, 0, 0, 0},
    {"private anonymous, shut", ANONYMOUS, P, SHUT, ONCE, 0, 0, 0, 0},
    {"private anonymous, moved", ANONYMOUS, P, MOVED, MAPPING, 0, 0, 0, 0},
    {"private anonymous, in parts", ANONYMOUS, P, PARTED, MAPPING, 0, 0, 0, 0},
    {"private anonymous, droppable", ANONYMOUS, MAP_DROPPABLE, MAY_VANISH, MAPPING, 0, 0, 0, 0},
    {"private anonymous, huge pages", ANONYMOUS, P, HUGE, MAPPING, 0, 0, 0, 0},
    {"private anonymous, huge pages, written once", ANONYMOUS, P, HUGE, ONCE, 0, 0, 0, 0},
    {"private /dev/zero", ZERO, P, 0, MAPPING, 0, 0, 0, 0},
    {"shared anonymous", ANONYMOUS, S, 0, MAPPING, 0, 0, 0, 0},
    {"shared anonymous, written once", ANONYMOUS, S, 0, ONCE, 0, 0, 0, 0},
    {"shared anonymous, populated", ANONYMOUS, S | MAP_POPULATE, 0, ONCE, 0, 0, 0, 0},
    {"shared anonymous, not reserved", ANONYMOUS, S | MAP_NORESERVE, 0, ONCE, 0, 0, 0, 0},
    {"shared anonymous, locked", ANONYMOUS, S | MAP_LOCKED, 0, MAPPING, 0, 0, 0, 0},
    {"shared anonymous, protected", ANONYMOUS, S, READ_ONLY, ONCE, 0, 0, 0, 0},
    {"shared anonymous, shut", ANONYMOUS, S, SHUT, ONCE, 0, 0, 0, 0},
    {"shared anonymous, moved", ANONYMOUS, S, PARTED, MAPPING, 0, 0, 0, 0},
    {"shared anonymous, written by a child", ANONYMOUS, S, 0, CHILD, 0, 0, 0, 0},
    {"shared anonymous, below 2 GiB", ANONYMOUS, S | MAP_32BIT, 0, MAPPING, 0, 0, 0, 0},
    {"shared anonymous, huge pages", ANONYMOUS, S, HUGE, MAPPING, 0, 0, 0, 0},
    {"shared anonymous, huge pages, written once", ANONYMOUS, S, HUGE, ONCE, 0, 0, 0, 0},
    {"shared anonymous, huge pages, written by a child", ANONYMOUS, S, HUGE, CHILD, 0, 0, 0, 0},
    {"shared anonymous, huge pages, not reserved",
     ANONYMOUS, S | MAP_NORESERVE, HUGE, ONCE, 0, 0, 0, 0},
    {"shared /dev/zero", ZERO, S, 0, MAPPING, 0, 0, 0, 0},
    {"shared memfd", MEMFD, S, 0, MAPPING, 0, 0, 0, 0},
    {"shared memfd, closed", MEMFD, S, CLOSED, MAPPING, 0, 0, 0, 0},
    {"shared memfd, sealed", MEMFD, S, SEALED, MAPPING, 0, 0, 0, 0},
    {"shared memfd, written through the descriptor", MEMFD, S, 0, FILE_, 0, 0, 0, 0},
    {"shared memfd, in the middle", MEMFD, S, MIDDLE | CLOSED, MAPPING, 0, 0, 0, 0},
    {"shared memfd, huge pages", MEMFD, S, HUGE, MAPPING, 0, 0, 0, 0},
    {"shared memfd, huge pages, closed", MEMFD, S, HUGE | CLOSED, MAPPING, 0, 0, 0, 0},
    {"private memfd", MEMFD, P, 0, MAPPING, 0, 0, 0, 0},
    {"private memfd, closed", MEMFD, P, CLOSED, ONCE, 0, 0, 0, 0},
    {"private memfd, in the middle", MEMFD, P, MIDDLE, ONCE, 0, 0, 0, 0},
    {"private memfd, huge pages", MEMFD, P, HUGE, MAPPING, 0, 0, 0, 0},
    {"private memfd, huge pages, closed", MEMFD, P, HUGE | CLOSED, ONCE, 0, 0, 0, 0},
    {"private memfd, follows the descriptor", MEMFD, P, 0, FILE_, 0, 0, 0, 0},
    {"private memfd, follows unseen", MEMFD, P, UNTOUCHED, FILE_, 0, 0, 0, 0},
    {"private memfd, follows but for a page", MEMFD, P, 0, BOTH, 0, 0, 0, 0},
    {"System V", SYSV, 0, 0, MAPPING, 0, 0, 0, 0},
    {"System V, written once", SYSV, 0, 0, ONCE, 0, 0, 0, 0},
    {"System V, written by a child", SYSV, 0, 0, CHILD, 0, 0, 0, 0},
    {"System V, detached", SYSV, 0, DETACHED, MAPPING, 0, 0, 0, 0},
    {"System V, detached, written once", SYSV, 0, DETACHED, ONCE, 0, 0, 0, 0},
    {"System V, removed", SYSV, 0, REMOVED, MAPPING, 0, 0, 0, 0},
    {"System V, huge pages", SYSV, 0, HUGE, MAPPING, 0, 0, 0, 0},
    {"System V, huge pages, removed", SYSV, 0, HUGE | REMOVED, ONCE, 0, 0, 0, 0},
    {"System V, huge pages, detached", SYSV, 0, HUGE | DETACHED, ONCE, 0, 0, 0, 0},
    {"shared file", DISK, S, 0, MAPPING, 0, 0, 0, 0},
    {"shared file, closed", DISK, S, CLOSED, MAPPING, 0, 0, 0, 0},
    {"shared file, in the middle", DISK, S, MIDDLE, MAPPING, 0, 0, 0, 0},
    {"shared file, deleted", DISK, S, DELETED, MAPPING, 0, 0, 0, 0},
    {"shared file, deleted and closed", DISK, S, DELETED | CLOSED, MAPPING, 0, 0, 0, 0},
    {"shared file, written through the descriptor", DISK, S, 0, FILE_, 0, 0, 0, 0},
    {"shared file, deleted, written through the descriptor", DISK, S, DELETED, FILE_, 0, 0, 0, 0},
    {"shared file, written by rank 0", DISK, S, 0, RANK_0, 0, 0, 0, 0},
    {"private file", DISK, P, 0, MAPPING, 0, 0, 0, 0},
    {"private file, closed", DISK, P, CLOSED, ONCE, 0, 0, 0, 0},
    {"private file, data", DISK, P, CLOSED, BEFORE, 0, 0, 0, 0},
    {"private file, data unseen", DISK, P, CLOSED | UNTOUCHED, BEFORE, 0, 0, 0, 0},
    {"private file, deleted", DISK, P, DELETED, MAPPING, 0, 0, 0, 0},
    {"private file, deleted and closed", DISK, P, DELETED | CLOSED, ONCE, 0, 0, 0, 0},
    {"private file, follows the descriptor", DISK, P, 0, FILE_, 0, 0, 0, 0},
    {"private file, follows unseen", DISK, P, UNTOUCHED, FILE_, 0, 0, 0, 0},
    {"private file, follows but for a page", DISK, P, MIDDLE, BOTH, 0, 0, 0, 0},
    {"private file, deleted, follows the descriptor", DISK, P, DELETED, FILE_, 0, 0, 0, 0},
    {"private file, deleted, follows but for a page", DISK, P, DELETED, BOTH, 0, 0, 0, 0},
    {"shared file in memory", TMPFS, S, 0, MAPPING, 0, 0, 0, 0},
    {"shared file in memory, deleted", TMPFS, S, DELETED | CLOSED, MAPPING, 0, 0, 0, 0},
    {"shared file in memory, written by rank 0", TMPFS, S, CLOSED, RANK_0, 0, 0, 0, 0},
    {"shared file in memory, written through the descriptor", TMPFS, S, 0, FILE_, 0, 0, 0, 0},
    {"private file in memory", TMPFS, P, 0, MAPPING, 0, 0, 0, 0},
    {"private file in memory, closed", TMPFS, P, CLOSED, ONCE, 0, 0, 0, 0},
    {"private file in memory, deleted", TMPFS, P, DELETED, ONCE, 0, 0, 0, 0},
    {"private file in memory, follows the descriptor", TMPFS, P, 0, FILE_, 0, 0, 0, 0},
    {"private file in memory, follows but for a page", TMPFS, P, 0, BOTH, 0, 0, 0, 0},
    {"private file in memory, deleted, follows the descriptor",
     TMPFS, P, DELETED, FILE_, 0, 0, 0, 0},
#undef P
#undef S
};
#define KINDS ((int)(sizeof kinds / sizeof *kinds))

static const char *directory;
static int first_pid;

static size_t pages_of(const struct kind *k) { return k->traits & HUGE ? HUGE_PAGES : PAGES; }
static size_t bytes_of(const struct kind *k) { return pages_of(k) * PAGE; }
static size_t file_offset(const struct kind *k) { return k->traits & MIDDLE ? PAGE : 0; }

static void fill(const struct kind *k, unsigned char *page, size_t number, int step) {
  const int owner = k->writer == RANK_0 ? 0 : rank;
  const size_t seed =
      (size_t)(k - kinds) * 131 + (size_t)owner * 17 + number * 7 + (size_t)step * 29;
  for (size_t i = 0; i < PAGE; i++) page[i] = (unsigned char)(seed + i * 3 + (i >> 8) + 1);
}

static void write_mapped(const struct kind *k, size_t from, size_t to, int step) {
  for (size_t page = from; page < to; page++)
    if (!(k->traits & PARTED) || page != 3) fill(k, k->memory + page * PAGE, page, step);
}

static void write_file(const struct kind *k, size_t from, int step) {
  unsigned char page[PAGE];
  for (size_t i = from; i < pages_of(k); i++) {
    fill(k, page, i, step);
    CHECK(pwrite(k->fd, page, PAGE, (off_t)(i * PAGE + file_offset(k))) == (ssize_t)PAGE);
  }
}

static int open_file(struct kind *k) {
  char path[4200];
  const int shared = k->writer == RANK_0, huge = k->traits & HUGE;
  if (k->source == MEMFD)
    return memfd_create(k->name, MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0u));
  if (k->source == ZERO) return open("/dev/zero", O_RDWR);
  snprintf(path, sizeof path, "%s/kinds.%d.%d.%d", k->source == TMPFS ? "/dev/shm" : directory,
           first_pid, (int)(k - kinds), shared ? 0 : rank);
  const int create = !shared || rank == 0;
  if (!create) MPI_Barrier(MPI_COMM_WORLD);
  const int fd = open(path, create ? O_RDWR | O_CREAT : O_RDWR, 0600);
  CHECK(fd >= 0);
  if (create) CHECK(ftruncate(fd, (off_t)(bytes_of(k) + file_offset(k))) == 0);
  if (shared && create) MPI_Barrier(MPI_COMM_WORLD);
  if (k->traits & DELETED) CHECK(unlink(path) == 0);
  return fd;
}

static void remove_files(void) {
  for (struct kind *k = kinds; k < kinds + KINDS; k++) {
    char path[4200];
    snprintf(path, sizeof path, "%s/kinds.%d.%d.%d", k->source == TMPFS ? "/dev/shm" : directory,
             first_pid, (int)(k - kinds), rank);
    if (k->memory && (k->source == TMPFS || k->source == DISK)) (void)unlink(path);
  }
}

static unsigned char *attach(const struct kind *k) {
  unsigned char *at = shmat(k->id, NULL, 0);
  CHECK(at != (void *)-1);
  return at;
}

static void make_segment(struct kind *k) {
  k->id = shmget(IPC_PRIVATE, bytes_of(k), IPC_CREAT | 0600 | (k->traits & HUGE ? SHM_HUGETLB : 0));
  CHECK(k->id >= 0);
  k->memory = attach(k);
  if (k->traits & REMOVED) CHECK(shmctl(k->id, IPC_RMID, NULL) == 0);
}

/// Neighbours never merge: there is an unmapped page behind each.
static void make(struct kind *k) {
  const int is_read = k->writer == FILE_ || k->writer == BEFORE;
  const int prot = PROT_READ | (is_read ? 0 : PROT_WRITE);
  int flags = k->flags;
  k->fd = -1;
  if (k->source == SYSV) return make_segment(k);
  if (k->traits & HUGE && k->source == ANONYMOUS) flags |= MAP_HUGETLB;
  if (k->source == ANONYMOUS) flags |= MAP_ANONYMOUS;
  else k->fd = open_file(k);
  CHECK(k->source == ANONYMOUS || k->fd >= 0);
  if (k->source == MEMFD) CHECK(ftruncate(k->fd, (off_t)(bytes_of(k) + file_offset(k))) == 0);
  if (k->writer == FILE_ || k->writer == BOTH) write_file(k, 0, 0);
  if (k->writer == BEFORE) write_file(k, 0, 1);
  unsigned char *p = mmap(NULL, bytes_of(k), prot, flags, k->fd, (off_t)file_offset(k));
  if (p == MAP_FAILED && k->traits & MAY_VANISH) return;  // an older kernel
  CHECK(p != MAP_FAILED);
  k->memory = p;
  if (k->traits & MOVED) {
    k->memory = mremap(p, PAGES / 2 * PAGE, PAGES * PAGE, MREMAP_MAYMOVE);
    CHECK(k->memory != MAP_FAILED && munmap(p + PAGES / 2 * PAGE, PAGES / 2 * PAGE) == 0);
  }
  if (k->traits & PARTED) CHECK(munmap(p + 3 * PAGE, PAGE) == 0);
  if (k->traits & CLOSED) close(k->fd), k->fd = -1;
}

static void write_once(struct kind *k) {
  if (k->writer == ONCE) write_mapped(k, 0, pages_of(k), 1);
  if (k->writer == BOTH) write_mapped(k, 0, 1, 1);
  if (k->traits & READ_ONLY) CHECK(mprotect(k->memory, bytes_of(k), PROT_READ) == 0);
  if (k->traits & SHUT) CHECK(mprotect(k->memory, bytes_of(k), PROT_NONE) == 0);
  if (k->traits & SEALED) CHECK(fcntl(k->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  if (k->traits & DETACHED) CHECK(shmdt(k->memory) == 0);
}

static void write_in_child(const struct kind *k, int step) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    write_mapped(k, 0, pages_of(k), step);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void write_step(struct kind *k, int step) {
  if (step == 1) write_once(k);
  if (k->writer == CHILD) return write_in_child(k, step);
  if (k->writer == FILE_) return write_file(k, 0, step);
  if (k->writer == BOTH) return write_file(k, 1, step);
  if (k->writer == ONCE || k->writer == BEFORE || (k->writer == RANK_0 && rank)) return;
  if (k->traits & DETACHED) k->memory = attach(k);
  write_mapped(k, 0, pages_of(k), step);
  if (k->traits & DETACHED) CHECK(shmdt(k->memory) == 0);
}

static int is_zero(const unsigned char *page) {
  for (size_t i = 0; i < PAGE; i++)
    if (page[i]) return 0;
  return 1;
}

static void compare(struct kind *k, int step) {
  unsigned char expected[PAGE];
  for (size_t page = 0; page < pages_of(k) && !k->is_wrong; page++) {
    const unsigned char *found = k->memory + page * PAGE;
    if (k->traits & PARTED && page == 3) {
      k->is_wrong = msync(k->memory + page * PAGE, PAGE, MS_ASYNC) == 0;
      continue;
    }
    const int once = k->writer == ONCE || k->writer == BEFORE || (k->writer == BOTH && page == 0);
    fill(k, expected, page, once ? 1 : step);
    if (memcmp(found, expected, PAGE) == 0) continue;
    if (k->traits & MAY_VANISH && is_zero(found)) continue;
    printf("WRONG: %s, rank %d, page %zu in step %d: byte 0 is %d, not %d\n", k->name, rank, page,
           step, found[0], expected[0]);
    fflush(stdout);
    k->is_wrong = 1;
  }
}

/// Whether the kernel still may drop its pages (VmFlags in smaps, proc(5)).
static int is_droppable(const unsigned char *memory) {
  char line[512], head[32];
  int inside = 0, found = 0;
  snprintf(head, sizeof head, "%lx-", (unsigned long)memory);
  FILE *maps = fopen("/proc/self/smaps", "r");
  CHECK(maps);
  while (fgets(line, sizeof line, maps)) {
    if (!inside) inside = !strncmp(line, head, strlen(head));
    if (!inside || strncmp(line, "VmFlags:", 8)) continue;
    found = strstr(line, " dp") != NULL;
    break;
  }
  fclose(maps);
  return found;
}

static void compare_step(struct kind *k, int step) {
  if (k->traits & UNTOUCHED && step < 16) return;
  if (k->traits & DETACHED) k->memory = attach(k);
  if (k->traits & SHUT) CHECK(mprotect(k->memory, bytes_of(k), PROT_READ) == 0);
  compare(k, step);
  if (k->traits & MAY_VANISH && !k->is_wrong && !is_droppable(k->memory)) {
    printf("WRONG: %s is not droppable in step %d\n", k->name, step);
    k->is_wrong = 1;
  }
  if (k->traits & SHUT) CHECK(mprotect(k->memory, bytes_of(k), PROT_NONE) == 0);
  if (k->traits & DETACHED) CHECK(shmdt(k->memory) == 0);
}

static int is_wanted(const struct kind *k, int huge, int argc, char **argv) {
  if (k->traits & HUGE && !huge) return 0;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--only") && !strstr(k->name, argv[i + 1])) return 0;
  return 1;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  directory = directory_option(argc, argv);
  first_pid = (int)getpid();
  MPI_Bcast(&first_pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (struct kind *k = kinds; k < kinds + KINDS; k++)
    if (is_wanted(k, o.size, argc, argv)) make(k);
  for (int step = 1; step <= o.steps; step++) {
    for (struct kind *k = kinds; k < kinds + KINDS; k++)
      if (k->memory) write_step(k, step);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (struct kind *k = kinds; k < kinds + KINDS; k++)
      if (k->memory) compare_step(k, step);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (struct kind *k = kinds; k < kinds + KINDS; k++) mix_int(k->is_wrong);
  remove_files();
  for (struct kind *k = kinds; k < kinds + KINDS; k++)
    if (k->memory && k->source == SYSV && !(k->traits & REMOVED)) shmctl(k->id, IPC_RMID, NULL);
  finish();
}
