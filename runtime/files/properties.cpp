// SPDX-License-Identifier: Apache-2.0
// What fstat(2) and its kin tell of a file that has no name any more: a restart makes it anew, so
// owner, permissions, times, attributes and flags have to be given back. A file with a name has
// kept them. They come last, when nobody needs to open the file any more.
#include "files/contents.h"
#include "files/restore.h"
#include "files/save.h"

namespace fermata::files {
namespace {

// Those that open to a program: s, u, c, S, i, a, d, A, C of chattr(1) (linux/fs.h).
constexpr u32 kKeptFlags = 0x800000 | 0xff;
static_assert(sys::kXattrSizeMax <= kTextBytes);
constexpr u64 kNsPerSecond = 1'000'000'000;

u8 value[sys::kXattrSizeMax];
char names[sys::kXattrSizeMax];

void name_descriptor(int fd, Text<64>& link) { link << "/proc/self/fd/" << fd; }

/// What a program can set; the others are the system's own, such as a label of SELinux.
bool is_programs(const char* name) {
  return text_starts(name, "user.") || text_starts(name, "trusted.") ||
         text_equal(name, "system.posix_acl_access");
}

Status add_attributes(Saver& saver, const image::ImageFile& file) {
  Text<64> link;
  name_descriptor(file.fd, link);
  const Result<u64> listed =
      sys::call(SYS_listxattr, sys::arg(link.data), sys::arg(names), sizeof names);
  for (u64 at = 0; listed && at < listed.value; at += text_length(names + at) + 1) {
    const char* name = names + at;
    if (!is_programs(name)) continue;
    const Result<u64> got = sys::call(SYS_getxattr, sys::arg(link.data), sys::arg(name),
                                      sys::arg(value), sizeof value);
    if (!got) continue;
    image::ImageMember* const member = saver.add_member(file, kFileAttribute);
    if (!member) return failure(sys::kEnomem);
    member->path_string = saver.writer.string(name);
    member->values[0] = save_text(saver.writer, value, got.value);
    member->bytes = u32(got.value);
  }
  return success();
}

u64 in_ns(u64 seconds, u64 nanoseconds) { return seconds * kNsPerSecond + nanoseconds; }

}  // namespace

Status finish_properties(Saver& saver, const image::ImageFile& file) {
  sys::KernelStat info;
  if (file.kind != kDeleted || file.same_as != file.fd || !sys::fstat(file.fd, &info))
    return success();
  image::ImageMember* const owner = saver.add_member(file, kFileOwner);
  if (!owner) return failure(sys::kEnomem);
  owner->values[0] = info.uid;
  owner->values[1] = info.gid;
  const Status added = add_attributes(saver, file);
  if (!added) return added;
  image::ImageMember* const times = saver.add_member(file, kFileTimes);
  if (!times) return failure(sys::kEnomem);
  times->values[0] = in_ns(info.times[0], info.times[1]);
  times->values[1] = in_ns(info.times[2], info.times[3]);
  u32 flags = 0;
  if (!sys::call(SYS_ioctl, u64(file.fd), sys::kFsIocGetFlags, sys::arg(&flags))) return success();
  if (!(flags & kKeptFlags)) return success();
  image::ImageMember* const kept = saver.add_member(file, kFileFlags);
  if (!kept) return failure(sys::kEnomem);
  kept->values[0] = flags & kKeptFlags;
  return success();
}

namespace {

Result<u64> set_owner(Restorer& restorer, const image::ImageMember& member, const char* link) {
  constexpr u64 kUnchanged = ~u64(0);
  sys::KernelStat info;
  if (!sys::stat(link, &info)) return Result<u64>::fail(sys::kEnoent);
  const bool same = info.uid == member.values[0] && info.gid == member.values[1];
  const u64 user = info.uid == member.values[0] ? kUnchanged : member.values[0];
  Result<u64> done = Result<u64>::ok(0);
  if (!same)
    done = sys::call(SYS_fchownat, u64(i64(sys::kAtCwd)), sys::arg(link), user, member.values[1]);
  const image::ImageFile* const file = restorer.find(member.fd);
  // Afterwards, since a change of owner takes the set-user-ID bit away.
  if (file)
    (void)sys::call(SYS_fchmodat, u64(i64(sys::kAtCwd)), sys::arg(link),
                    file->values[kDeletedMode]);
  return done;
}

Result<u64> set_attribute(Restorer& restorer, const image::ImageMember& member, const char* link) {
  if (!load_text(restorer.reader, u32(member.values[0]), value, member.bytes))
    return Result<u64>::fail(sys::kEio);
  return sys::call(SYS_setxattr, sys::arg(link),
                   sys::arg(restorer.reader.string(member.path_string)), sys::arg(value),
                   member.bytes, 0);
}

Result<u64> set_times(const image::ImageMember& member, const char* link) {
  const sys::TimeSpec times[2] = {
      {i64(member.values[0] / kNsPerSecond), i64(member.values[0] % kNsPerSecond)},
      {i64(member.values[1] / kNsPerSecond), i64(member.values[1] % kNsPerSecond)}};
  return sys::call(SYS_utimensat, u64(i64(sys::kAtCwd)), sys::arg(link), sys::arg(times), 0);
}

Result<u64> set_flags(const image::ImageMember& member) {
  u32 flags = 0;
  const Result<u64> got =
      sys::call(SYS_ioctl, u64(member.fd), sys::kFsIocGetFlags, sys::arg(&flags));
  if (!got) return got;
  flags = (flags & ~kKeptFlags) | u32(member.values[0]);
  return sys::call(SYS_ioctl, u64(member.fd), sys::kFsIocSetFlags, sys::arg(&flags));
}

}  // namespace

/// What cannot be given back here (another user restarts; memory takes no such attribute) is said:
/// the program has the contents.
Status restore_property(Restorer& restorer, const image::ImageMember& member) {
  Text<64> link;
  name_descriptor(member.fd, link);
  const char* what = "its owner";
  Result<u64> done = Result<u64>::ok(0);
  switch (member.kind) {
    case kFileOwner: done = set_owner(restorer, member, link.data); break;
    case kFileTimes: what = "its times", done = set_times(member, link.data); break;
    case kFileFlags: what = "its flags", done = set_flags(member); break;
    default:
      what = restorer.reader.string(member.path_string);
      done = set_attribute(restorer, member, link.data);
  }
  if (done) return success();
  const image::ImageFile* const file = restorer.find(member.fd);
  Message text;
  text << "fermata: the deleted file " << (file ? restorer.reader.string(file->path_string) : "")
       << " (descriptor " << member.fd << ") has lost " << what << " (errno " << done.error
       << "); the program continues without it\n";
  sys::say(text.data);
  return success();
}

Result<u64> open_again(const char* path, int flags) {
  for (;;) {
    const Result<u64> opened = sys::open(path, flags);
    if (opened) return opened;
    // Only the owner may ask for the first; the last is not for all file systems.
    const int unwanted = opened.error == sys::kEperm    ? sys::kNoAccessTime
                         : opened.error == sys::kEloop  ? sys::kNoFollow
                         : opened.error == sys::kEinval ? sys::kDirect
                                                        : 0;
    if (flags & unwanted) {
      flags &= ~unwanted;
      continue;
    }
    sys::KernelStat info;
    const u64 here = u64(i64(sys::kAtCwd));
    if (opened.error != sys::kEacces || !sys::stat(path, &info)) return opened;
    if (info.uid != sys::call(SYS_geteuid).value) return opened;
    if (!sys::call(SYS_fchmodat, here, sys::arg(path), 0700)) return opened;
    const Result<u64> again = sys::open(path, flags);
    (void)sys::call(SYS_fchmodat, here, sys::arg(path), info.mode & 07777);
    return again;
  }
}

}  // namespace fermata::files
