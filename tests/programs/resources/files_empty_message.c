// SPDX-License-Identifier: Apache-2.0
// Row: an empty message in a SEQPACKET socketpair
// Refused: messages in a socketpair
#include <sys/socket.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int ends[2];
  char got[8];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  CHECK(send(ends[0], "a", 1, 0) == 1 && send(ends[0], "", 0, 0) == 0);
  CHECK(send(ends[0], "abc", 3, 0) == 3);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(step);
  }
  CHECK(recv(ends[1], got, sizeof got, 0) == 1 && recv(ends[1], got, sizeof got, 0) == 0);
  CHECK(recv(ends[1], got, sizeof got, 0) == 3 && !memcmp(got, "abc", 3));
  finish();
  return 0;
}
