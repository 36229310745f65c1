// SPDX-License-Identifier: Apache-2.0
// Options of sockets: those in which a socket differs from a fresh one of its kind are kept.
#include "files/contents.h"
#include "files/restore.h"
#include "files/save.h"

namespace fermata::files {
namespace {

struct Option {
  u32 level, name;
};

// By level, in the order in which they can be set; the comments name them in turn. What is missing
// does not stay (TCP_TIMESTAMP), cannot be asked for, or is of sockets that are refused anyway.
// asm-generic/socket.h:
// REUSEADDR REUSEPORT DONTROUTE BROADCAST SNDBUF RCVBUF KEEPALIVE OOBINLINE NO_CHECK PRIORITY
// LINGER PASSCRED RCVLOWAT RCVTIMEO SNDTIMEO BINDTODEVICE TIMESTAMP(NS)(_NEW) PASSSEC MARK
// TIMESTAMPING
// RXQ_OVFL WIFI_STATUS PEEK_OFF NOFCS SELECT_ERR_QUEUE BUSY_POLL MAX_PACING_RATE INCOMING_CPU
// ZEROCOPY TXTIME PREFER_BUSY_POLL BUF_LOCK RESERVE_MEM TXREHASH RCVMARK PASSPIDFD RCVPRIORITY
// PASSRIGHTS DEBUG ATTACH_FILTER LOCK_FILTER
constexpr u8 kAnyNames[] = {2,  15, 5,  6,  sys::kSoSndBuf, sys::kSoRcvBuf, 9, 10, 11,
                            sys::kSoPriority, 13, 16, 18, 20, 21, 25, 29, 35, 63, 64, 34, 36, 37,
                            40, 41, 42, 43, 45, sys::kSoBusyPoll, 47, sys::kSoIncomingCpu, 60, 61,
                            sys::kSoPreferBusyPoll, sys::kSoBufLock, sys::kSoReserveMem, 74, 75, 76,
                            82, 83, 1, sys::kSoAttachFilter, 44};
// linux/tcp.h: NODELAY MAXSEG CORK KEEPIDLE KEEPINTVL KEEPCNT SYNCNT LINGER2 DEFER_ACCEPT
// WINDOW_CLAMP QUICKACK CONGESTION THIN_LINEAR_TIMEOUTS THIN_DUPACK USER_TIMEOUT FASTOPEN
// NOTSENT_LOWAT SAVE_SYN FASTOPEN_CONNECT FASTOPEN_NO_COOKIE INQ TX_DELAY
constexpr u8 kTcpNames[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 12,
                            sys::kTcpCongestion, 16, 17, 18, 23, 25, 27, 30, 34, 36, 37};
// linux/udp.h: CORK ENCAP NO_CHECK6_TX NO_CHECK6_RX SEGMENT GRO
constexpr u8 kUdpNames[] = {1, 100, 101, 102, 103, 104};
// linux/in.h: TOS TTL RECVOPTS RETOPTS PKTINFO MTU_DISCOVER RECVERR RECVTTL RECVTOS FREEBIND
// PASSSEC TRANSPARENT RECVORIGDSTADDR MINTTL CHECKSUM BIND_ADDRESS_NO_PORT RECVFRAGSIZE
// RECVERR_RFC4884 MULTICAST_IF _TTL _LOOP _ALL UNICAST_IF LOCAL_PORT_RANGE
constexpr u8 kIpNames[] = {1,  2,  6,  7,  8,  10, 11, 12, 13, 15, 18, 19,
                           20, 21, 23, 24, 25, 26, 32, 33, 34, 49, 50, 51};
// linux/in6.h: V6ONLY UNICAST_HOPS MULTICAST_IF _HOPS _LOOP _ALL MTU_DISCOVER RECVERR
// RECVERR_RFC4884 FLOWINFO_SEND RECVPKTINFO RECVHOPLIMIT RECVHOPOPTS RECVRTHDR RECVDSTOPTS
// RECVPATHMTU DONTFRAG RECVTCLASS TCLASS AUTOFLOWLABEL ADDR_PREFERENCES MINHOPCOUNT ORIGDSTADDR
// TRANSPARENT UNICAST_IF RECVFRAGSIZE FREEBIND, 2292PKTINFO HOPOPTS DSTOPTS RTHDR HOPLIMIT
constexpr u8 kIp6Names[] = {26, 16, 17, 18, 19, 29, 23, 25, 31, 33, 49, 51, 53, 56, 58, 60,
                            62, 66, 67, 70, 72, 73, 74, 75, 76, 77, 78, 2,  3,  4,  5,  8};
struct Level {
  u32 level, count;
  const u8* names;
};
constexpr Level kLevels[] = {{sys::kSolSocket, sizeof kAnyNames, kAnyNames},
                             {sys::kIpProtoTcp, sizeof kTcpNames, kTcpNames},
                             {sys::kIpProtoUdp, sizeof kUdpNames, kUdpNames},
                             {sys::kIpProtoIp, sizeof kIpNames, kIpNames},
                             {sys::kIpProtoIpv6, sizeof kIp6Names, kIp6Names}};
// Longer than an image keeps: IP_OPTIONS, IPV6_HOPOPTS, _RTHDRDSTOPTS, _RTHDR, _DSTOPTS,
// TCP_FASTOPEN_KEY.
constexpr Option kRefused[] = {{sys::kIpProtoIp, 4},    {sys::kIpProtoIpv6, 54},
                               {sys::kIpProtoIpv6, 55}, {sys::kIpProtoIpv6, 57},
                               {sys::kIpProtoIpv6, 59}, {sys::kIpProtoTcp, 33}};

/// What only makes a connection faster or slower, and takes a right or a module of the kernel.
bool only_hints(u64 level, u32 name) {
  if (level == sys::kIpProtoTcp) return name == sys::kTcpCongestion;
  constexpr u32 kHints[] = {sys::kSoPriority, sys::kSoBusyPoll, sys::kSoPreferBusyPoll,
                            sys::kSoIncomingCpu, sys::kSoReserveMem};
  bool found = false;
  for (const u32 hint : kHints) found = found || (level == sys::kSolSocket && name == hint);
  return found;
}

struct Value {
  u64 words[2] = {0, 0};
  u32 bytes = sizeof words;  // 0: this socket has no such option
};

Value get(int fd, const Option& option) {
  Value value;
  const Result<u64> got = sys::call(SYS_getsockopt, u64(fd), option.level, option.name,
                                    sys::arg(value.words), sys::arg(&value.bytes));
  return got ? value : Value{{0, 0}, 0};
}

bool same(const Value& a, const Value& b) {
  return a.bytes == b.bytes && a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

/// A classic filter (SO_ATTACH_FILTER): its instructions. Of one of BPF nothing can be asked.
Status add_filter(Saver& saver, const image::ImageFile& file) {
  constexpr u32 kInstructionBytes = 8;
  u32 count = 0;
  const Result<u64> counted = sys::call(SYS_getsockopt, u64(file.fd), sys::kSolSocket,
                                        sys::kSoAttachFilter, 0,
                                        sys::arg(&count));
  if (counted && count == 0) return success();
  const bool fits = counted && count * kInstructionBytes <= kTextBytes;
  const Result<u64> got = fits ? sys::call(SYS_getsockopt, u64(file.fd), sys::kSolSocket,
                                           sys::kSoAttachFilter,
                                           sys::arg(content_buffer()), sys::arg(&count))
                               : counted;
  if (!counted && counted.error == sys::kEnoprotoopt) return success();
  image::ImageMember* const member =
      fits && got ? saver.add_member(file, kSocketOption) : nullptr;
  if (!member) {
    saver.refuse(file) << "a socket with a filter of BPF; take it off before the checkpoint";
    return failure(sys::kEperm);
  }
  member->target = i32(sys::kSolSocket);
  member->flags = sys::kSoAttachFilter;
  member->bytes = count * kInstructionBytes;
  member->values[0] = save_text(saver.writer, content_buffer(), member->bytes);
  return success();
}

Result<u64> attach_filter(const image::Reader& reader, const image::ImageMember& member) {
  struct {
    u64 count, instructions;  // struct sock_fprog: the count has 16 bits
  } program{member.bytes / 8, sys::arg(content_buffer())};
  if (!load_text(reader, u32(member.values[0]), content_buffer(), member.bytes))
    return Result<u64>::fail(sys::kEio);
  return sys::call(SYS_setsockopt, u64(member.fd), sys::kSolSocket, sys::kSoAttachFilter,
                   sys::arg(&program),
                   sizeof program);
}

/// Keeps an option if a fresh socket of its kind has another value.
Status add_option(Saver& saver, const image::ImageFile& file, const Option& option, int fresh) {
  const bool any = option.level == sys::kSolSocket;
  if (any && option.name == sys::kSoAttachFilter) return add_filter(saver, file);
  const Value value = get(file.fd, option);
  // The buffers of a pair are made when it is refilled, which also locks their sizes.
  if (any && option.name == sys::kSoSndBuf && file.values[kSocketShut]) return success();
  const bool always = any && option.name == sys::kSoBufLock && file.values[kSocketShut];
  if (!value.bytes || (!always && same(value, get(fresh, option)))) return success();
  image::ImageMember* const member = saver.add_member(file, kSocketOption);
  if (!member) return failure(sys::kEnomem);
  member->target = i32(option.level);
  member->flags = option.name;
  member->bytes = value.bytes;
  __builtin_memcpy(member->values, value.words, sizeof member->values);
  return success();
}

Status refuse_option(Saver& saver, const image::ImageFile& file, const Option& option) {
  saver.refuse(file) << "option " << option.name << " of level " << option.level
                     << " of a socket; unset it, or close the socket, before the checkpoint";
  return failure(sys::kEperm);
}

}  // namespace

Status finish_options(Saver& saver, const image::ImageFile& file) {
  if (file.values[kSocketShut] & kSocketReconnects) return success();
  const u64 type = file.values[kSocketType];
  const Result<u64> fresh = sys::call(SYS_socket, file.values[kSocketDomain],
                                      (type & 0xff) | sys::kCloseOnExec, type >> 32);
  if (!fresh) return failure(fresh.error);
  Status done = success();
  for (const Option& option : kRefused)
    if (done && !same(get(file.fd, option), get(int(fresh.value), option)))
      done = refuse_option(saver, file, option);
  for (const Level& level : kLevels)
    for (u32 i = 0; done && i < level.count; i++)
      done = add_option(saver, file, {level.level, level.names[i]}, int(fresh.value));
  (void)sys::close(int(fresh.value));
  return done;
}

Status restore_option(Restorer& restorer, const image::ImageMember& member) {
  u64 words[2] = {member.values[0], member.values[1]};
  const u64 level = u64(member.target), fd = u64(member.fd);
  const u32 bytes = member.bytes < sizeof words ? member.bytes : u32(sizeof words);
  const bool sends = member.flags == sys::kSoSndBuf;
  if (level == sys::kSolSocket && (sends || member.flags == sys::kSoRcvBuf)) {
    // The kernel doubles what it is told, and keeps it below the administrator's limit.
    const u32 forced = sends ? sys::kSoSndBufForce : sys::kSoRcvBufForce, half = u32(words[0]) / 2;
    if (!sys::call(SYS_setsockopt, fd, level, forced, sys::arg(&half), sizeof half))
      (void)sys::call(SYS_setsockopt, fd, level, member.flags, sys::arg(&half), sizeof half);
    return success();
  }
  const bool filter = level == sys::kSolSocket && member.flags == sys::kSoAttachFilter;
  const Result<u64> set =
      filter ? attach_filter(restorer.reader, member)
             : sys::call(SYS_setsockopt, fd, level, member.flags, sys::arg(words), bytes);
  if (set) return success();
  Message text;
  text << "cannot set option " << member.flags << " of level " << level << " of the socket "
       << member.fd;
  if (only_hints(level, member.flags)) {
    Message line;
    line << "fermata: " << text.data << "; the program continues without it\n";
    sys::say(line.data);
    return success();
  }
  restorer.why << text.data;
  return failure(set.error);
}

}  // namespace fermata::files
