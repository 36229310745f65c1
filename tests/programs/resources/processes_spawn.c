// SPDX-License-Identifier: Apache-2.0
// Row: children made by fork and exec, vfork and posix_spawn
//
// --size S: the most pipes and sockets that a child may find open.
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "directory.h"

extern char **environ;

// The child lists its descriptors. The program's own are 0 to 2 and what has no close-on-exec.
static int count_inherited(int way) {
  char script[] = "ls -l /proc/self/fd | grep -c -e pipe: -e socket: -e anon_inode:";
  char *command[] = {"sh", "-c", script, NULL};
  int answer[2], status = -1, count = -1;
  CHECK(pipe2(answer, O_CLOEXEC) == 0);
  pid_t child = -1;
  if (way == 2) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, answer[1], 1);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    CHECK(posix_spawnp(&child, "sh", &actions, NULL, command, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
  } else {
    child = way ? vfork() : fork();
    if (child == 0) {
      dup2(answer[1], 1);
      const int null = open("/dev/null", O_RDWR);
      dup2(null, 0);
      dup2(null, 2);
      execvp("sh", command);
      _exit(99);
    }
  }
  close(answer[1]);
  FILE *in = fdopen(answer[0], "r");
  CHECK(fscanf(in, "%d", &count) == 1 && fclose(in) == 0);
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  return count;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 1000);
  for (int step = 1; step <= o.steps; step++) {
    const int count = count_inherited(step % 3);
    // Its output, and the pipe of its own pipeline; natively some MPIs leave more open.
    CHECK(count >= 1 && count <= o.size);
    mix_int(step);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
