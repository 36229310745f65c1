// SPDX-License-Identifier: Apache-2.0
// One connection to the coordinator: whole frames out, whole frames in.
//
// Two threads send (the agent's, and the MPI thread with its reports), one receives. Sending holds
// a mutex for one bounded write; nobody ever waits for the coordinator's answer while holding it.
//
// Invariant: a connection that failed in any way is shut down, so that the receiving thread sees
// its end and is the only one to close and reopen it. Not checked: that is what shutting down does.
#pragma once

#include <pthread.h>
#include <stdlib.h>

#include "agent/protocol.gen.h"

namespace fermata::agent {

inline constexpr int kSendTimeoutS = 5;
inline constexpr u64 kFrameHeadBytes = 8;

struct Frame {
  protocol::Type type;
  const u8* payload;
  u64 bytes;
};

class Connection {
 public:
  // Connects to the UNIX socket `path`. Returns 0 or -errno. Blocks at most for the kernel's accept
  // queue, bounded by kSendTimeoutS.
  int open(const char* path);
  void close();
  bool is_open() const { return __atomic_load_n(&fd_, __ATOMIC_ACQUIRE) > 0; }

  template <class Message>
  int send(const Message& message) {
    pthread_mutex_lock(&mutex_);
    protocol::Writer writer(send_buffer_ + kFrameHeadBytes, protocol::kPayloadBytesMax);
    message.write(writer);
    const int result = writer.ok() ? send_frame(Message::kType, writer.used()) : -7;  // E2BIG
    pthread_mutex_unlock(&mutex_);
    return result;
  }

  // Waits up to timeout_ms for bytes and takes them in, or until the descriptor `also` can be read,
  // if it is none below 0. Returns 0, or -errno once the connection is gone.
  int receive(int timeout_ms, int also = -1);

  // Takes the next complete frame out of what was received; it stays valid until receive().
  bool next(Frame* frame);

 private:
  int send_frame(protocol::Type type, u64 payload_bytes);
  int put_frame(protocol::Type type, u64 payload_bytes);

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  // 0 = none (ours is never that low), so that the large object stays in zero pages.
  int fd_ = 0;
  u64 received_ = 0;  // bytes in receive_buffer_
  u64 taken_ = 0;     // of them, already given out by next()
  // Sized for the largest frame, but only touched as far as frames really are long.
  u8 send_buffer_[kFrameHeadBytes + protocol::kPayloadBytesMax];
  u8 receive_buffer_[kFrameHeadBytes + protocol::kPayloadBytesMax];
};

}  // namespace fermata::agent
