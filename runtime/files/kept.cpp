// SPDX-License-Identifier: Apache-2.0
// Files that have a name, and whose contents are saved all the same, because the user wants that
// (`fermata run --files save`): what lies in a scratch directory may be gone at the restart.
//
// What is wanted is written as LIMIT:WHICH, LIMIT being the most bytes that this rank may save and
// WHICH either "written", for what the program has open for writing, or directories, "/a:/b", for
// all it has open below them.
#include "files/contents.h"
#include "files/restore.h"
#include "files/save.h"

namespace fermata::files {
namespace {


u64 kept_bytes;  // of this image

/// Whether `path` is `directory`, which ends at `bytes`, or below it.
bool is_below(const char* path, const char* directory, u64 bytes) {
  while (bytes > 1 && directory[bytes - 1] == '/') bytes--;
  for (u64 i = 0; i < bytes; i++)
    if (path[i] != directory[i]) return false;
  return bytes == 1 || path[bytes] == '/' || path[bytes] == 0;
}

bool is_wanted(const char* which, const image::ImageFile& file, const char* path) {
  constexpr const char* kNoFiles[] = {"/proc/", "/sys/", "/dev/"};
  for (const char* prefix : kNoFiles)
    if (text_starts(path, prefix) && !text_starts(path, "/dev/shm/")) return false;
  if (int(file.flags) & sys::kPathOnly) return false;
  if (text_equal(which, "written"))
    return file.kind == kDirectory || (file.flags & sys::kAccessMode);
  while (*which) {
    u64 bytes = 0;
    while (which[bytes] && which[bytes] != ':') bytes++;
    if (bytes && is_below(path, which, bytes)) return true;
    which += bytes + (which[bytes] == ':');
  }
  return false;
}

/// Whether the image has the contents already: as memory that is mapped, or of another descriptor.
bool is_saved(Saver& saver, const image::ImageFile& file, const sys::KernelStat& info) {
  constexpr u32 kWhole = 2;  // ImageObject::flags
  for (u64 i = 0; i < saver.writer.objects.count; i++) {
    const image::ImageObject& object = saver.writer.objects.entries[i];
    if (object.inode == info.ino && object.device == info.dev && object.flags & kWhole) return true;
  }
  for (u64 i = 0; i + 1 < saver.count(); i++) {
    const image::ImageFile& earlier = saver.file(i);
    if (earlier.kind == kRegular && earlier.inode == file.inode && earlier.values[kKept] &&
        text_equal(saver.writer.text(earlier.path_string), saver.writer.text(file.path_string)))
      return true;
  }
  return false;
}

}  // namespace

Status keep_contents(Saver& saver, image::ImageFile& file, const sys::KernelStat& info,
                     const char* path) {
  const char* which = saver.context.save_files;
  if (!which[0]) return success();
  const u64 limit = parse_decimal(which);
  if (*which == ':') which++;
  if (!is_wanted(which, file, path)) return success();
  file.values[kKeptMode] = info.mode & 07777;
  file.values[kKeptOwner] = u64(info.uid) << 32 | info.gid;
  const bool saved_already = file.kind == kRegular && is_saved(saver, file, info);
  file.values[kKept] = saved_already ? 2 : 1;
  if (saved_already) return success();
  if (file.kind != kRegular) return success();
  const u64 held = u64(info.blocks) * 512;
  kept_bytes += held < file.size ? held : file.size;
  if (kept_bytes > limit) {
    saver.refuse(file) << "with the contents of " << path << " a rank's files are " << kept_bytes
                       << " bytes and more, and the limit is " << limit << " (--files-limit)";
    return failure(sys::kEperm);
  }
  Text<64> link;
  link << "/proc/self/fd/" << file.fd;
  const Result<u64> again =
      open_again(link.data, sys::kReadOnly | sys::kCloseOnExec | sys::kNoAccessTime);
  const Status saved =
      again ? save_file(saver.writer, file, int(again.value)) : failure(again.error);
  if (again) (void)sys::close(int(again.value));
  if (!saved) saver.refuse(file) << "the contents of " << path;
  return saved;
}

}  // namespace fermata::files
