// SPDX-License-Identifier: Apache-2.0
// Brings itself into the state that --kind NAME says, and looks at it in each step. The test knows
// what becomes of it: a checkpoint refuses it by name, a restart brings it back, or it is lost, as
// docs/reference/limits.md says, and then this checks that very loss. Prints UNABLE where the
// machine does not have that state, or does not let this user have it.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../check.h"

enum { kSeal = 462, kSetMerge = 67, kGetMerge = 68, kPage = 4096, kIp6PacketInfo = 50 };

static char directory[500];
static int fd = -1;

// Whether the kernel knows the process by another id than it goes by.
static int restarted(void) {
  int pid = -1;
  FILE *file = fopen("/proc/self/stat", "r");
  CHECK(file && fscanf(file, "%d", &pid) == 1);
  fclose(file);
  return pid != (int)getpid();
}

// --- refused -------------------------------------------------------------------------------------

static int multicast(void) {
  const struct ip_mreq group = {{inet_addr("239.1.2.3")}, {htonl(INADDR_LOOPBACK)}};
  fd = socket(AF_INET, SOCK_DGRAM, 0);
  return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group);
}
static int packet_info(void) {
  const struct in6_pktinfo from = {IN6ADDR_LOOPBACK_INIT, 1};
  fd = socket(AF_INET6, SOCK_DGRAM, 0);
  return setsockopt(fd, IPPROTO_IPV6, kIp6PacketInfo, &from, sizeof from);
}
static int signatures(void) {
  struct tcp_md5sig key = {.tcpm_keylen = 4, .tcpm_key = "abcd"};
  const struct sockaddr_in peer = {AF_INET, htons(9), {htonl(INADDR_LOOPBACK)}, {0}};
  memcpy(&key.tcpm_addr, &peer, sizeof peer);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  return setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG, &key, sizeof key);
}
static int namespaces(void) { return unshare(CLONE_NEWUTS); }
static int root(void) { return chroot("/"); }
static int landlock(void) {
  const struct landlock_ruleset_attr rights = {.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_BLOCK};
  const int rules = (int)syscall(SYS_landlock_create_ruleset, &rights, sizeof rights, 0);
  if (rules < 0) return -1;
  const int done = (int)syscall(SYS_landlock_restrict_self, rules, 0);
  close(rules);
  return done;
}
static int filter(void) {
  struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {1, allow};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
static int new_session_keys(void) { return (int)syscall(SYS_keyctl, 1, NULL) < 0 ? -1 : 0; }
static int ports(void) { return ioperm(0x80, 1, 1); }
static int layout(void) {
  const int before = personality(0xffffffff);
  return personality((unsigned)before | ADDR_COMPAT_LAYOUT) < 0 ? -1 : 0;
}
static int capabilities_kept(void) { return prctl(PR_SET_KEEPCAPS, 1); }
static int memory_errors(void) {
  return prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0);
}
static int no_time_stamps(void) { return prctl(PR_SET_TSC, PR_TSC_SIGSEGV); }
static int mitigation(void) {
  return prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, 0, 0);
}
static int deadline(void) {
  cpu_set_t all;  // a bound thread may not
  memset(&all, 0xff, sizeof all);
  if (sched_setaffinity(0, sizeof all, &all)) return -1;
  const struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } wanted = {48, 6, 1, 0, 0, 100000, 100000000, 100000000};
  return (int)syscall(SYS_sched_setattr, 0, &wanted, 0);
}

// Those that concern a thread, and that its MPI is not to meet.
static struct apart {
  int (*make)(void);
  volatile int result, ends;
} apart;
static void *stay_apart(void *unused) {
  apart.result = apart.make() == 0 ? 1 : -1;
  while (!apart.ends) pause_ms(1);
  return unused;
}
static pthread_t thread;
static int in_thread(int (*make)(void)) {
  apart.make = make;
  CHECK(pthread_create(&thread, NULL, stay_apart, NULL) == 0);
  while (!apart.result) pause_ms(1);
  return apart.result > 0 ? 0 : -1;
}
static int no_time_stamps_apart(void) { return in_thread(no_time_stamps); }
static int deadline_apart(void) { return in_thread(deadline); }

// --- kept ----------------------------------------------------------------------------------------

