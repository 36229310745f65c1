// SPDX-License-Identifier: Apache-2.0
// Row: a POSIX message queue whose name is gone
// Refused: a POSIX message queue
#include <fcntl.h>
#include <mqueue.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char name[64], got[64];
  struct mq_attr attributes = {.mq_maxmsg = 8, .mq_msgsize = sizeof got};
  snprintf(name, sizeof name, "/fermata-test-%d", (int)getpid());
  const mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
  CHECK(queue != (mqd_t)-1 && mq_unlink(name) == 0);
  for (int step = 1; step <= o.steps; step++) {
    CHECK(mq_send(queue, "hello", 5, 0) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(mq_receive(queue, got, sizeof got, NULL) == 5 && !memcmp(got, "hello", 5));
    mix_int(step);
  }
  finish();
  return 0;
}
