// SPDX-License-Identifier: Apache-2.0
// What a descriptor is, decides how it comes back: regular files and directories by path and
// offset, device nodes by path, the standard streams as the new process has them, a second
// descriptor of the same open file as a duplicate of the first. Everything else is refused by name:
// better no checkpoint than one that restarts into a program whose connection is silently gone.
#include "files/describe.h"

namespace fermata::files {
namespace {

struct DirectoryEntry {  // struct linux_dirent64
  u64 inode;
  i64 offset;
  u16 size;
  u8 type;
  char name[];
};

bool ends_with(const char* text, const char* suffix) {
  const u64 n = text_length(text), m = text_length(suffix);
  return n >= m && text_equal(text + n - m, suffix);
}

/// kcmp(2), KCMP_FILE: do two descriptors share one open file description?
bool same_open_file(int a, int b) {
  const u32 pid = sys::getpid();
  const Result<u64> order = sys::call(SYS_kcmp, pid, pid, 0, u64(a), u64(b));
  return order && order.value == 0;
}

bool same_stream(int fd, int standard) {
  sys::KernelStat a, b;
  return sys::fstat(fd, &a) && sys::fstat(standard, &b) && a.dev == b.dev && a.ino == b.ino;
}

/// Refuses what has no way back.
Status classify(image::ImageFile& file, const sys::KernelStat& info, const char* path,
                Message& why) {
  switch (info.mode & sys::kTypeMask) {
    case sys::kTypeRegular: file.kind = kRegular; break;
    case sys::kTypeDirectory: file.kind = kDirectory; break;
    case sys::kTypeCharDevice: file.kind = kDevice; break;
    default:
      for (int standard = 0; standard <= 2; standard++) {
        if (!same_stream(file.fd, standard)) continue;
        file.kind = kDuplicate;
        file.same_as = standard;
        return success();
      }
      why << "descriptor " << file.fd << " cannot be saved: " << path
          << "; close it before the checkpoint";
      return failure(sys::kEperm);
  }
  if (ends_with(path, " (deleted)")) {
    why << "descriptor " << file.fd << " is a deleted file, which cannot be saved yet: " << path;
    return failure(sys::kEperm);
  }
  return success();
}

Status describe(image::Writer& writer, int fd, Message& why) {
  sys::KernelStat info;
  if (!sys::fstat(fd, &info)) return success();  // closed meanwhile: the listing's own descriptor
  image::ImageFile* file = writer.files.add();
  if (!file) return failure(sys::kEnomem);
  file->fd = fd;
  file->same_as = -1;
  file->fd_flags = u32(sys::fcntl(fd, sys::kGetFdFlags).value);
  file->flags = u32(sys::fcntl(fd, sys::kGetFlags).value);
  if (fd <= 2) {
    file->kind = kStandard;
    return success();
  }
  Text<64> link;
  link << "/proc/self/fd/" << fd;
  Path path;
  (void)sys::readlink(link.data, path.data, sizeof path.data);
  const Status known = classify(*file, info, path.data, why);
  if (!known) return known;
  if (file->kind == kDuplicate) return success();
  for (u64 i = 0; i + 1 < writer.files.count; i++) {
    const image::ImageFile& earlier = writer.files.entries[i];
    if (earlier.kind == kDuplicate || !same_open_file(earlier.fd, fd)) continue;
    file->kind = kDuplicate;
    file->same_as = earlier.fd;
    return success();
  }
  const Result<u64> offset = sys::lseek(fd, 0, 1 /* SEEK_CUR */);
  file->offset = offset ? offset.value : 0;
  file->size = u64(info.size);
  file->path_string = writer.string(path.data);
  return success();
}

}  // namespace

Status describe_files(image::Writer& writer, bool (*belongs)(int fd), Message& why) {
  const Result<u64> directory =
      sys::open("/proc/self/fd", sys::kReadOnly | sys::kDirectory | sys::kCloseOnExec);
  if (!directory) {
    why << "cannot list /proc/self/fd";
    return failure(directory.error);
  }
  // /proc lists descriptors in ascending order, so the first of a set of duplicates comes first.
  static char buffer[1 << 16];
  for (;;) {
    const Result<u64> got =
        sys::call(SYS_getdents64, directory.value, sys::word(buffer), sizeof buffer);
    if (!got) return failure(got.error);
    if (got.value == 0) break;
    for (u64 at = 0; at < got.value;) {
      const DirectoryEntry* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      at += entry->size;
      const char* name = entry->name;
      if (*name < '0' || *name > '9') continue;
      const int fd = int(parse_decimal(name));
      if (fd == int(directory.value) || !belongs(fd)) continue;
      const Status done = describe(writer, fd, why);
      if (!done) return done;
    }
  }
  (void)sys::close(int(directory.value));
  return success();
}

Status reopen(const image::ImageFile& file, const char* path, Message& why) {
  if (file.kind == kStandard) return success();
  if (sys::fcntl(file.fd, sys::kGetFdFlags)) {
    why << "descriptor " << file.fd << " (" << path << ") is taken by the new process";
    return failure(sys::kEexist);
  }
  if (file.kind == kDuplicate) {
    const int flags = (file.fd_flags & 1) ? sys::kCloseOnExec : 0;
    const Result<u64> made = sys::dup3(file.same_as, file.fd, flags);
    if (!made) why << "cannot duplicate descriptor " << file.same_as << " as " << file.fd;
    return made ? success() : failure(made.error);
  }
  const int flags = int(file.flags) & ~(sys::kCreate | sys::kExcl | sys::kTruncate);
  const int cloexec = (file.fd_flags & 1) ? sys::kCloseOnExec : 0;
  const Result<u64> opened = sys::open(path, flags | cloexec);
  if (!opened) {
    why << "cannot reopen " << path << " (descriptor " << file.fd << ")";
    return failure(opened.error);
  }
  if (int(opened.value) != file.fd) {
    const Result<u64> moved = sys::dup3(int(opened.value), file.fd, cloexec);
    (void)sys::close(int(opened.value));
    if (!moved) return failure(moved.error);
  }
  if (file.kind == kRegular) (void)sys::lseek(file.fd, i64(file.offset), 0 /* SEEK_SET */);
  return success();
}

}  // namespace fermata::files