static int not_dumped(void) { return prctl(PR_SET_DUMPABLE, 0); }
static void look_not_dumped(void) { CHECK(prctl(PR_GET_DUMPABLE) == 0); }
static int merged(void) { return prctl(kSetMerge, 1, 0, 0, 0); }
static void look_merged(void) { CHECK(prctl(kGetMerge, 0, 0, 0, 0) == 1); }
static char *sealed_page;
static int sealed(void) {
  sealed_page = mmap(NULL, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(sealed_page != MAP_FAILED);
  sealed_page += kPage;
  strcpy(sealed_page, "sealed");
  return (int)syscall(kSeal, sealed_page, (size_t)kPage, 0ul);
}
static void look_sealed(void) {
  CHECK(!strcmp(sealed_page, "sealed"));
  CHECK(mprotect(sealed_page, kPage, PROT_NONE) == -1 && errno == EPERM);
  CHECK(mprotect(sealed_page + kPage, kPage, PROT_NONE) == 0);
}

// --- lost, or answered in another way ------------------------------------------------------------

static struct stat removed_before;
static int removed_file(void) {
  char path[600];
  snprintf(path, sizeof path, "%s/removed-%d", directory, (int)getpid());
  fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  CHECK(fd >= 0 && unlink(path) == 0 && fstat(fd, &removed_before) == 0);
  pause_ms(20);  // its ctime is not to be the moment of the restart by chance
  return 0;
}
static void look_removed_file(void) {
  struct stat now;
  CHECK(fstat(fd, &now) == 0 && now.st_nlink == 0 && now.st_size == removed_before.st_size);
  CHECK(now.st_mtim.tv_nsec == removed_before.st_mtim.tv_nsec);
  CHECK(!restarted() == (now.st_ctim.tv_sec == removed_before.st_ctim.tv_sec &&
                         now.st_ctim.tv_nsec == removed_before.st_ctim.tv_nsec));
}
static int sender(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  fd = signalfd(-1, &set, SFD_CLOEXEC);
  return fd < 0;
}
static void look_sender(void) {
  struct signalfd_siginfo info;
  CHECK(pthread_kill(pthread_self(), SIGUSR2) == 0);
  CHECK(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR2);
  CHECK((info.ssi_pid == (uint32_t)getpid()) == !restarted());
}
static int64_t processor_ns(void) {
  struct timespec t;
  CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}
static int64_t processor_begun;
static int processor_time(void) {
  while (processor_ns() < 3000000000) compute_ms(1);  // more than a restart takes
  processor_begun = processor_ns();
  return 0;
}
static void look_processor_time(void) { CHECK(restarted() == (processor_ns() < processor_begun)); }
static int sequences(void) { return 0; }
static void look_sequences(void) {
  static char area[32] __attribute__((aligned(32)));
  CHECK(syscall(SYS_rseq, area, 32, 0, 0x53053053) == -1 && errno == ENOSYS);
}
static void look_dispatch(void) {
  CHECK(prctl(59, 1, 0l, 0l, NULL) == -1 && errno == EINVAL);  // PR_SET_SYSCALL_USER_DISPATCH
}
static int tracing(void) { return 0; }
static void look_tracing(void) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    _exit(munmap(mmap(NULL, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), kPage) ? 1 : 7);
  }
  int status = 0, traps = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
  CHECK(WSTOPSIG(status) == SIGSTOP || WSTOPSIG(status) == SIGSYS);
  while (WIFSTOPPED(status)) {
    const int signal = WSTOPSIG(status);
    traps += signal == SIGSYS;
    CHECK(ptrace(PTRACE_CONT, child, NULL, signal == SIGSTOP ? 0 : (long)signal) == 0);
    CHECK(waitpid(child, &status, 0) == child);
  }
  CHECK(traps > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
static volatile sig_atomic_t notices;
static void count_notice(int signal) { notices += signal == SIGUSR2; }
static int directory_notices(void) {
  const struct sigaction action = {.sa_handler = count_notice, .sa_flags = SA_RESTART};
  sigaction(SIGUSR2, &action, NULL);
  fd = open(directory, O_RDONLY | O_DIRECTORY);
  if (fcntl(fd, F_SETSIG, SIGUSR2)) return -1;
  return fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT);
}
static void look_directory_notices(void) {
  static int made;
  char path[600];
  const int before = notices;
  snprintf(path, sizeof path, "%s/made-%d-%d", directory, (int)getpid(), made++);
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  CHECK(file >= 0 && close(file) == 0);
  for (int i = 0; i < 100 && notices == before; i++) pause_ms(1);
  CHECK(restarted() || notices > before);
}

static const struct kind {
  const char *name;
  int (*make)(void);
  void (*look)(void);
} kKinds[] = {{"multicast", multicast, NULL}, {"packet_info", packet_info, NULL},
              {"signatures", signatures, NULL}, {"namespaces", namespaces, NULL},
              {"root", root, NULL}, {"landlock", landlock, NULL}, {"filter", filter, NULL},
              {"new_session_keys", new_session_keys, NULL}, {"ports", ports, NULL},
              {"layout", layout, NULL}, {"capabilities_kept", capabilities_kept, NULL},
              {"memory_errors", memory_errors, NULL}, {"mitigation", mitigation, NULL},
              {"no_time_stamps", no_time_stamps_apart, NULL}, {"deadline", deadline_apart, NULL},
              {"not_dumped", not_dumped, look_not_dumped}, {"merged", merged, look_merged},
              {"sealed", sealed, look_sealed}, {"removed_file", removed_file, look_removed_file},
              {"sender", sender, look_sender},
              {"processor_time", processor_time, look_processor_time},
              {"sequences", sequences, look_sequences}, {"dispatch", sequences, look_dispatch},
              {"tracing", tracing, look_tracing},
              {"directory_notices", directory_notices, look_directory_notices}};

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  snprintf(directory, sizeof directory, "%.400s", directory_option(argc, argv));
  const struct kind *kind = NULL;
  for (int i = 1; i + 1 < argc; i++)
    for (size_t k = 0; k < sizeof kKinds / sizeof *kKinds; k++)
      if (!strcmp(argv[i], "--kind") && !strcmp(argv[i + 1], kKinds[k].name)) kind = &kKinds[k];
  CHECK(kind != NULL);
  int able = kind->make() == 0, all;  // sets errno, but where a thread does it
  if (!able) printf("UNABLE: errno %d\n", errno);
  fflush(stdout);
  MPI_Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  for (int step = 1; all && step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    if (kind->look) kind->look();
    mix_int(step);
  }
  apart.ends = 1;
  if (apart.make) pthread_join(thread, NULL);
  if (all) finish();
  else MPI_Finalize();
  return 0;
}
