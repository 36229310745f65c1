// SPDX-License-Identifier: Apache-2.0
// The functions of the kernel's vdso. Each is called so that every register which a function must
// keep holds a number that is looked at afterwards.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "loops.h"

enum { kTimes = 200 };

// Calls function(a, b) with numbers in rbx, rbp and r12 to r15; returns its result, or -77 if one
// of them is another one afterwards.
static long call_kept(const void *function, const void *a, const void *b) {
  long result;
  __asm__ volatile(
      "pushq %%rbp\n\t"
      "pushq %%rbx\n\t"
      "movq %%rsp, %%rbp\n\t"
      "subq $24, %%rsp\n\t"
      "andq $-16, %%rsp\n\t"
      "movq %%rbp, (%%rsp)\n\t"
      "movl $0x1111, %%ebx\n\t"
      "movl $0x2222, %%ebp\n\t"
      "movl $0x3333, %%r12d\n\t"
      "movl $0x4444, %%r13d\n\t"
      "movl $0x5555, %%r14d\n\t"
      "movl $0x6666, %%r15d\n\t"
      "call *%%rcx\n\t"
      "cltq\n\t"
      "cmpq $0x1111, %%rbx\n\t"
      "jne 1f\n\t"
      "cmpq $0x2222, %%rbp\n\t"
      "jne 1f\n\t"
      "cmpq $0x3333, %%r12\n\t"
      "jne 1f\n\t"
      "cmpq $0x4444, %%r13\n\t"
      "jne 1f\n\t"
      "cmpq $0x5555, %%r14\n\t"
      "jne 1f\n\t"
      "cmpq $0x6666, %%r15\n\t"
      "je 2f\n"
      "1:\tmovq $-77, %%rax\n"
      "2:\tmovq (%%rsp), %%rsp\n\t"
      "popq %%rbx\n\t"
      "popq %%rbp\n\t"
      : "=a"(result), "+c"(function), "+D"(a), "+S"(b)
      :
      : "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",
        "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
        "xmm14", "xmm15", "memory", "cc");
  return result;
}

static void look(clockid_t clock, int64_t least_s) {
  for (int i = 0; i < kTimes; i++) {
    struct timespec t = {-1, -1};
    EXPECT(call_kept((void *)clock_gettime, (void *)(long)clock, &t) == 0);
    EXPECT(t.tv_sec >= least_s && t.tv_sec < INT64_C(1) << 33);
    EXPECT(t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
  }
}

static const int64_t in_2020 = 1577836800;
static void monotonic(struct worker *w) { (void)w, look(CLOCK_MONOTONIC, 0); }
static void realtime(struct worker *w) { (void)w, look(CLOCK_REALTIME, in_2020); }
static void raw(struct worker *w) { (void)w, look(CLOCK_MONOTONIC_RAW, 0); }
static void coarse(struct worker *w) { (void)w, look(CLOCK_REALTIME_COARSE, in_2020); }
static void boot_time(struct worker *w) { (void)w, look(CLOCK_BOOTTIME, 0); }
static void atomic_time(struct worker *w) { (void)w, look(CLOCK_TAI, in_2020); }
static void process_time(struct worker *w) { (void)w, look(CLOCK_PROCESS_CPUTIME_ID, 0); }
static void thread_time(struct worker *w) { (void)w, look(CLOCK_THREAD_CPUTIME_ID, 0); }

static void time_of_day(struct worker *w) {
  (void)w;
  for (int i = 0; i < kTimes; i++) {
    struct timeval t = {-1, -1};
    struct timezone zone = {-77, -77};
    EXPECT(call_kept((void *)gettimeofday, &t, i % 2 ? &zone : NULL) == 0);
    EXPECT(t.tv_sec >= in_2020 && t.tv_usec >= 0 && t.tv_usec < 1000000);
    EXPECT(i % 2 == 0 || (zone.tz_minuteswest != -77 && zone.tz_dsttime != -77));
  }
}

static void seconds(struct worker *w) {
  (void)w;
  for (int i = 0; i < kTimes; i++) {
    time_t t = -1;
    const long now = call_kept((void *)time, &t, NULL);  // 32 bits of it
    EXPECT(now == (int)t && t >= in_2020);
  }
}

static void processor(struct worker *w) {
  (void)w;
  for (int i = 0; i < kTimes; i++) {
    unsigned processor = 7777, node = 7777;
    EXPECT(call_kept((void *)getcpu, &processor, &node) == 0);
    EXPECT(processor < 7777 && node < 7777);
  }
}

static void resolution(struct worker *w) {
  static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID,
                                     CLOCK_BOOTTIME, CLOCK_MONOTONIC_COARSE};
  (void)w;
  for (int i = 0; i < kTimes; i++) {
    struct timespec t = {-1, -1};
    EXPECT(call_kept((void *)clock_getres, (void *)(long)clocks[i % 5], &t) == 0);
    EXPECT(t.tv_sec == 0 && t.tv_nsec >= 1 && t.tv_nsec < 1000000000);
  }
}

