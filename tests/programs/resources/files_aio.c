// SPDX-License-Identifier: Apache-2.0
// Row: asynchronous input and output by the kernel (io_setup, libaio)
// Refused: asynchronous input and output by io_setup(2)
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  aio_context_t context = 0;
  CHECK(syscall(SYS_io_setup, 16, &context) == 0);
  const int fd = open(own_path("data"), O_RDWR | O_CREAT | O_TRUNC, 0644);
  CHECK(fd >= 0);
  for (int step = 1; step <= o.steps; step++) {
    struct iocb request = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = (uint32_t)fd,
                           .aio_buf = (uintptr_t)&step, .aio_nbytes = sizeof step,
                           .aio_offset = (int64_t)sizeof step * step};
    struct iocb *list[] = {&request};
    struct io_event event;
    CHECK(syscall(SYS_io_submit, context, 1, list) == 1);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1 && event.res == sizeof step);
    mix_int(step);
  }
  CHECK(syscall(SYS_io_destroy, context) == 0);
  finish();
  return 0;
}
