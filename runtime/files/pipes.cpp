// SPDX-License-Identifier: Apache-2.0
// Pipes with both ends in the application, or one end where the other has been closed. The contents
// are copied with tee(2), which consumes nothing.
#include "files/contents.h"
#include "files/restore.h"
#include "files/save.h"

namespace fermata::files {
namespace {


u32 access_of(const image::ImageFile& file) { return file.flags & sys::kAccessMode; }
bool reads(const image::ImageFile& file) { return access_of(file) != sys::kWriteOnly; }
bool writes(const image::ImageFile& file) { return access_of(file) != sys::kReadOnly; }

/// poll(2) without waiting: what has happened to the other end?
u32 poll_now(int fd) {
  struct {
    int fd;
    i16 events, happened;
  } request{fd, 0, 0};
  (void)sys::call(SYS_poll, sys::arg(&request), 1, 0);
  return u32(u16(request.happened));
}

/// Copies what is in the pipe to content_buffer(). Returns the bytes.
Result<u64> copy_contents(int reader, u64 capacity) {
  int copy[2];
  const Result<u64> made =
      sys::call(SYS_pipe2, sys::arg(copy), u64(sys::kNonBlock | sys::kCloseOnExec));
  if (!made) return made;
  Result<u64> got = sys::fcntl(copy[1], sys::kSetPipeSize, capacity);
  if (got) got = sys::call(SYS_tee, u64(reader), u64(copy[1]), capacity, sys::kSpliceFNonBlock);
  if (!got && got.error == sys::kEagain) got = Result<u64>::ok(0);  // empty
  const u64 bytes = got.value;
  for (u64 at = 0; got && at < bytes; at += got.value)
    got = sys::read(copy[0], content_buffer() + at, kContentBytes - at);
  (void)sys::close(copy[0]);
  (void)sys::close(copy[1]);
  return got ? Result<u64>::ok(bytes) : got;
}

}  // namespace

Status describe_pipe(Saver& saver, image::ImageFile& file, const char* path) {
  file.kind = kPipe;
  file.path_string = saver.writer.string(path);
  if (path[0] == '/') {
    saver.refuse(file) << "a named pipe, " << path << "; close it before the checkpoint";
    return failure(sys::kEperm);
  }
  file.same_as = file.fd;
  for (u64 i = 0; i + 1 < saver.count(); i++) {
    const image::ImageFile& earlier = saver.file(i);
    if (earlier.kind != kPipe || earlier.inode != file.inode) continue;
    file.same_as = earlier.same_as;
    break;
  }
  const Result<u64> capacity = sys::fcntl(file.fd, sys::kGetPipeSize);
  file.values[0] = capacity.value;
  return capacity ? success() : failure(capacity.error);
}

/// Runs for each descriptor of a pipe; the first one keeps the contents.
Status finish_pipe(Saver& saver, image::ImageFile& file) {
  if (file.same_as != file.fd) return success();
  const image::ImageFile *reader = nullptr, *writer = nullptr;
  bool packets = false;
  for (u64 i = 0; i < saver.count(); i++) {
    const image::ImageFile& other = saver.file(i);
    if (other.kind != kPipe || other.inode != file.inode) continue;
    if (reads(other)) reader = &other;
    if (writes(other)) writer = &other;
    packets = packets || (other.flags & sys::kDirect);
  }
  const bool alone = (!writer && !(poll_now(file.fd) & sys::kPollHup)) ||
                     (!reader && !(poll_now(file.fd) & sys::kPollErr));
  if (alone && !saver.context.helper_holds(file.inode)) {
    saver.refuse(file) << "a pipe to another process, " << saver.writer.text(file.path_string)
                       << "; close it before the checkpoint";
    return failure(sys::kEperm);
  }
  if (!reader) return success();
  const u64 capacity = file.values[0];
  const Result<u64> bytes = capacity <= kContentBytes ? copy_contents(reader->fd, capacity)
                                                      : Result<u64>::fail(sys::kEperm);
  if (!bytes || (packets && bytes.value)) {
    saver.refuse(file) << "the contents of a pipe" << (packets ? " in packet mode" : "");
    return failure(bytes ? sys::kEperm : bytes.error);
  }
  return save_bytes(saver.writer, file, bytes.value);
}

Status restore_pipe(Restorer& restorer, const image::ImageFile& file) {
  if (file.same_as != file.fd) return success();  // came back with the first one
  int ends[2];
  Result<u64> made = sys::call(SYS_pipe2, sys::arg(ends), u64(sys::kCloseOnExec));
  if (!made) return failure(made.error);
  const Result<u64> out = restorer.lift(ends[0]), in = restorer.lift(ends[1]);
  if (!out || !in) return failure(out.error | in.error);
  (void)sys::fcntl(int(in.value), sys::kSetPipeSize, file.values[0]);
  Status done = load_bytes(restorer.reader, file);
  for (u64 at = 0; done && at < file.size; at += made.value) {
    made = sys::write(int(in.value), content_buffer() + at, file.size - at);
    if (!made) done = failure(made.error);
  }
  for (u64 i = 0; done && i < restorer.reader.header->files.count; i++) {
    const image::ImageFile& member = restorer.reader.files[i];
    if (member.kind != kPipe || member.same_as != file.fd) continue;
    done = restorer.place_again(int(writes(member) ? in.value : out.value), member);
  }
  (void)sys::close(int(out.value));
  (void)sys::close(int(in.value));
  return done;
}

}  // namespace fermata::files
