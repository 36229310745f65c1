// SPDX-License-Identifier: Apache-2.0
// Holds one descriptor of the kind that --kind NAME says. Either a checkpoint refuses it by name,
// or a restart brings it back: nothing may be committed and then not start. Prints UNABLE where the
// machine does not have that kind.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "../check.h"

static char path[500], other[500];
static int flags;
static struct stat first;
enum { BYTES = 300000 };

static int device(void) {
  if (mknod(path, S_IFCHR | 0666, makedev(1, 3)) != 0) return -1;
  const int fd = open(path, O_RDWR | O_NOFOLLOW);
  CHECK(unlink(path) == 0);
  return fd;
}
static int of_other_process(void) {
  snprintf(path, sizeof path, "/proc/%d/stat", (int)getppid());
  return open(path, O_RDONLY);
}
static int of_descriptor(void) { return open("/proc/self/fdinfo/0", O_RDONLY); }
static int namespace(void) { return open("/proc/self/ns/uts", O_RDONLY); }
static int removed_directory(void) {
  CHECK(mkdir(path, 0700) == 0);
  const int fd = open(path, O_RDONLY | O_DIRECTORY);
  CHECK(rmdir(path) == 0);
  return fd;
}
static int closed_directory(void) {
  CHECK(mkdir(path, 0700) == 0);
  snprintf(other, sizeof other, "%.480s/file", path);
  const int fd = open(other, O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0 && chmod(path, 0) == 0);
  return fd;
}
static int linked(void) {
  char link[40];
  snprintf(other, sizeof other, "%s", path);
  *strrchr(other, '/') = 0;
  const int fd = open(other, O_RDWR | O_TMPFILE, 0600);
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (fd >= 0 && linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0) return -1;
  return fd;
}
static int file(int how, mode_t mode, int removed) {
  static char data[BYTES];
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  CHECK(fd >= 0 && write(fd, data, BYTES) == BYTES);
  if (how != O_RDWR) {
    close(fd);
    fd = open(path, how);
  }
  CHECK(fd >= 0 && fchmod(fd, mode) == 0);
  if (removed) CHECK(unlink(path) == 0);
  return fd;
}
static int unreadable(void) { return file(O_RDWR, 0, 0); }
static int unreadable_removed(void) { return file(O_RDWR, 0, 1); }
static int write_only_removed(void) { return file(O_WRONLY, 0200, 1); }
static int read_only_written(void) { return file(O_WRONLY, 0444, 0); }
static int small_limit(void) {
  const struct rlimit limit = {4096, 1 << 30};
  const int fd = file(O_RDWR, 0600, 1);
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  return fd;
}
/// Little more than there is now: another MPI may take more than that.
static int small_memory(void) {
  const int fd = file(O_RDWR, 0600, 1);
  unsigned long pages, data;
  FILE *const told = fopen("/proc/self/statm", "r");
  CHECK(told && fscanf(told, "%lu %*u %*u %*u %*u %lu", &pages, &data) == 2);
  fclose(told);
  const rlim_t more = 8 << 20;
  const struct rlimit space = {pages * 4096 + more, RLIM_INFINITY};
  const struct rlimit memory = {data * 4096 + more, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &space) == 0 && setrlimit(RLIMIT_DATA, &memory) == 0);
  return fd;
}
static int notices(void) { return fanotify_init(FAN_CLASS_NOTIF, O_RDONLY); }
static int in_root(void) {
  snprintf(path, sizeof path, "/fermata-test-%d", (int)getpid());
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) CHECK(unlink(path) == 0);
  return fd;
}
static int bpf_filter(void) {
  const struct bpf_insn program[] = {{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 9},
                                     {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
  union bpf_attr load = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER};
  load.insns = (uintptr_t)program;
  load.insn_cnt = 2;
  load.license = (uintptr_t) "GPL";
  const int loaded = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (loaded < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_BPF, &loaded, sizeof loaded)) return -1;
  close(loaded);
  return fd;
}
static int ip_options(void) {
  const char nothing[4] = {1, 1, 1, 1};
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  return setsockopt(fd, IPPROTO_IP, IP_OPTIONS, nothing, sizeof nothing) ? -1 : fd;
}
static int address_alone(void) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  const struct sockaddr_in local = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
  if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on)) return -1;
  return bind(fd, (const struct sockaddr *)&local, sizeof local) ? -1 : fd;
}
static int path_of_fifo(void) {
  CHECK(mkfifo(path, 0600) == 0);
  return open(path, O_PATH);
}
static int path_of_link(void) {
  CHECK(symlink("/dev/null", path) == 0);
  return open(path, O_PATH | O_NOFOLLOW);
}
static int path_of_socket(void) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof name.sun_path, "hold-%d", (int)getpid());
  const int made = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(made, (const struct sockaddr *)&name, sizeof name)) return -1;
  close(made);
  return open(name.sun_path, O_PATH);
}
static int path_of_device(void) { return open("/dev/null", O_PATH); }

