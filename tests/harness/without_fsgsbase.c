// SPDX-License-Identifier: Apache-2.0
// Runs a command, and whatever it starts, as on a kernel that does not let programs write the FS
// and GS bases: each program finds bit 1 of AT_HWCAP2 cleared. The auxiliary vector lies on the new
// program's stack, where a tracer reaches it before the first instruction.
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define HWCAP2_FSGSBASE 2
#define CODE_SEGMENT_64 0x33

static long peek(pid_t pid, unsigned long address) {
  return ptrace(PTRACE_PEEKDATA, pid, (void *)address, NULL);
}

static void clear_bit(pid_t pid) {
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) != 0) return;
  if (registers.cs != CODE_SEGMENT_64) return;  // ldd asks the 32-bit loader too, if there is one
  unsigned long at = registers.rsp;
  at += 8 * (unsigned long)(peek(pid, at) + 2);      // argc, argv and its end
  errno = 0;
  while (peek(pid, at) != 0 && errno == 0) at += 8;  // environment
  for (at += 8; peek(pid, at) != AT_NULL && errno == 0; at += 16) {
    if (peek(pid, at) != AT_HWCAP2) continue;
    const long value = peek(pid, at + 8) & ~(long)HWCAP2_FSGSBASE;
    ptrace(PTRACE_POKEDATA, pid, (void *)(at + 8), (void *)value);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  const pid_t first = fork();
  if (first == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    execvp(argv[1], argv + 1);
    _exit(127);
  }
  int status, code = 1;
  waitpid(first, &status, 0);
  ptrace(PTRACE_SETOPTIONS, first, NULL,
         (void *)(PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                  PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL));
  ptrace(PTRACE_CONT, first, NULL, NULL);
  for (;;) {
    const pid_t pid = waitpid(-1, &status, __WALL);
    if (pid < 0 && errno == ECHILD) return code;
    if (!WIFSTOPPED(status)) {
      if (pid == first) code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
      continue;
    }
    const int event = status >> 16, number = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXEC) clear_bit(pid);
    // New tracees begin with a SIGSTOP of the tracer's making.
    const long pass = event != 0 || number == SIGTRAP || number == SIGSTOP ? 0 : number;
    ptrace(PTRACE_CONT, pid, NULL, (void *)pass);
  }
}
