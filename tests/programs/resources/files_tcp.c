// SPDX-License-Identifier: Apache-2.0
// Row: a connected TCP socket
// Refused: a TCP socket connected to 127.0.0.1:
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  CHECK(bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, 1) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&address, &bytes) == 0);
  CHECK(connect(client, (struct sockaddr *)&address, bytes) == 0);
  const int server = accept(listener, NULL, NULL);
  CHECK(server >= 0 && close(listener) == 0);
  for (int step = 1; step <= o.steps; step++) {
    int got = 0;
    CHECK(send(client, &step, sizeof step, 0) == sizeof step);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(recv(server, &got, sizeof got, 0) == sizeof got && got == step);
    mix_int(got);
  }
  finish();
  return 0;
}
