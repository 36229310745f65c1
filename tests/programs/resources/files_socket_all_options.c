// SPDX-License-Identifier: Apache-2.0
// Row: every option of sockets, filters, datagram pairs shut for reading or writing
//
// What the machine does not allow to set is left out.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "../check.h"

enum { TCP, TCP6, UDP, UDP6, PAIR, OTHER, SOCKETS, LARGEST = 4096 };
static int sockets[SOCKETS];
static const struct option {
  int level, name, value;
} kOptions[] = {
    {SOL_SOCKET, SO_NO_CHECK, 1}, {SOL_SOCKET, SO_MARK, 77}, {SOL_SOCKET, SO_PASSSEC, 1},
    {SOL_SOCKET, SO_BUF_LOCK, 3}, {SOL_SOCKET, SO_RXQ_OVFL, 1}, {SOL_SOCKET, SO_TIMESTAMPING, 8},
    {SOL_SOCKET, SO_TIMESTAMPNS, 1}, {SOL_SOCKET, SO_NOFCS, 1}, {SOL_SOCKET, SO_DEBUG, 1},
    {SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1}, {SOL_SOCKET, SO_BUSY_POLL, 5},
    {SOL_SOCKET, SO_INCOMING_CPU, 1}, {SOL_SOCKET, SO_PRIORITY, 3}, {SOL_SOCKET, SO_PEEK_OFF, 0},
    {SOL_SOCKET, SO_PREFER_BUSY_POLL, 1}, {SOL_SOCKET, SO_SNDBUF, 40000},
    {SOL_SOCKET, 74 /* SO_TXREHASH */, 0}, {SOL_SOCKET, 75 /* SO_RCVMARK */, 1},
    {SOL_SOCKET, 76 /* SO_PASSPIDFD */, 1}, {SOL_SOCKET, SO_MAX_PACING_RATE, 123456},
    {IPPROTO_TCP, TCP_QUICKACK, 0}, {IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, 9999}, {IPPROTO_TCP, TCP_SAVE_SYN, 1},
    {IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1}, {IPPROTO_TCP, TCP_INQ, 1},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, 700}, {IPPROTO_TCP, TCP_WINDOW_CLAMP, 30000},
    {IPPROTO_UDP, UDP_SEGMENT, 900}, {IPPROTO_UDP, UDP_GRO, 1},
    {IPPROTO_UDP, 101 /* UDP_NO_CHECK6_TX */, 1},
    {IPPROTO_IP, IP_RECVTTL, 1}, {IPPROTO_IP, IP_RECVTOS, 1}, {IPPROTO_IP, IP_FREEBIND, 1},
    {IPPROTO_IP, IP_TRANSPARENT, 1}, {IPPROTO_IP, IP_MINTTL, 9}, {IPPROTO_IP, IP_TOS, 16},
    {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1}, {IPPROTO_IP, IP_MULTICAST_ALL, 0},
    {IPPROTO_IP, IP_CHECKSUM, 1}, {IPPROTO_IP, IP_RECVORIGDSTADDR, 1},
    {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1}, {IPPROTO_IPV6, IPV6_DONTFRAG, 1},
    {IPPROTO_IPV6, IPV6_MTU_DISCOVER, 2}, {IPPROTO_IPV6, IPV6_RECVERR, 1},
    {IPPROTO_IPV6, IPV6_MINHOPCOUNT, 7}, {IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0},
    {IPPROTO_IPV6, IPV6_ADDR_PREFERENCES, 2}, {IPPROTO_IPV6, IPV6_FREEBIND, 1},
    {IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0}, {IPPROTO_IPV6, IPV6_RECVPATHMTU, 1},
};
enum { OPTIONS = sizeof kOptions / sizeof *kOptions };
static struct value {
  int set;
  socklen_t bytes;
  char data[32];
} values[SOCKETS][OPTIONS];
static const struct sock_filter kProgram[] = {{BPF_LD | BPF_W | BPF_LEN, 0, 0, 0},
                                              {BPF_RET | BPF_A, 0, 0, 0}};

static void get(int i, int n, struct value *v) {
  v->bytes = sizeof v->data;
  memset(v->data, 0, sizeof v->data);
  v->set = getsockopt(sockets[i], kOptions[n].level, kOptions[n].name, v->data, &v->bytes) == 0;
}

