// SPDX-License-Identifier: Apache-2.0
// Row: options of sockets: timeouts and buffers of socketpairs, what a fresh TCP socket was told
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "../check.h"

static void set(int fd, int level, int name, int value) {
  CHECK(setsockopt(fd, level, name, &value, sizeof value) == 0);
}
static int get(int fd, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  CHECK(getsockopt(fd, level, name, &value, &bytes) == 0);
  return value;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int pair[2], tcp = socket(AF_INET6, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(tcp >= 0 && udp >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  const struct timeval receive = {0, 30000}, send_limit = {7, 0};
  CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof receive) == 0);
  CHECK(setsockopt(pair[1], SOL_SOCKET, SO_SNDTIMEO, &send_limit, sizeof send_limit) == 0);
  set(pair[1], SOL_SOCKET, SO_PASSCRED, 1);
  set(tcp, SOL_SOCKET, SO_REUSEADDR, 1);
  set(tcp, SOL_SOCKET, SO_REUSEPORT, 1);
  set(tcp, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(tcp, SOL_SOCKET, SO_RCVBUF, 50000);
  set(tcp, IPPROTO_TCP, TCP_NODELAY, 1);
  set(tcp, IPPROTO_TCP, TCP_KEEPIDLE, 77);
  set(tcp, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  set(udp, SOL_SOCKET, SO_BROADCAST, 1);
  const struct linger linger = {1, 9};
  CHECK(setsockopt(tcp, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
  const int buffer = get(tcp, SOL_SOCKET, SO_RCVBUF);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    char byte;
    struct timeval now;
    socklen_t bytes = sizeof now;
    CHECK(getsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &now, &bytes) == 0);
    CHECK(now.tv_sec == 0 && now.tv_usec >= 30000 && now.tv_usec < 50000);
    CHECK(recv(pair[0], &byte, 1, 0) == -1 && errno == EAGAIN);
    bytes = sizeof now;
    CHECK(getsockopt(pair[1], SOL_SOCKET, SO_SNDTIMEO, &now, &bytes) == 0 && now.tv_sec == 7);
    CHECK(get(pair[1], SOL_SOCKET, SO_PASSCRED) == 1 && get(pair[0], SOL_SOCKET, SO_PASSCRED) == 0);
    CHECK(get(tcp, SOL_SOCKET, SO_REUSEADDR) == 1 && get(tcp, SOL_SOCKET, SO_REUSEPORT) == 1);
    CHECK(get(tcp, SOL_SOCKET, SO_KEEPALIVE) == 1 && get(tcp, SOL_SOCKET, SO_RCVBUF) == buffer);
    CHECK(get(tcp, IPPROTO_TCP, TCP_NODELAY) == 1 && get(tcp, IPPROTO_TCP, TCP_KEEPIDLE) == 77);
    CHECK(get(tcp, IPPROTO_IPV6, IPV6_V6ONLY) == 1 && get(udp, SOL_SOCKET, SO_BROADCAST) == 1);
    struct linger lingers;
    bytes = sizeof lingers;
    CHECK(getsockopt(tcp, SOL_SOCKET, SO_LINGER, &lingers, &bytes) == 0);
    CHECK(lingers.l_onoff == 1 && lingers.l_linger == 9);
    mix_int(step);
  }
  finish();
  return 0;
}
