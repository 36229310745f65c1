// SPDX-License-Identifier: Apache-2.0
// Row: what the program closes while its image is being written is closed: locks, pipes, programs
// Environment: FERMATA_FAULT=writer-pages=sleep:400
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "directory.h"

// 0, or the errno with which the program could not be started.
static int run(const char *path) {
  int status, error = 0;
  const pid_t child = vfork();
  if (child == 0) {
    execl(path, path, NULL);
    error = errno;
    _exit(1);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return error;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  for (int step = 1; step <= o.steps; step++) {
    struct epoll_event event = {.events = EPOLLIN};
    int line[2], watched[2];
    const int locked = open(own_path("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const int script = open(own_path("script"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    CHECK(locked >= 0 && script >= 0 && pipe2(line, O_CLOEXEC) == 0);
    CHECK(pipe2(watched, O_CLOEXEC) == 0 && write(watched[1], "x", 1) == 1);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, watched[0], &event) == 0);
    CHECK(flock(locked, LOCK_EX | LOCK_NB) == 0);
    CHECK(write(script, "#!/bin/true\n", 12) == 12);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(close(locked) == 0 && close(script) == 0 && close(line[1]) == 0);
    CHECK(close(watched[0]) == 0 && close(watched[1]) == 0);
    const int again = open(own_path("lock"), O_RDWR | O_CLOEXEC);
    CHECK(again >= 0 && flock(again, LOCK_EX | LOCK_NB) == 0 && close(again) == 0);
    CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
    struct pollfd end = {.fd = line[0], .events = POLLIN};
    CHECK(poll(&end, 1, 0) == 1 && end.revents == POLLHUP && close(line[0]) == 0);
    CHECK(run(own_path("script")) == 0);
    mix_int(step);
  }
  finish();
  return 0;
}
