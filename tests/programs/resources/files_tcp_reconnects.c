// SPDX-License-Identifier: Apache-2.0
// Flags: -Iruntime/interface
// Row: TCP sockets that the program says it connects again itself: fresh ones after a restart
#include <arpa/inet.h>
#include <errno.h>
#include <fermata.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../check.h"

static int client, server;

// Fresh sockets again: neither end keeps its number.
static void join(void) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  CHECK(bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, 1) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&address, &bytes) == 0);
  client = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(client, (struct sockaddr *)&address, bytes) == 0);
  server = accept(listener, NULL, NULL);
  CHECK(server >= 0 && close(listener) == 0);
  const int said = fermata_reconnects(client);
  CHECK(said == 0 || said == FERMATA_ABSENT);
  CHECK(fermata_reconnects(server) == said);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  signal(SIGPIPE, SIG_IGN);
  if (fermata_version()) CHECK(fermata_reconnects(-1) == FERMATA_MISUSE);
  join();
  for (int step = 1; step <= o.steps; step++) {
    int got = 0;
    ssize_t sent = send(client, &step, sizeof step, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    if (sent < 0 || recv(server, &got, sizeof got, 0) < 0) {  // a restart since the last step
      CHECK(errno == EPIPE || errno == ENOTCONN);
      CHECK(recv(client, &got, sizeof got, 0) < 0 && errno == ENOTCONN);
      CHECK(close(client) == 0 && close(server) == 0);
      join();
      CHECK(send(client, &step, sizeof step, 0) == sizeof step);
      CHECK(recv(server, &got, sizeof got, 0) == sizeof got);
    }
    CHECK(got == step);
    mix_int(got);
  }
  finish();
  return 0;
}
