// SPDX-License-Identifier: Apache-2.0
// Row: socketpairs inside the process: bytes and messages in both directions, one end closed
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int stream[2], messages[2], half[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, messages) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, half) == 0);
  CHECK(send(half[0], "last words", 10, 0) == 10 && close(half[0]) == 0);
  // Looked at byte by byte: SO_PEEK_OFF says where the next look begins.
  int peeked[2];
  const int from_begin = 0;
  char numbers[100];
  for (int i = 0; i < (int)sizeof numbers; i++) numbers[i] = (char)i;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, peeked) == 0);
  CHECK(setsockopt(peeked[1], SOL_SOCKET, SO_PEEK_OFF, &from_begin, sizeof from_begin) == 0);
  CHECK(send(peeked[0], numbers, sizeof numbers, 0) == sizeof numbers);
  const int unused = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(unused >= 0);
  for (int step = 1; step <= o.steps; step++) {
    char text[64], got[256];
    const int bytes = snprintf(text, sizeof text, "rank %d step %d", rank, step);
    CHECK(send(stream[0], text, (size_t)bytes, 0) == bytes);
    CHECK(send(stream[1], "back", 4, 0) == 4);
    for (int i = 1; i <= 3; i++) CHECK(send(messages[1], text, (size_t)i, 0) == i);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(recv(stream[1], got, sizeof got, 0) == bytes && !memcmp(got, text, (size_t)bytes));
    CHECK(recv(stream[0], got, sizeof got, 0) == 4 && !memcmp(got, "back", 4));
    for (int i = 1; i <= 3; i++)
      CHECK(recv(messages[0], got, sizeof got, 0) == i && !memcmp(got, text, (size_t)i));
    CHECK(recv(stream[1], got, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(recv(peeked[1], got, 1, MSG_PEEK) == 1);
    CHECK(got[0] == numbers[(step - 1) % (int)sizeof numbers]);
    mix(text, (size_t)bytes);
  }
  char rest[32];
  CHECK(recv(half[1], rest, sizeof rest, 0) == 10 && !memcmp(rest, "last words", 10));
  CHECK(recv(half[1], rest, sizeof rest, 0) == 0);
  CHECK(fcntl(stream[0], F_GETFD) == FD_CLOEXEC && fcntl(unused, F_GETFD) == 0);
  finish();
  return 0;
}
