// SPDX-License-Identifier: Apache-2.0
// The control protocol: a stream of bytes for the agent's connection and for the control plane's.
//
// Input: one byte, the length of the pieces in which the stream arrives; then the stream. The
// versions in its frames become that of today (kOtherVersion).
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "agent/connection.cpp"
#include "bytes.h"

using namespace fermata;
using namespace fermata::agent;

/// The control plane's reader: how many messages it takes off the stream.
extern "C" u32 fermata_fuzz_frames(const u8* stream, size_t bytes, size_t piece);

namespace {

int listener = -1;
char socket_path[64];
u64 taken;  // messages that the agent has understood

void listen_once() {
  if (listener >= 0) return;
  snprintf(socket_path, sizeof socket_path, "/tmp/fermata-fuzz-frames-%d", getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strcpy(address.sun_path, socket_path);
  unlink(socket_path);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(listener, 1) == 0);
  atexit([] { unlink(socket_path); });
}

std::vector<u8> with_version(const u8* data, size_t size) {
  std::vector<u8> stream(data, data + size);
  u32 length;
  u16 words[2];  // type and version
  for (u64 at = 0; at + kFrameHeadBytes <= size; at += kFrameHeadBytes + length) {
    memcpy(&length, &stream[at], sizeof length);
    memcpy(words, &stream[at + sizeof length], sizeof words);
    if (words[1] != u16(fuzz::kOtherVersion)) words[1] = protocol::kVersion;
    memcpy(&stream[at + sizeof length], words, sizeof words);
  }
  return stream;
}

/// A message that was read is written as it came.
template <class Message>
bool takes(const Frame& frame) {
  if (frame.type != Message::kType) return false;
  static u8 again[protocol::kPayloadBytesMax];
  protocol::Reader reader(frame.payload, frame.bytes);
  Message message;
  if (!message.read(reader)) return true;
  protocol::Writer writer(again, sizeof again);
  message.write(writer);
  REQUIRE(writer.ok() && writer.used() == frame.bytes);
  REQUIRE(memcmp(again, frame.payload, frame.bytes) == 0);
  taken++;
  return true;
}

template <class... Message>
void take_any(const Frame& frame) {
  (void)(takes<Message>(frame) || ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  using namespace protocol;
  static Connection connection;
  if (size == 0) return 0;
  const u64 piece = u64(data[0]) + 1;
  const std::vector<u8> stream = with_version(data + 1, size - 1);
  const u32 taken_by_control = fermata_fuzz_frames(stream.data(), stream.size(), piece);
  taken = 0;
  listen_once();
  REQUIRE(connection.open(socket_path) == 0);
  const int peer = accept(listener, nullptr, nullptr);
  REQUIRE(peer >= 0);
  for (u64 at = 0; at < stream.size(); at += piece) {
    const u64 bytes = std::min<u64>(piece, stream.size() - at);
    if (send(peer, &stream[at], bytes, MSG_NOSIGNAL) != ssize_t(bytes)) break;  // it hung up
    if (connection.receive(0) != 0) break;
    Frame frame;
    while (connection.next(&frame))
      take_any<Welcome, Request, Targets, Drain, Expected, Save, Resume, Abort, Committed, Asked,
               Alive, Exit>(frame);
  }
  close(peer);
  connection.close();
  fuzz::tell("the control plane took %u, the agent %lu", taken_by_control, taken);
  return 0;
}