static void tick_counter(struct worker *w) {
  uint64_t last = 0, begin = ticks();
  (void)w;
  while (last - begin < 100000) {
    last = ticks();
    if (last < begin) break;  // on another machine
  }
}

// --- a function of the vdso that a signal handler has interrupted -------------------------------
// It writes to a page that cannot be written to; the handler takes its time, on a stack of its own,
// then allows it, and the function continues, or begins again.

static __thread char *closed_page;
static __thread volatile int faults;

static void open_page(int signal, siginfo_t *info, void *context) {
  struct timespec t = {-1, -1};
  (void)signal, (void)context;
  EXPECT((char *)info->si_addr >= closed_page && (char *)info->si_addr < closed_page + 4096);
  faults++;
  spin(1000);
  EXPECT(clock_gettime(CLOCK_MONOTONIC, &t) == 0 && t.tv_nsec >= 0);
  EXPECT(mprotect(closed_page, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void make_page(struct worker *w) {
  static char stacks[2][65536];
  const stack_t stack = {.ss_sp = stacks[w->id], .ss_size = sizeof stacks[0]};
  struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  closed_page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(closed_page != MAP_FAILED && sigaltstack(&stack, NULL) == 0);
  EXPECT(sigaction(SIGSEGV, &action, NULL) == 0);
}

static void drop_page(struct worker *w) {
  const stack_t none = {.ss_flags = SS_DISABLE};
  (void)w;
  EXPECT(munmap(closed_page, 4096) == 0 && sigaltstack(&none, NULL) == 0);
}

static void faulting(struct worker *w) {
  const void *const functions[] = {(void *)clock_gettime, (void *)gettimeofday, (void *)time,
                                   (void *)getcpu, (void *)clock_getres};
  const int which = (int)(w->turn % 5);
  int64_t *const out = (int64_t *)(closed_page + 512);
  out[0] = out[1] = -1;
  faults = 0;
  EXPECT(mprotect(closed_page, 4096, PROT_NONE) == 0);
  const char *const first = which == 0 || which == 4 ? (char *)CLOCK_REALTIME : (char *)out;
  const char *const second = which == 0 || which == 4 ? (char *)out : NULL;
  const long result = call_kept(functions[which], first, second);
  if (faults == 0) {  // no vdso: the kernel says EFAULT
    EXPECT(result < 0 && mprotect(closed_page, 4096, PROT_READ | PROT_WRITE) == 0);
    return;
  }
  EXPECT(faults == 1);
  EXPECT(which == 2 ? result == (int)out[0] : result == 0);
  if (which < 3) EXPECT(out[0] >= in_2020);
  if (which == 3) EXPECT((unsigned)out[0] < 7777);
  if (which == 4) EXPECT(out[0] == 0 && out[1] > 0);
}

const struct loop clock_loops[] = {
    {"clock_monotonic", monotonic, NULL, NULL, 2, 0},
    {"clock_realtime", realtime, NULL, NULL, 2, 0},
    {"clock_raw", raw, NULL, NULL, 2, 0},
    {"clock_coarse", coarse, NULL, NULL, 2, 0},
    {"clock_boottime", boot_time, NULL, NULL, 2, 0},
    {"clock_tai", atomic_time, NULL, NULL, 2, 0},
    {"clock_process", process_time, NULL, NULL, 2, 0},
    {"clock_thread", thread_time, NULL, NULL, 2, 0},
    {"gettimeofday", time_of_day, NULL, NULL, 2, 0},
    {"time", seconds, NULL, NULL, 2, 0},
    {"getcpu", processor, NULL, NULL, 2, 0},
    {"clock_getres", resolution, NULL, NULL, 2, 0},
    {"rdtsc", tick_counter, NULL, NULL, 2, 0},
    {"clock_fault", faulting, make_page, drop_page, 2, 0},
    {NULL, NULL, NULL, NULL, 0, 0},
};
