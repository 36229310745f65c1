// SPDX-License-Identifier: Apache-2.0
// What has a path: regular files, directories, devices; and files whose path is gone.
#include "files/contents.h"
#include "files/restore.h"
#include "files/save.h"

namespace fermata::files {
namespace {

constexpr u32 kPermissions = 07777;

constexpr u64 device_major(u64 device) {
  return (device >> 8 & 0xfff) | (device >> 32 & ~u64(0xfff));
}
constexpr u64 device_minor(u64 device) { return (device & 0xff) | (device >> 12 & ~u64(0xff)); }

/// The usual path of a device that is the same under every name; null for others.
const char* usual_path(u64 device) {
  constexpr const char* kMemory[] = {nullptr, nullptr, nullptr, "/dev/null", nullptr, "/dev/zero",
                                     nullptr, "/dev/full", "/dev/random", "/dev/urandom"};
  const u64 major = device_major(device), minor = device_minor(device);
  if (major == 5 && minor == 0) return "/dev/tty";
  return major == 1 && minor < sizeof kMemory / sizeof *kMemory ? kMemory[minor] : nullptr;
}

/// Devices that a program finds again as it left them (Documentation/admin-guide/devices.txt).
bool is_stateless(u64 device) {
  const u64 major = device_major(device), minor = device_minor(device);
  const bool terminal = (major == 5 && minor <= 1) || (major >= 136 && major <= 143) ||
                        major == 4;  // tty console, pseudo terminals, virtual consoles
  return usual_path(device) || terminal;
}

/// The process has another id after a restart, so what it has open of itself in /proc is named by
/// the links that /proc has for that. Returns null, or what it is that cannot be found again: files
/// of a thread other than the main one, whose new id is not known when files are opened; of another
/// process, which may be no more (but the first one); of a descriptor or a mapping.
const char* name_own_process(u32 pid, const char* path, Path& out) {
  constexpr const char* kProc = "/proc/";
  Text<32> process, main_task;
  process << kProc << pid;
  main_task << "/task/" << pid;
  const char* inside = behind(path, process.data);
  if (!inside) {
    const char* digits = text_starts(path, kProc) ? path + text_length(kProc) : "";
    const bool other = *digits >= '0' && *digits <= '9' && parse_decimal(digits) != 1;
    out << path;
    return other ? "a file of another process" : nullptr;
  }
  const char* of_main = behind(inside, main_task.data);
  if (!of_main && text_starts(inside, "/task/")) return "a file of one of its threads";
  const char* within = of_main ? of_main : inside;
  if (text_starts(within, "/fdinfo/") || text_starts(within, "/map_files/"))
    return "a file about one of its descriptors or mappings";
  if (of_main) out << "/proc/thread-self" << of_main;
  else out << "/proc/self" << inside;
  return nullptr;
}

/// Whether the file can be found under its path.
bool is_found(const sys::KernelStat& info, const char* path) {
  sys::KernelStat there;
  return path[0] == '/' && sys::stat(path, &there) && there.dev == info.dev &&
         there.ino == info.ino;
}

bool is_message_queue(int fd) {
  u64 info[15] = {};                   // struct statfs
  return sys::call(SYS_fstatfs, u64(fd), sys::arg(info)) && info[0] == sys::kMqueueMagic;
}

Status describe_deleted(Saver& saver, image::ImageFile& file, const sys::KernelStat& info,
                        const char* path) {
  const u64 own_names = is_kept_name(path) ? 1 : 0;  // which goes when the file is closed
  if ((info.mode & sys::kTypeMask) != sys::kTypeRegular || info.nlink > own_names) {
    saver.refuse(file) << "it is no longer found under the name it was opened by: " << path;
    return failure(sys::kEperm);
  }
  file.kind = kDeleted;
  file.values[kDeletedMode] = info.mode & kPermissions;
  file.values[kDeletedDevice] = info.dev;
  for (u64 i = 0; i + 1 < saver.count(); i++) {
    const image::ImageFile& earlier = saver.file(i);
    const bool same = earlier.inode == file.inode && earlier.values[kDeletedDevice] == info.dev;
    if (earlier.kind != kDeleted || !same) continue;
    file.same_as = earlier.fd;
    return success();
  }
  file.same_as = file.fd;
  const Result<u64> seals = sys::fcntl(file.fd, sys::kGetSeals);
  file.values[kDeletedSeals] = seals ? seals.value : 0;
  for (u64 i = 0; i < saver.writer.objects.count; i++) {
    const image::ImageObject& object = saver.writer.objects.entries[i];
    if (object.inode != info.ino || object.device != info.dev) continue;
    file.values[kDeletedIsObject] = 1;
    return success();
  }
  // Opened anew: the descriptor may be for writing only, and its offset must stay.
  Text<64> link;
  link << "/proc/self/fd/" << file.fd;
  const Result<u64> again =
      open_again(link.data, sys::kReadOnly | sys::kCloseOnExec | sys::kNoAccessTime);
  Status saved = again ? save_file(saver.writer, file, int(again.value)) : failure(again.error);
  if (again) (void)sys::close(int(again.value));
  if (!saved) saver.refuse(file) << "the contents of a deleted file, " << path;
  return saved;
}

/// A memfd of the name that stands before " (deleted)".
Result<u64> make_memory(const char* shown) {
  Text<256> name;
  for (; *shown && !text_equal(shown, " (deleted)"); shown++) name.put(*shown);
  return sys::call(SYS_memfd_create, sys::arg(name.data),
                   sys::kMfdCloexec | sys::kMfdAllowSealing);
}

/// Takes the last part off a path, and the slash before it. False: there is nothing above.
bool go_up(Path& path) {
  if (path.size <= 1) return false;
  while (path.size > 1 && path.data[path.size - 1] != '/') path.size--;
  while (path.size > 1 && path.data[path.size - 1] == '/') path.size--;
  path.data[path.size] = 0;
  return path.data[0] == '/';
}

/// A new file without a name in the directory of `path`; if that is gone, in the next one above;
/// where the program may not write there, in memory. Its permissions, and all else that fstat(2)
/// tells, it gets when it has been opened as often as the program had it open (properties.cpp).
Result<u64> make_nameless(const char* path) {
  constexpr u32 mode = 0600;
  constexpr const char* kMemory = "/memfd:";
  constexpr int kHow = sys::kReadWrite | sys::kCloseOnExec;
  if (text_starts(path, kMemory)) return make_memory(path + text_length(kMemory));
  Path directory;
  directory << path;
  Result<u64> made = Result<u64>::fail(sys::kEnoent);
  u32 above = 0;
  for (; !made && made.error == sys::kEnoent && go_up(directory); above++)
    made = sys::open(directory.data, sys::kTemporary | sys::kDirectory | kHow, mode);
  if (!made && above == 1) {
    // A file system without O_TMPFILE: under a name, for a moment.
    directory << "/.fermata-" << sys::getpid();
    made = sys::open(directory.data, sys::kCreate | sys::kExcl | kHow, mode);
    if (made) (void)sys::call(SYS_unlinkat, u64(i64(sys::kAtCwd)), sys::arg(directory.data), 0);
  }
  const bool closed =
      made.error == sys::kEacces || made.error == sys::kEperm || made.error == sys::kErofs;
  if (!made && (above != 1 || closed)) made = make_memory(base_name(path));
  return made;
}

int open_flags(const image::ImageFile& file) {
  // O_ASYNC is given by fcntl(2) alone: open(2) would keep it without effect, and for good.
  const int dropped = sys::kCreate | sys::kExcl | sys::kTruncate | sys::kTemporary | sys::kAsync |
                      (file.kind == kDirectory ? 0 : sys::kDirectory) |
                      (file.kind == kDeleted ? sys::kNoFollow : 0);  // /proc's link to it is one
  return (int(file.flags) & ~dropped) | sys::kNoControllingTty | sys::kCloseOnExec;
}

/// Whether the program's permissions let a restart open the file again. Its owner may anyway.
bool may_open(const image::ImageFile& file, const sys::KernelStat& info, const char* path) {
  if (int(file.flags) & sys::kPathOnly) return true;
  const u32 access = file.flags & sys::kAccessMode;
  const u64 wanted = (access == sys::kWriteOnly ? 0 : sys::kROk) | (access ? sys::kWOk : 0);
  const Result<u64> allowed = sys::call(SYS_faccessat2, u64(i64(sys::kAtCwd)), sys::arg(path),
                                        wanted, sys::kAtEaccess);
  return allowed || allowed.error == sys::kEnosys ||
         (allowed.error == sys::kEacces && info.uid == sys::call(SYS_geteuid).value);
}

bool has_shared_lock(const image::Reader& reader, int fd) {
  for (u64 i = 0; i < reader.header->members.count; i++) {
    const image::ImageMember& member = reader.members[i];
    if (member.fd == fd && (member.kind == kFlock || member.kind == kDescriptionLock)) return true;
  }
  return false;
}

/// A script may hold a lock in a descriptor that all it starts have from it. If the one that calls
/// the restart does so again, the program must share it again: it could not lock the file itself.
/// Errors: ENOENT = there is nothing to share.
Result<u64> share_locked(const Restorer& restorer, const image::ImageFile& file,
                         const char* path) {
  const Result<u64> nothing = Result<u64>::fail(sys::kEnoent);
  const int inherited = restorer.context.inherited(file.fd);
  if (inherited < 0 || !has_shared_lock(restorer.reader, file.fd)) return nothing;
  sys::KernelStat info;
  const Result<u64> flags = sys::fcntl(inherited, sys::kGetFlags);
  const bool alike = flags && u32(flags.value) == file.flags;
  if (!alike || !sys::fstat(inherited, &info) || !is_found(info, path)) return nothing;
  return restorer.reader.duplicate_clear(inherited);
}

Status describe_device(Saver& saver, image::ImageFile& file, const sys::KernelStat& info,
                       const char* path) {
  file.kind = kDevice;
  const char* const usual = usual_path(info.rdev);
  sys::KernelStat there;
  const bool found = is_found(info, path), stateless = is_stateless(info.rdev);
  if (stateless && found) return success();
  if (usual && sys::stat(usual, &there) && there.rdev == info.rdev) {
    file.path_string = saver.writer.string(usual);
    return success();
  }
  const bool terminal = device_major(info.rdev) == 5 && device_minor(info.rdev) == 2;  // ptmx
  saver.refuse(file) << (terminal    ? "a pseudo terminal, "
                         : stateless ? "a device that is no longer found under its name, "
                                     : "a device whose state is unknown, ")
                     << path;
  return failure(sys::kEperm);
}

/// What memfd_create(2) gives does not count as open for writing, so that it can be executed; what
/// is opened through /proc does. So the first descriptor that fits becomes the original again.
Result<u64> reopen_deleted(const image::ImageFile& file, int made, const char* link) {
  constexpr int kSettable = sys::kAppend | sys::kNonBlock | sys::kNoAccessTime;
  const Result<u64> flags = sys::fcntl(made, sys::kGetFlags);
  const bool alike = flags && !((flags.value ^ file.flags) & ~u64(kSettable | sys::kAsync));
  if (file.same_as != file.fd || !alike) return open_again(link, open_flags(file));
  const Result<u64> same = sys::fcntl(made, sys::kDupFdCloexec, 0);
  if (same) (void)sys::fcntl(int(same.value), sys::kSetFlags, file.flags & ~u32(sys::kAsync));
  return same;
}

/// Opens what the program had open under a name. A pipe in a file's place is refused: its other end
/// is not waited for.
Result<u64> open_named(const image::ImageFile& file, const char* path) {
  const int flags = open_flags(file);
  if (file.kind != kRegular) return open_again(path, flags);
  const Result<u64> opened = open_again(path, flags | sys::kNonBlock);
  if (!opened) return opened;
  const int fd = int(opened.value);
  sys::KernelStat info{};
  if (!sys::fstat(fd, &info) || (info.mode & sys::kTypeMask) != sys::kTypeRegular) {
    (void)sys::close(fd);
    return Result<u64>::fail(sys::kEnxio);
  }
  const Result<u64> now = sys::fcntl(fd, sys::kGetFlags);
  if (now && !(flags & sys::kNonBlock))
    (void)sys::fcntl(fd, sys::kSetFlags, now.value & ~u64(sys::kNonBlock));
  return opened;
}

}  // namespace

Status describe_path(Saver& saver, image::ImageFile& file, const sys::KernelStat& info,
                     const char* path) {
  const u32 type = info.mode & sys::kTypeMask;
  Path name;
  const char* const strange = name_own_process(saver.context.pid, path, name);
  if (strange) {
    saver.refuse(file) << strange << ", " << path;
    return failure(sys::kEperm);
  }
  file.path_string = saver.writer.string(name.data);
  file.size = u64(info.size);
  file.modified_ns = info.times[2] * 1'000'000'000 + info.times[3];
  const Result<u64> offset = sys::lseek(file.fd, 0, sys::kSeekCur);
  file.offset = offset ? offset.value : 0;
  if (type == sys::kTypeCharDevice) return describe_device(saver, file, info, path);
  if (is_message_queue(file.fd)) {
    saver.refuse(file) << "a POSIX message queue, " << path << "; close it before the checkpoint";
    return failure(sys::kEperm);
  }
  if (!is_found(info, path) || (type == sys::kTypeRegular && is_kept_name(path)))
    return describe_deleted(saver, file, info, path);
  file.kind = type == sys::kTypeDirectory ? kDirectory : kRegular;
  if (may_open(file, info, path)) return keep_contents(saver, file, info, path);
  saver.refuse(file) << "its permissions no longer allow to open it: " << path;
  return failure(sys::kEperm);
}

Status restore_path(Restorer& restorer, const image::ImageFile& file) {
  const char* path = restorer.reader.string(file.path_string);
  Result<u64> opened = share_locked(restorer, file, path);
  if (!opened) opened = open_named(file, path);
  if (!opened) {
    restorer.why << "cannot reopen " << path << " (descriptor " << file.fd << ")";
    return failure(opened.error);
  }
  if (file.kind != kDevice) (void)sys::lseek(int(opened.value), i64(file.offset), 0);
  return restorer.place(int(opened.value), file);
}

Status restore_deleted(Restorer& restorer, const image::ImageFile& file) {
  const char* path = restorer.reader.string(file.path_string);
  const bool first = file.same_as == file.fd;
  const bool is_object = file.values[kDeletedIsObject];
  Result<u64> made = Result<u64>::ok(u64(file.same_as));
  if (first && is_object) {
    made.value = u64(i64(restorer.context.object(file.inode, file.values[kDeletedDevice])));
  } else if (first) {
    made = make_nameless(path);
    const Status loaded =
        made ? load_file(restorer.reader, file, int(made.value)) : failure(made.error);
    if (!loaded) {
      restorer.why << "cannot make the deleted file " << path << " again (descriptor " << file.fd
                   << ")";
      return loaded;
    }
    if (file.values[kDeletedSeals])
      (void)sys::fcntl(int(made.value), sys::kAddSeals, file.values[kDeletedSeals]);
  }
  Text<64> link;
  link << "/proc/self/fd/" << made.value;
  const Result<u64> opened = reopen_deleted(file, int(made.value), link.data);
  if (first && !is_object) (void)sys::close(int(made.value));
  if (!opened) {
    restorer.why << "cannot reopen the deleted file " << path;
    return failure(opened.error);
  }
  (void)sys::lseek(int(opened.value), i64(file.offset), 0);
  return restorer.place(int(opened.value), file);
}

}  // namespace fermata::files
