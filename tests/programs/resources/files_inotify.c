// SPDX-License-Identifier: Apache-2.0
// Row: files and directories watched with inotify, under the numbers they had
// Killed: a file that it made after the checkpoint is not made again
#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK(mkdir(own_path("watched"), 0755) == 0);
  const int watcher = inotify_init1(IN_NONBLOCK);
  const int file = open(own_path("file"), O_RDWR | O_CREAT, 0644);
  // Numbers with a gap before them.
  for (int i = 0; i < 3; i++)
    CHECK(inotify_rm_watch(watcher, inotify_add_watch(watcher, "/", IN_CREATE)) == 0);
  const int place = inotify_add_watch(watcher, own_path("watched"), IN_CREATE);
  const int of_file = inotify_add_watch(watcher, own_path("file"), IN_MODIFY);
  CHECK(file >= 0 && place == 4 && of_file == 5);
  char events[4096] __attribute__((aligned(8)));
  CHECK(read(watcher, events, sizeof events) > 0);  // what the removed ones left behind
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(read(watcher, events, sizeof events) == -1 && errno == EAGAIN);
    char name[600];
    snprintf(name, sizeof name, "%s/%d", own_path("watched"), step);
    if (step % 2) CHECK(write(file, "x", 1) == 1);
    else close(open(name, O_WRONLY | O_CREAT, 0644));
    CHECK(read(watcher, events, sizeof events) >= (ssize_t)sizeof(struct inotify_event));
    const struct inotify_event *event = (const struct inotify_event *)events;
    CHECK(event->wd == (step % 2 ? of_file : place));
    CHECK(event->mask == (step % 2 ? IN_MODIFY : IN_CREATE));
    mix_int(event->wd);
  }
  finish();
  return 0;
}
