// SPDX-License-Identifier: Apache-2.0
// What a descriptor is, decides how it comes back. What has no way back is refused by name: better
// no checkpoint than one that restarts into a program whose connection is silently gone.
#include "files/describe.h"

#include "files/fdinfo.h"
#include "files/save.h"

namespace fermata::files {
namespace {

struct DirectoryEntry {  // struct linux_dirent64
  u64 inode;
  i64 offset;
  u16 size;
  u8 type;
  char name[];
};

/// kcmp(2), KCMP_FILE: do two descriptors share one open file description?
bool same_open_file(int a, int b) {
  const u32 pid = sys::getpid();
  const Result<u64> order = sys::call(SYS_kcmp, pid, pid, 0, u64(a), u64(b));
  return order && order.value == 0;
}

/// One of the rank's own streams, or the second descriptor of an earlier one?
bool describe_shared(Saver& saver, image::ImageFile& file) {
  for (int stream = 0; stream <= 2; stream++) {
    const int own = saver.context.streams[stream];
    if (own < 0 || !same_open_file(own, file.fd)) continue;
    file.kind = kStandard;
    file.same_as = stream;
    return true;
  }
  for (u64 i = 0; i + 1 < saver.count(); i++) {
    const image::ImageFile& earlier = saver.file(i);
    if (earlier.kind == kDuplicate || earlier.inode != file.inode) continue;
    if (!same_open_file(earlier.fd, file.fd)) continue;
    file.kind = kDuplicate;
    file.same_as = earlier.fd;
    return true;
  }
  return false;
}

Status describe(Saver& saver, int fd) {
  sys::KernelStat info;
  if (!sys::fstat(fd, &info)) return success();  // closed meanwhile: the listing's own descriptor
  image::ImageFile* file = saver.writer.files.add();
  if (!file) return failure(sys::kEnomem);
  file->fd = fd;
  file->same_as = -1;
  file->inode = info.ino;
  file->fd_flags = u32(sys::fcntl(fd, sys::kGetFdFlags).value);
  file->flags = u32(sys::fcntl(fd, sys::kGetFlags).value);
  if (describe_shared(saver, *file)) return success();
  Text<64> link;
  link << "/proc/self/fd/" << fd;
  static Path path;
  (void)sys::readlink(link.data, path.data, sizeof path.data);
  if (text_starts(path.data, "anon_inode:")) return describe_event(saver, *file, path.data);
  switch (info.mode & sys::kTypeMask) {
    case sys::kTypeRegular:
    case sys::kTypeDirectory:
    case sys::kTypeCharDevice: return describe_path(saver, *file, info, path.data);
    case sys::kTypeFifo: return describe_pipe(saver, *file, path.data);
    case sys::kTypeSocket: return describe_socket(saver, *file);
    default:
      saver.refuse(*file) << path.data << "; close it before the checkpoint";
      return failure(sys::kEperm);
  }
}

/// What needs to know the other descriptors: the two ends of a pipe, the members of an epoll.
Status finish(Saver& saver, image::ImageFile& file) {
  Status done = success();
  if (file.kind == kPipe) done = finish_pipe(saver, file);
  if (file.kind == kSocket) done = finish_socket(saver, file);
  if (done && file.kind == kSocket) done = finish_options(saver, file);
  if (file.kind == kDeleted) done = finish_properties(saver, file);
  if (file.kind == kEpoll) done = finish_epoll(saver, file);
  if (file.kind == kInotify) done = finish_inotify(saver, file);
  if (done && (file.kind == kRegular || file.kind == kDeleted || file.kind == kDirectory))
    done = finish_locks(saver, file);
  if (done && file.kind != kStandard && file.kind != kDuplicate) done = finish_owner(saver, file);
  return done;
}

/// Calls take(fd) for every open descriptor, in ascending order. Errors: of the listing or take.
template <typename Take>
Status each_descriptor(Message& why, Take take) {
  const Result<u64> directory =
      sys::open("/proc/self/fd", sys::kReadOnly | sys::kDirectory | sys::kCloseOnExec);
  if (!directory) {
    why << "cannot list /proc/self/fd";
    return failure(directory.error);
  }
  static char buffer[1 << 16];
  for (;;) {
    const Result<u64> got =
        sys::call(SYS_getdents64, directory.value, sys::arg(buffer), sizeof buffer);
    if (!got) return failure(got.error);
    if (got.value == 0) break;
    for (u64 at = 0; at < got.value;) {
      const DirectoryEntry* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      at += entry->size;
      const char* name = entry->name;
      if (*name < '0' || *name > '9') continue;
      const int fd = int(parse_decimal(name));
      if (fd == int(directory.value)) continue;
      const Status done = take(fd);
      if (!done) return done;
    }
  }
  (void)sys::close(int(directory.value));
  return success();
}

}  // namespace

image::ImageFile* Saver::find(int fd) {
  for (u64 i = 0; i < count(); i++)
    if (file(i).fd == fd) return &file(i);
  return nullptr;
}

const char* fdinfo_of(u32 pid, int fd) {
  static char text[1 << 20];
  return read_fdinfo(pid, fd, text, sizeof text) ? text : nullptr;
}

bool can_compare_files() {
  const u32 pid = sys::getpid();
  return bool(sys::call(SYS_kcmp, pid, pid, sys::kKcmpVm));
}

bool is_regular(int fd) {
  sys::KernelStat info;
  return sys::fstat(fd, &info) && (info.mode & sys::kTypeMask) == sys::kTypeRegular;
}

bool may_stay_open(const image::Writer& writer, const image::ImageFile& file) {
  if (file.kind != kStandard && file.kind != kDuplicate && file.kind != kRegular) return false;
  const int holder = file.kind == kDuplicate ? file.same_as : file.fd;  // of its locks
  for (u64 i = 0; i < writer.members.count; i++)
    if (writer.members.entries[i].fd == holder) return false;
  return is_regular(file.fd);
}

Status describe_files(image::Writer& writer, const DescriptorContext& context, Message& why) {
  if (!can_compare_files()) {
    why << "kcmp(2), which tells what descriptors share, is not allowed here (by a container?)";
    return failure(sys::kEperm);
  }
  Saver saver{writer, context, why};
  Status done = each_descriptor(why, [&](int fd) {
    return context.belongs(fd) ? describe(saver, fd) : success();
  });
  for (u64 i = 0; done && i < saver.count(); i++) done = finish(saver, saver.file(i));
  return done;
}

}  // namespace fermata::files
