// SPDX-License-Identifier: Apache-2.0
// The socket side of the agent; see connection.h for who may do what.
#include "agent/connection.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "sys/faults.h"

namespace fermata::agent {

int Connection::open(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof(address.sun_path)) return -ENAMETOOLONG;
  strcpy(address.sun_path, path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  const timeval limit{kSendTimeoutS, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  ucred peer{};
  socklen_t peer_bytes = sizeof(peer);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) != 0) {
    const int error = errno;
    ::close(fd);
    return -error;
  }
  if (peer.uid != geteuid()) {  // where the directory of sockets was, somebody else has made one
    ::close(fd);
    return -EPERM;
  }
  received_ = taken_ = 0;
  __atomic_store_n(&fd_, fd, __ATOMIC_RELEASE);
  return 0;
}

void Connection::close() {
  pthread_mutex_lock(&mutex_);
  if (fd_ > 0) ::close(fd_);
  __atomic_store_n(&fd_, 0, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&mutex_);
}

int Connection::send_frame(protocol::Type type, u64 payload_bytes) {
  const faults::Action action = faults::fault(faults::sending(static_cast<u16>(type))).action;
  if (action == faults::Action::kDrop) return 0;
  if (action == faults::Action::kTwice) {
    const int result = put_frame(type, payload_bytes);
    if (result != 0) return result;
  }
  return put_frame(type, payload_bytes);
}

int Connection::put_frame(protocol::Type type, u64 payload_bytes) {
  if (fd_ <= 0) return -ENOTCONN;
  const u32 length = static_cast<u32>(payload_bytes);
  const u16 words[2] = {static_cast<u16>(type), protocol::kVersion};
  memcpy(send_buffer_, &length, sizeof(length));
  memcpy(send_buffer_ + sizeof(length), words, sizeof(words));
  const u64 total = kFrameHeadBytes + payload_bytes;
  for (u64 sent = 0; sent < total;) {
    const ssize_t now = ::send(fd_, send_buffer_ + sent, total - sent, MSG_NOSIGNAL);
    if (now > 0) {
      sent += static_cast<u64>(now);
      continue;
    }
    if (now < 0 && errno == EINTR) continue;
    const int error = now < 0 ? errno : EPIPE;
    shutdown(fd_, SHUT_RDWR);  // half a frame is out: nothing sensible can follow it
    return -error;
  }
  return 0;
}

int Connection::receive(int timeout_ms, int also) {
  if (taken_ != 0) {
    memmove(receive_buffer_, receive_buffer_ + taken_, received_ - taken_);
    received_ -= taken_;
    taken_ = 0;
  }
  pollfd waiting[2] = {{fd_, POLLIN, 0}, {also, POLLIN, 0}};
  const int ready = poll(waiting, 2, timeout_ms);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return 0;
  if (ready < 0) return -errno;
  if (waiting[0].revents == 0) return 0;
  const u64 room = sizeof(receive_buffer_) - received_;
  if (room == 0) return -EPROTO;  // a frame longer than the longest
  const ssize_t got = recv(fd_, receive_buffer_ + received_, room, MSG_DONTWAIT);
  if (got == 0) return -ECONNRESET;
  if (got < 0) return errno == EAGAIN || errno == EINTR ? 0 : -errno;
  received_ += static_cast<u64>(got);
  return 0;
}

bool Connection::next(Frame* frame) {
  const u64 there = received_ - taken_;
  if (there < kFrameHeadBytes) return false;
  const u8* head = receive_buffer_ + taken_;
  u32 length;
  u16 words[2];
  memcpy(&length, head, sizeof(length));
  memcpy(words, head + sizeof(length), sizeof(words));
  if (length > protocol::kPayloadBytesMax || words[1] != protocol::kVersion) {
    shutdown(fd_, SHUT_RDWR);  // not our protocol; receive() will report the end
    return false;
  }
  if (there < kFrameHeadBytes + length) return false;
  *frame = Frame{static_cast<protocol::Type>(words[0]), head + kFrameHeadBytes, length};
  taken_ += kFrameHeadBytes + length;
  return true;
}

}  // namespace fermata::agent
