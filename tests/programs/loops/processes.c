// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "loops.h"

static void loading(struct worker *w) {
  static const char *const names[] = {"libanl.so.1", "libBrokenLocale.so.1"};
  void *const library = dlopen(names[w->id], RTLD_NOW | RTLD_LOCAL);
  EXPECT(library != NULL);
  EXPECT(dlclose(library) == 0);
}

static __thread uint64_t of_thread = 41;

static void *short_life(void *argument) {
  EXPECT(of_thread == 41);
  of_thread = (uint64_t)argument;
  return (void *)(of_thread + 1);
}

static void making_threads(struct worker *w) {
  pthread_t thread;
  void *result = NULL;
  const uint64_t number = w->turn << 1 | (uint64_t)w->id;
  EXPECT(pthread_create(&thread, NULL, short_life, (void *)number) == 0);
  EXPECT(pthread_join(thread, &result) == 0);
  EXPECT((uint64_t)result == number + 1);
}

// --- threads made by clone(2) while signals are open, as old C libraries do ----------------------

enum { kStackBytes = 65536 };
static char birth_stack[kStackBytes] __attribute__((aligned(64)));
static volatile uint32_t alive;  // cleared by the kernel
static volatile int lives;

// Comes before the new thread's first instruction, as a rule: that takes longer than to send it.
// What it interrupts is to be code of the program's or its libraries': nothing else is saved.
static void on_birth(int signal, siginfo_t *info, void *context) {
  const ucontext_t *const interrupted = context;
  Dl_info place;
  (void)signal, (void)info;
  EXPECT(dladdr((void *)interrupted->uc_mcontext.gregs[REG_RIP], &place) != 0);
  spin(1000);
}

static int live(void *argument) {
  lives += *(const int *)argument;
  return 0;
}

static void begin_births(struct worker *w) {
  struct sigaction action = {.sa_sigaction = on_birth, .sa_flags = SA_SIGINFO | SA_RESTART};
  (void)w;
  EXPECT(sigaction(SIGUSR2, &action, NULL) == 0);
}

static void births(struct worker *w) {
  const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                    CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
  const int one = 1, before = lives;
  (void)w;
  alive = 1;
  char *const top = birth_stack + kStackBytes;
  const int thread = clone(live, top, flags, (void *)&one, NULL, NULL, &alive);
  EXPECT(thread > 0);
  EXPECT(syscall(SYS_tgkill, getpid(), thread, SIGUSR2) == 0 || errno == ESRCH);
  while (alive) (void)syscall(SYS_futex, &alive, FUTEX_WAIT, 1, NULL, NULL, 0);
  EXPECT(lives == before + 1);
}

// Not all the time: a checkpoint waits for a moment without children.
static void making_processes(struct worker *w) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
    _exit(8);
  }
  EXPECT(child > 0);
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  (void)w;
  spin(20000);
}

const struct loop process_loops[] = {
    {"dlopen", loading, NULL, NULL, 2, 0},
    {"threads", making_threads, NULL, NULL, 2, 0},
    {"births", births, begin_births, NULL, 1, 0},
    {"fork_exec", making_processes, NULL, NULL, 1, 0},
    {NULL, NULL, NULL, NULL, 0, 0},
};
