// SPDX-License-Identifier: Apache-2.0
// Options of sockets: those in which a socket differs from a fresh one of its kind are kept.
#include "files/restore.h"
#include "files/save.h"

namespace fermata::files {
namespace {

constexpr u32 kAnyLevel = 1, kTcp = 6, kIp = 0, kIp6 = 41;  // SOL_SOCKET, IPPROTO_*
constexpr u32 kSendBytes = 7, kReceiveBytes = 8, kPriority = 12, kCongestion = 13;
struct Option {
  u32 level, name;
};
// In the order in which they can be set: asm-generic/socket.h, linux/tcp.h, linux/in.h and in6.h.
constexpr Option kOptions[] = {
    {kAnyLevel, 2} /* SO_REUSEADDR */,  {kAnyLevel, 15} /* SO_REUSEPORT */,
    {kAnyLevel, 5} /* SO_DONTROUTE */,  {kAnyLevel, 6} /* SO_BROADCAST */,
    {kAnyLevel, kSendBytes},            {kAnyLevel, kReceiveBytes},
    {kAnyLevel, 9} /* SO_KEEPALIVE */,  {kAnyLevel, 10} /* SO_OOBINLINE */,
    {kAnyLevel, kPriority},             {kAnyLevel, 13} /* SO_LINGER */,
    {kAnyLevel, 16} /* SO_PASSCRED */,  {kAnyLevel, 18} /* SO_RCVLOWAT */,
    {kAnyLevel, 20} /* SO_RCVTIMEO */,  {kAnyLevel, 21} /* SO_SNDTIMEO */,
    {kAnyLevel, 29} /* SO_TIMESTAMP */, {kAnyLevel, 35} /* SO_TIMESTAMPNS */,
    {kAnyLevel, 42} /* SO_PEEK_OFF */,  {kAnyLevel, 60} /* SO_ZEROCOPY */,
    {kTcp, 1} /* TCP_NODELAY */,        {kTcp, 2} /* TCP_MAXSEG */,
    {kTcp, 3} /* TCP_CORK */,           {kTcp, 4} /* TCP_KEEPIDLE */,
    {kTcp, 5} /* TCP_KEEPINTVL */,      {kTcp, 6} /* TCP_KEEPCNT */,
    {kTcp, 7} /* TCP_SYNCNT */,         {kTcp, 8} /* TCP_LINGER2 */,
    {kTcp, 9} /* TCP_DEFER_ACCEPT */,   {kTcp, kCongestion},
    {kTcp, 18} /* TCP_USER_TIMEOUT */,
    {kIp, 1} /* IP_TOS */,              {kIp, 2} /* IP_TTL */,
    {kIp, 8} /* IP_PKTINFO */,          {kIp, 10} /* IP_MTU_DISCOVER */,
    {kIp, 11} /* IP_RECVERR */,         {kIp, 33} /* IP_MULTICAST_TTL */,
    {kIp, 34} /* IP_MULTICAST_LOOP */,
    {kIp6, 26} /* IPV6_V6ONLY */,       {kIp6, 16} /* IPV6_UNICAST_HOPS */,
    {kIp6, 18} /* IPV6_MULTICAST_HOPS */, {kIp6, 19} /* IPV6_MULTICAST_LOOP */,
    {kIp6, 49} /* IPV6_RECVPKTINFO */,  {kIp6, 67} /* IPV6_TCLASS */,
};

/// What only makes a connection faster or slower, and takes a right or a module of the kernel.
bool only_hints(u64 level, u32 name) {
  return (level == kAnyLevel && name == kPriority) || (level == kTcp && name == kCongestion);
}

struct Value {
  u64 words[2] = {0, 0};
  u32 bytes = sizeof words;  // 0: this socket has no such option
};

Value get(int fd, const Option& option) {
  Value value;
  const Result<u64> got = sys::call(SYS_getsockopt, u64(fd), option.level, option.name,
                                    sys::word(value.words), sys::word(&value.bytes));
  return got ? value : Value{{0, 0}, 0};
}

bool same(const Value& a, const Value& b) {
  return a.bytes == b.bytes && a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

}  // namespace

Status finish_options(Saver& saver, const image::ImageFile& file) {
  const u64 type = file.values[kSocketType];
  const Result<u64> fresh = sys::call(SYS_socket, file.values[kSocketDomain],
                                      (type & 0xff) | sys::kCloseOnExec, type >> 32);
  if (!fresh) return failure(fresh.error);
  Status done = success();
  for (const Option& option : kOptions) {
    // The buffers of a pair are made when it is refilled.
    const bool buffer = option.level == kAnyLevel && option.name == kSendBytes;
    if (buffer && file.values[kSocketShut]) continue;
    const Value value = get(file.fd, option);
    if (!value.bytes || same(value, get(int(fresh.value), option))) continue;
    image::ImageMember* const member = saver.writer.members.add();
    if (!member) {
      done = failure(sys::kEnomem);
      break;
    }
    *member = {};
    member->fd = file.fd;
    member->kind = kSocketOption;
    member->target = i32(option.level);
    member->flags = option.name;
    member->bytes = value.bytes;
    __builtin_memcpy(member->values, value.words, sizeof member->values);
  }
  (void)sys::close(int(fresh.value));
  return done;
}

Status restore_option(Restorer& restorer, const image::ImageMember& member) {
  u64 words[2] = {member.values[0], member.values[1]};
  const u64 level = u64(member.target), fd = u64(member.fd);
  const u32 bytes = member.bytes < sizeof words ? member.bytes : u32(sizeof words);
  if (level == kAnyLevel && (member.flags == kSendBytes || member.flags == kReceiveBytes)) {
    // The kernel doubles what it is told, and keeps it below the administrator's limit.
    const u32 forced = member.flags == kSendBytes ? 32 : 33, half = u32(words[0]) / 2;
    if (!sys::call(SYS_setsockopt, fd, level, forced, sys::word(&half), sizeof half))
      (void)sys::call(SYS_setsockopt, fd, level, member.flags, sys::word(&half), sizeof half);
    return success();
  }
  const Result<u64> set =
      sys::call(SYS_setsockopt, fd, level, member.flags, sys::word(words), bytes);
  if (set) return success();
  Message text;
  text << "cannot set option " << member.flags << " of level " << level << " of the socket "
       << member.fd;
  if (only_hints(level, member.flags)) {
    Message line;
    line << "fermata: " << text.data << "; the program goes on without it\n";
    sys::say(line.data);
    return success();
  }
  restorer.why << text.data;
  return failure(set.error);
}

}  // namespace fermata::files
