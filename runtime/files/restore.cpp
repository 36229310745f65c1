// SPDX-License-Identifier: Apache-2.0
// Descriptors come back in the order of their numbers, so that the first of a set that shares
// something exists before the others; then what needs all of them to be there: epoll members,
// watches, locks. Locks are last because closing any descriptor of a file drops a POSIX lock on it:
// those by which it has been mapped, too.
#include "files/restore.h"

namespace fermata::files {
namespace {

Status restore_standard(Restorer& restorer, const image::ImageFile& file) {
  const int stream = restorer.context.streams[file.same_as];
  if (stream < 0) {
    if (file.fd <= 2) return success();
    restorer.why << "descriptor " << file.fd << " was standard stream " << file.same_as
                 << ", which this process was started without";
    return failure(sys::kEperm);
  }
  if (file.fd == file.same_as && !(file.fd_flags & 1)) return success();  // it is there
  const Result<u64> made = restorer.reader.duplicate_clear(stream);
  return made ? restorer.place(int(made.value), file) : failure(made.error);
}

Status restore_duplicate(Restorer& restorer, const image::ImageFile& file) {
  const Result<u64> made = restorer.reader.duplicate_clear(file.same_as);
  if (made) return restorer.place(int(made.value), file);
  restorer.why << "cannot duplicate descriptor " << file.same_as << " as " << file.fd;
  return failure(made.error);
}

Status restore_one(Restorer& restorer, const image::ImageFile& file) {
  switch (file.kind) {
    case kRegular:
    case kDirectory:
    case kDevice: return restore_path(restorer, file);
    case kStandard: return restore_standard(restorer, file);
    case kDuplicate: return restore_duplicate(restorer, file);
    case kDeleted: return restore_deleted(restorer, file);
    case kPipe: return restore_pipe(restorer, file);
    case kSocket: return restore_socket(restorer, file);
    default: return restore_event(restorer, file);
  }
}

}  // namespace

const image::ImageFile* Restorer::find(int fd) const {
  for (u64 i = 0; i < reader.header->files.count; i++)
    if (reader.files[i].fd == fd) return &reader.files[i];
  return nullptr;
}

Result<u64> Restorer::lift(int fd) const {
  const Result<u64> moved = reader.duplicate_clear(fd);
  (void)sys::close(fd);
  return moved;
}

Status Restorer::place(int opened, const image::ImageFile& file) const {
  const bool cloexec = file.fd_flags & 1;
  if (opened == file.fd) {
    (void)sys::fcntl(opened, sys::kSetFdFlags, cloexec);
    return success();
  }
  if (file.fd > 2 && sys::fcntl(file.fd, sys::kGetFdFlags)) {
    why << "descriptor " << file.fd << " (" << reader.string(file.path_string)
        << ") is taken by the new process";
    return failure(sys::kEexist);
  }
  const Result<u64> moved = sys::dup3(opened, file.fd, cloexec ? sys::kCloseOnExec : 0);
  (void)sys::close(opened);
  if (moved) return success();
  why << "cannot move to descriptor " << file.fd << " (see `ulimit -n`)";
  return failure(moved.error);
}

Status Restorer::place_again(int fd, const image::ImageFile& file) const {
  Text<64> link;
  link << "/proc/self/fd/" << fd;
  const Result<u64> opened =
      sys::open(link.data, (int(file.flags) & ~sys::kAsync) | sys::kCloseOnExec);
  if (opened) return place(int(opened.value), file);
  why << "cannot open descriptor " << file.fd << " anew";
  return failure(opened.error);
}

Status restore_files(const image::Reader& reader, const DescriptorContext& context, Message& why) {
  Restorer restorer{reader, context, why};
  for (u64 i = 0; i < reader.header->files.count; i++) {
    const Status done = restore_one(restorer, reader.files[i]);
    if (done) continue;
    if (!why.size) why << "descriptor " << reader.files[i].fd;
    return done;
  }
  for (int fd = 0; fd <= 2; fd++)
    if (!restorer.find(fd)) (void)sys::close(fd);  // as the application had
  return success();
}

Status restore_members(const image::Reader& reader, const DescriptorContext& context,
                       Message& why) {
  Restorer restorer{reader, context, why};
  for (u64 i = 0; i < reader.header->members.count; i++) {
    const Status done = restore_member(restorer, reader.members[i]);
    if (done) continue;
    if (!why.size) why << "descriptor " << reader.members[i].fd;
    return done;
  }
  return success();
}

}  // namespace fermata::files
