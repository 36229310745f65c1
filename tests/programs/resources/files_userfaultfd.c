// SPDX-License-Identifier: Apache-2.0
// Row: page faults that the program serves itself (userfaultfd)
// Refused: userfaultfd
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

#define USER_MODE_ONLY 1

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
  struct uffdio_api api = {.api = UFFD_API};
  CHECK(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
  static unsigned char page[4096];
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    unsigned char *hole =
        mmap(NULL, sizeof page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)hole, sizeof page},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(hole != MAP_FAILED && ioctl(fd, UFFDIO_REGISTER, &range) == 0);
    memset(page, step, sizeof page);
    struct uffdio_copy copy = {
        .dst = (uintptr_t)hole, .src = (uintptr_t)page, .len = sizeof page};
    CHECK(ioctl(fd, UFFDIO_COPY, &copy) == 0 && hole[77] == (unsigned char)step);
    mix(hole, 64);
    CHECK(munmap(hole, sizeof page) == 0);
  }
  finish();
  return 0;
}