static void set_all(int i) {
  for (int n = 0; n < OPTIONS; n++)
    (void)!setsockopt(sockets[i], kOptions[n].level, kOptions[n].name, &kOptions[n].value, 4);
  const struct sock_fprog program = {2, (struct sock_filter *)kProgram};
  CHECK(setsockopt(sockets[i], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
  // Not everywhere allowed.
  (void)!setsockopt(sockets[i], SOL_SOCKET, SO_BINDTODEVICE, "lo", 3);
  if (i == UDP) {
    const int on = 1;
    CHECK(setsockopt(sockets[i], SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof on) == 0);
  }
  for (int n = 0; n < OPTIONS; n++) get(i, n, &values[i][n]);
}

static void check_all(int i) {
  struct sock_filter program[LARGEST / 8];
  socklen_t count = LARGEST / 8;
  for (int n = 0; n < OPTIONS; n++) {
    struct value now;
    get(i, n, &now);
    const int same = now.set == values[i][n].set && (!now.set || (now.bytes == values[i][n].bytes &&
                     !memcmp(now.data, values[i][n].data, now.bytes)));
    if (!same) printf("socket %d: option %d of level %d\n", i, kOptions[n].name, kOptions[n].level);
    CHECK(same);
  }
  CHECK(getsockopt(sockets[i], SOL_SOCKET, SO_ATTACH_FILTER, program, &count) == 0 && count == 2);
  CHECK(!memcmp(program, kProgram, sizeof kProgram));
}

static char device[SOCKETS][16];
static void device_of(int i, char *name) {
  socklen_t bytes = 16;
  memset(name, 0, 16);
  (void)!getsockopt(sockets[i], SOL_SOCKET, SO_BINDTODEVICE, name, &bytes);
}

static int both[2], writes[2], reads[2];  // pairs of datagrams, shut in each way at their first end

static void shut_some(void) {
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, both) == 0 &&
        socketpair(AF_UNIX, SOCK_DGRAM, 0, writes) == 0 &&
        socketpair(AF_UNIX, SOCK_DGRAM, 0, reads) == 0);
  CHECK(send(both[1], "kept", 4, 0) == 4 && send(reads[1], "kept", 4, 0) == 4);
  CHECK(shutdown(both[0], SHUT_RDWR) == 0 && shutdown(writes[0], SHUT_WR) == 0);
  CHECK(shutdown(reads[0], SHUT_RD) == 0);
}

static int sends(int fd) { return send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1; }

static void check_shut(void) {
  char text[8];
  CHECK(!sends(both[0]) && errno == EPIPE && !sends(both[1]) && errno == EPIPE);
  CHECK(!sends(writes[0]) && errno == EPIPE && sends(writes[1]));
  CHECK(recv(writes[0], text, 8, MSG_DONTWAIT) == 1);
  CHECK(sends(reads[0]) && !sends(reads[1]) && errno == EPIPE);
  CHECK(recv(reads[1], text, 8, MSG_DONTWAIT) == 1);
  CHECK(recv(both[0], text, 8, MSG_DONTWAIT | MSG_PEEK) == 4 && !memcmp(text, "kept", 4));
  CHECK(recv(reads[0], text, 8, MSG_DONTWAIT | MSG_PEEK) == 4);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  sockets[TCP] = socket(AF_INET, SOCK_STREAM, 0);
  sockets[TCP6] = socket(AF_INET6, SOCK_STREAM, 0);
  sockets[UDP] = socket(AF_INET, SOCK_DGRAM, 0);
  sockets[UDP6] = socket(AF_INET6, SOCK_DGRAM, 0);
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, &sockets[PAIR]) == 0);
  for (int i = 0; i < SOCKETS; i++) {
    CHECK(sockets[i] >= 0);
    set_all(i);
    device_of(i, device[i]);
  }
  shut_some();
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int i = 0; i < SOCKETS; i++) {
      char name[16];
      check_all(i);
      device_of(i, name);
      CHECK(!strcmp(name, device[i]));
    }
    const int off = 0;
    CHECK(setsockopt(sockets[UDP], SOL_SOCKET, SO_DETACH_FILTER, &off, sizeof off) == -1);
    check_shut();
    mix_int(step);
  }
  finish();
  return 0;
}
