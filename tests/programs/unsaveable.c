// SPDX-License-Identifier: Apache-2.0
// Holds something that no checkpoint can save (--hold tcp | child | device), uses it in each step
// to show that a refused checkpoint has not harmed it, and is otherwise a plain MPI program.
#include <arpa/inet.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static int near_end = -1, far_end = -1;  // of a TCP connection
static pid_t child = -1;
static volatile void *ring;  // of a device

static void connect_to_self(void) {
  struct sockaddr_in where = {.sin_family = AF_INET};
  socklen_t bytes = sizeof where;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  near_end = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(listener >= 0 && near_end >= 0);
  CHECK(bind(listener, (struct sockaddr *)&where, sizeof where) == 0 && listen(listener, 1) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&where, &bytes) == 0);
  CHECK(connect(near_end, (struct sockaddr *)&where, sizeof where) == 0);
  far_end = accept(listener, NULL, NULL);
  CHECK(far_end >= 0);
  close(listener);
}

static void start_child(void) {
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    execlp("sleep", "sleep", "300", (char *)NULL);
    _exit(127);
  }
}

// Memory that belongs to the kernel: the ring of a performance counter, perf_event_open(2).
static void map_device(void) {
  struct perf_event_attr counter;
  memset(&counter, 0, sizeof counter);
  counter.size = sizeof counter;
  counter.type = PERF_TYPE_SOFTWARE;
  counter.config = PERF_COUNT_SW_TASK_CLOCK;
  counter.exclude_kernel = 1;
  const int fd = (int)syscall(SYS_perf_event_open, &counter, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (fd < 0) {
    printf("no device\n");
    exit(0);
  }
  ring = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(ring != MAP_FAILED);
  close(fd);
}

static void use(int step) {
  char byte = (char)step;
  if (near_end >= 0) {
    CHECK(write(near_end, &byte, 1) == 1);
    byte = 0;
    CHECK(read(far_end, &byte, 1) == 1 && byte == (char)step);
  }
  if (child > 0) CHECK(waitpid(child, NULL, WNOHANG) == 0);
  if (ring) CHECK(((volatile struct perf_event_mmap_page *)ring)->data_size == 4096);
}

int main(int argc, char **argv) {
  const char *hold = "";
  struct options o = parse_options(argc, argv, 20, 0);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--hold")) hold = argv[i + 1];
  start(&argc, &argv);
  if (!strcmp(hold, "tcp")) connect_to_self();
  if (!strcmp(hold, "child")) start_child();
  if (!strcmp(hold, "device")) map_device();
  for (int step = 1; step <= o.steps; step++) {
    int sum = 0;
    use(step);
    MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    mix_int(sum);
    report_step(step, o.step_ms);
  }
  if (child > 0) {
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
  }
  finish();
  return 0;
}
