// SPDX-License-Identifier: Apache-2.0
// Socketpairs with both ends in the application, or one end where the other has been closed; and
// sockets that were neither connected nor bound. Queued messages are peeked at with SO_PEEK_OFF.
// A TCP socket that the program connects again itself comes back as a fresh one, with nothing of
// what was in it. Every other socket leads out of the process and is refused with the name of its
// peer.
#include "files/contents.h"
#include "files/registry.h"
#include "files/restore.h"
#include "files/save.h"

namespace fermata::files {
namespace {

// values[kSocketShut]. Of datagrams each end is shut by itself: kReadShut, kWriteShut.
constexpr u64 kPaired = 1, kPeerSilent = 2, kReadShut = 4, kWriteShut = 8;

struct ReceivedMessage {  // struct msghdr
  u64 name, name_bytes;
  u64 parts, part_count;
  u64 control, control_bytes;
  i32 flags, pad;
};
struct Part {  // struct iovec
  u64 base, bytes;
};

u64 option(int fd, int name) {
  i32 value = 0;
  u32 bytes = sizeof value;
  (void)sys::call(SYS_getsockopt, u64(fd), sys::kSolSocket, u64(name), sys::arg(&value),
                  sys::arg(&bytes));
  return u64(i64(value));
}
bool set_option(int fd, int name, i32 value) {
  return bool(sys::call(SYS_setsockopt, u64(fd), sys::kSolSocket, u64(name), sys::arg(&value),
                        sizeof value));
}

struct Address {  // struct sockaddr_storage
  u16 family;
  u8 data[126];
};

/// getsockname(2) or getpeername(2). Returns the address's size, 0 if there is none.
u64 address(u64 call, int fd, Address& out) {
  u32 bytes = sizeof out;
  out = {};
  return sys::call(call, u64(fd), sys::arg(&out), sys::arg(&bytes)) ? bytes : 0;
}

u32 port(const Address& a) { return u32(a.data[0]) << 8 | a.data[1]; }

void print(const Address& a, u64 bytes, Message& out) {
  if (a.family == sys::kAfInet) {
    for (int i = 0; i < 4; i++) out << (i ? "." : "") << u32(a.data[2 + i]);
    out << ":" << port(a);
  } else if (a.family == sys::kAfInet6) {
    out << "[";
    for (int i = 0; i < 8; i++) {
      const u32 group = u32(a.data[6 + 2 * i]) << 8 | a.data[7 + 2 * i];
      bool started = false;
      out << (i ? ":" : "");
      for (int shift = 12; shift >= 0; shift -= 4) {
        started = started || group >> shift || shift == 0;
        if (started) out.put("0123456789abcdef"[group >> shift & 15]);
      }
    }
    out << "]:" << port(a);
  } else if (a.family == sys::kAfUnix && bytes > 2) {
    out << (a.data[0] ? "" : "@") << reinterpret_cast<const char*>(a.data + !a.data[0]);
  } else {
    out << "an unnamed address";
  }
}

Status refuse(Saver& saver, const image::ImageFile& file, u64 domain, u64 type) {
  Address own, peer;
  const u64 own_bytes = address(SYS_getsockname, file.fd, own);
  const u64 peer_bytes = address(SYS_getpeername, file.fd, peer);
  const bool inet = domain == sys::kAfInet || domain == sys::kAfInet6;
  Message& why = saver.refuse(file);
  why << (domain == sys::kAfUnix            ? "a UNIX socket"
          : inet && type == sys::kSockStream  ? "a TCP socket"
          : inet && type == sys::kSockDgram ? "a UDP socket"
          : domain == sys::kAfNetlink       ? "a netlink socket"
                                     : "a socket");
  const bool listening = option(file.fd, sys::kSoAcceptConn);
  if (peer_bytes) print(peer, peer_bytes, why << " connected to ");
  else if (own_bytes) print(own, own_bytes, why << (listening ? " listening on " : " bound to "));
  why << "; close it before the checkpoint";
  return failure(sys::kEperm);
}

/// Neither bound nor connected: nothing to lose.
bool is_fresh(int fd, u64 domain) {
  Address own, peer;
  if (address(SYS_getpeername, fd, peer) || option(fd, sys::kSoAcceptConn)) return false;
  const u64 bytes = address(SYS_getsockname, fd, own);
  if (domain == sys::kAfUnix) return bytes <= 2;
  if (domain != sys::kAfInet && domain != sys::kAfInet6) return false;
  bool any = port(own) == 0;  // IP_BIND_ADDRESS_NO_PORT gives an address alone
  const int from = domain == sys::kAfInet ? 2 : 6, to = domain == sys::kAfInet ? 6 : 22;
  for (int i = from; i < to; i++) any = any && own.data[i] == 0;
  return any;
}

bool is_tcp(int fd, u64 domain, u64 type) {
  const bool inet = domain == sys::kAfInet || domain == sys::kAfInet6;
  return inet && type == sys::kSockStream && option(fd, sys::kSoProtocol) == sys::kIpProtoTcp;
}

u32 poll_peer(int fd) {
  struct {
    int fd;
    i16 events, happened;
  } request{fd, sys::kPollRdHup, 0};
  (void)sys::call(SYS_poll, sys::arg(&request), 1, 0);
  return u32(u16(request.happened));
}

/// Whether a socket of datagrams may not send any more. Nothing tells; but a message that cannot be
/// read fails for that reason first. Nothing is sent.
bool is_shut_for_sending(int fd) {
  constexpr u64 kNowhere = 1;
  constexpr int kHow = sys::kMsgDontWait | sys::kMsgNoSignal;
  return sys::call(SYS_sendto, u64(fd), kNowhere, 1, kHow).error == sys::kEpipe;
}

/// As peek_messages(), which has set SO_PEEK_OFF to 0, and puts back what it was.
Result<u64> peek_on(int fd, u64 type, u64 inode, bool silent) {
  i32 queued = 0;
  (void)sys::call(SYS_ioctl, u64(fd), sys::kFionread, sys::arg(&queued));
  u64 used = 0, bytes = 0;
  Result<u64> got = Result<u64>::ok(0);
  for (;;) {
    const u64 room = kContentBytes - used;
    if (room <= 8) return Result<u64>::fail(sys::kEnomem);
    Part part{sys::arg(content_buffer() + used + 8), room - 8};
    ReceivedMessage message{0, 0, sys::arg(&part), 1, 0, 0, 0, 0};
    got = sys::call(SYS_recvmsg, u64(fd), sys::arg(&message),
                    sys::kMsgPeek | sys::kMsgDontWait);
    if (got && (message.flags & (sys::kMsgTrunc | sys::kMsgCtrunc)))
      got = Result<u64>::fail(sys::kEperm);
    const bool end = silent && type != sys::kSockDgram && bytes >= u64(queued);
    if (got && got.value == 0 && type != sys::kSockStream && !end) {
      note_empty_message(inode, true);
      got = Result<u64>::fail(sys::kEperm);
    }
    if (!got || got.value == 0) break;
    bytes += got.value;
    __builtin_memcpy(content_buffer() + used, &got.value, 8);
    used += 8 + got.value;
  }
  if (!got && got.error != sys::kEagain) return got;
  return Result<u64>::ok(used);
}

/// Copies the queued messages to content_buffer(), each behind its length. Returns the bytes.
/// An empty message can be peeked at once only, so it is refused; `inode` remembers that there is
/// one. silent: nothing more will come, which reads like an empty message, too.
Result<u64> peek_messages(int fd, u64 type, u64 inode, bool silent) {
  const i32 before = i32(option(fd, sys::kSoPeekOff)), none = -1;
  (void)set_option(fd, sys::kSoPeekOff, none);
  u8 byte;
  const Result<u64> next =
      sys::call(SYS_recvfrom, u64(fd), sys::arg(&byte), 1, u64(sys::kMsgPeek | sys::kMsgDontWait));
  if (!next && next.error == sys::kEagain) note_empty_message(inode, false);
  Result<u64> got = Result<u64>::fail(sys::kEperm);
  if (!has_empty_message(inode) && set_option(fd, sys::kSoPeekOff, 0))
    got = peek_on(fd, type, inode, silent);
  (void)set_option(fd, sys::kSoPeekOff, before);
  return got;
}

}  // namespace

Status describe_socket(Saver& saver, image::ImageFile& file) {
  const u64 domain = option(file.fd, sys::kSoDomain), type = option(file.fd, sys::kSoType);
  file.kind = kSocket;
  file.values[kSocketType] = type | option(file.fd, sys::kSoProtocol) << 32;
  file.values[kSocketDomain] = domain;
  file.values[kSocketSendBytes] = option(file.fd, sys::kSoSndBuf);
  if (domain == sys::kAfUnix && peer_of(file.inode)) return success();
  if (is_tcp(file.fd, domain, type) && reconnects(file.inode)) {
    file.values[kSocketShut] = kSocketReconnects;
    return success();
  }
  if (!is_fresh(file.fd, domain)) return refuse(saver, file, domain, type);
  const char* const what = untold_of(file.inode);
  if (!what) return success();
  saver.refuse(file) << "a socket with " << what << "; close it before the checkpoint";
  return failure(sys::kEperm);
}

Status finish_socket(Saver& saver, image::ImageFile& file) {
  const u64 peer = peer_of(file.inode);
  if (!peer) return success();
  for (u64 i = 0; i < saver.count(); i++)
    if (saver.file(i).kind == kSocket && saver.file(i).inode == peer)
      file.same_as = saver.file(i).fd;
  const u32 state = poll_peer(file.fd);
  const bool datagrams = (file.values[kSocketType] & 0xff) == sys::kSockDgram;
  if (file.same_as < 0 && !(state & sys::kPollHup) && !datagrams)
    return refuse(saver, file, sys::kAfUnix, sys::kSockStream);
  const bool silent = state & (sys::kPollHup | sys::kPollRdHup);
  file.values[kSocketShut] = kPaired | (!silent ? 0 : datagrams ? kReadShut : kPeerSilent);
  if (datagrams && is_shut_for_sending(file.fd)) file.values[kSocketShut] |= kWriteShut;
  const Result<u64> bytes =
      peek_messages(file.fd, file.values[kSocketType] & 0xff, file.inode, silent);
  if (bytes) return save_bytes(saver.writer, file, bytes.value);
  saver.refuse(file) << "messages in a socketpair (too many, empty, or with descriptors inside)";
  return failure(bytes.error);
}

namespace {

/// Sends to `from` what `file`, the other end, had in its queue.
Status refill(Restorer& restorer, const image::ImageFile& file, int from) {
  Status done = load_bytes(restorer.reader, file);
  for (u64 at = 0; done && at + 8 <= file.size;) {
    u64 bytes;
    __builtin_memcpy(&bytes, content_buffer() + at, 8);
    if (bytes > file.size - at - 8) return failure(sys::kEio);
    const Result<u64> sent = sys::call(SYS_sendto, u64(from),
                                       sys::arg(content_buffer() + at + 8), bytes,
                                       sys::kMsgDontWait);
    if (!sent || sent.value != bytes) done = failure(sent ? sys::kEio : sent.error);
    at += 8 + bytes;
  }
  if (!done) restorer.why << "cannot refill the socketpair of descriptor " << file.fd;
  return done;
}

Status make_pair(const image::ImageFile& file, int (&ends)[2]) {
  const Result<u64> made =
      sys::call(SYS_socketpair, sys::kAfUnix,
                (file.values[kSocketType] & 0xff) | sys::kCloseOnExec, 0,
                sys::arg(ends));
  return made ? success() : failure(made.error);
}

Status place_end(Restorer& restorer, const image::ImageFile& file, int fd) {
  if (file.values[kSocketShut] & kReadShut) (void)sys::call(SYS_shutdown, u64(fd), sys::kShutRd);
  if (file.values[kSocketShut] & kWriteShut) (void)sys::call(SYS_shutdown, u64(fd), sys::kShutWr);
  (void)sys::fcntl(fd, sys::kSetFlags, file.flags & ~u32(sys::kAsync));
  return restorer.place(fd, file);
}

Status restore_fresh(Restorer& restorer, const image::ImageFile& file) {
  const Result<u64> made =
      sys::call(SYS_socket, file.values[kSocketDomain],
                (file.values[kSocketType] & 0xff) | sys::kCloseOnExec,
                file.values[kSocketType] >> 32);
  return made ? place_end(restorer, file, int(made.value)) : failure(made.error);
}

struct Pair {
  int own, other;
  const image::ImageFile* peer;  // what `other` becomes; null if it was closed
};

/// Sends both ways what was queued. The send buffers are as they were then.
Status refill_pair(Restorer& restorer, const image::ImageFile& file, const Pair& pair) {
  // As much as one may have: what was sent in small pieces may not fit in one piece.
  constexpr i32 kLarge = 1 << 28;
  const int both[] = {pair.own, pair.other};
  for (const int end : both)
    if (!set_option(end, sys::kSoSndBufForce, kLarge))
      (void)set_option(end, sys::kSoSndBuf, kLarge);
  Status done = refill(restorer, file, pair.other);
  if (done && pair.peer) done = refill(restorer, *pair.peer, pair.own);
  (void)set_option(pair.other, sys::kSoSndBuf,
                   i32((pair.peer ? pair.peer : &file)->values[kSocketSendBytes] / 2));
  (void)set_option(pair.own, sys::kSoSndBuf, i32(file.values[kSocketSendBytes] / 2));
  return done;
}

/// An end whose peer will send nothing more reads so once its queue is empty.
void silence_peers(const image::ImageFile& file, const Pair& pair) {
  if (file.values[kSocketShut] & kPeerSilent)
    (void)sys::call(SYS_shutdown, u64(pair.other), sys::kShutWr);
  if (pair.peer && (pair.peer->values[kSocketShut] & kPeerSilent))
    (void)sys::call(SYS_shutdown, u64(pair.own), sys::kShutWr);
}

Status restore_pair(Restorer& restorer, const image::ImageFile& file) {
  int ends[2];
  const Status made = make_pair(file, ends);
  if (!made) return made;
  note_pair(ends[0], ends[1]);
  const Result<u64> own = restorer.lift(ends[0]), other = restorer.lift(ends[1]);
  if (!own || !other) return failure(own.error | other.error);
  const Pair pair{int(own.value), int(other.value),
                  file.same_as >= 0 ? restorer.find(file.same_as) : nullptr};
  Status done = refill_pair(restorer, file, pair);
  if (done) silence_peers(file, pair);
  if (done) done = place_end(restorer, file, pair.own);
  if (!pair.peer) (void)sys::close(pair.other);
  else if (done) done = place_end(restorer, *pair.peer, pair.other);
  return done;
}

}  // namespace

Status restore_socket(Restorer& restorer, const image::ImageFile& file) {
  if (!(file.values[kSocketShut] & kPaired)) return restore_fresh(restorer, file);
  if (file.same_as >= 0 && file.same_as < file.fd) return success();  // came with its peer
  return restore_pair(restorer, file);
}

}  // namespace fermata::files