static const struct {
  const char *name;
  int (*make)(void);
} kKinds[] = {{"device", device}, {"of_other_process", of_other_process},
              {"of_descriptor", of_descriptor}, {"namespace", namespace},
              {"removed_directory", removed_directory}, {"closed_directory", closed_directory},
              {"linked", linked}, {"unreadable", unreadable},
              {"unreadable_removed", unreadable_removed},
              {"write_only_removed", write_only_removed},
              {"read_only_written", read_only_written}, {"small_limit", small_limit},
              {"small_memory", small_memory}, {"notices", notices}, {"in_root", in_root},
              {"bpf_filter", bpf_filter},
              {"ip_options", ip_options}, {"address_alone", address_alone},
              {"path_of_fifo", path_of_fifo}, {"path_of_link", path_of_link},
              {"path_of_socket", path_of_socket}, {"path_of_device", path_of_device}};

static struct rlimit limits[RLIM_NLIMITS];

static void read_limits(struct rlimit *out) {
  for (int i = 0; i < RLIM_NLIMITS; i++) CHECK(getrlimit(i, &out[i]) == 0);
}

/// Those of files and of memory; others may be lower where it is restarted.
static void check_limits(void) {
  struct rlimit now[RLIM_NLIMITS];
  read_limits(now);
  const int which[] = {RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_AS};
  for (int i = 0; i < 3; i++) CHECK(!memcmp(&now[which[i]], &limits[which[i]], sizeof *now));
}

static void check_held(int fd) {
  struct stat now;
  const int shown = ~(O_NOFOLLOW | O_TMPFILE);
  CHECK(fstat(fd, &now) == 0 && now.st_rdev == first.st_rdev);
  // A device comes back as the one of its number, with the permissions of that.
  const mode_t compared = S_ISCHR(first.st_mode) ? S_IFMT : S_IFMT | 07777;
  CHECK((now.st_mode & compared) == (first.st_mode & compared));
  CHECK((fcntl(fd, F_GETFL) & shown) == (flags & shown));
  if (!S_ISREG(now.st_mode) || now.st_size == 0) return;
  CHECK(now.st_size == first.st_size && now.st_uid == first.st_uid);
  char byte = 1;
  if ((flags & O_ACCMODE) != O_WRONLY) CHECK(pread(fd, &byte, 1, 5) == 1 && byte == 0);
  byte = 0;
  if ((flags & O_ACCMODE) != O_RDONLY) CHECK(pwrite(fd, &byte, 1, 5) == 1);
}

// 1 if it lies on a disk, as before, and not in memory.
static int is_on_disk(int fd) {
  char link[40], where[600] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  CHECK(readlink(link, where, sizeof where - 1) > 0);
  return strncmp(where, "/memfd:", 7) != 0;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  snprintf(path, sizeof path, "%.400s/held-%d-%d", directory_option(argc, argv), rank,
           (int)getpid());
  int fd = -1;
  for (int i = 1; i + 1 < argc; i++)
    for (size_t k = 0; k < sizeof kKinds / sizeof *kKinds; k++)
      if (!strcmp(argv[i], "--kind") && !strcmp(argv[i + 1], kKinds[k].name))
        fd = kKinds[k].make();
  if (fd < 0) printf("UNABLE: errno %d\n", errno);
  fflush(stdout);
  int able = fd >= 0, all;
  MPI_Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (!all) return MPI_Finalize();
  CHECK(fstat(fd, &first) == 0);
  flags = fcntl(fd, F_GETFL);
  const int on_disk = is_on_disk(fd);
  read_limits(limits);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    check_held(fd);
    check_limits();
    CHECK(is_on_disk(fd) == on_disk);
    mix_int(step);
  }
  finish();
  return 0;
}
