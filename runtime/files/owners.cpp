// SPDX-License-Identifier: Apache-2.0
// Who gets SIGIO, or another signal, when a descriptor can be read or written: F_SETOWN, F_SETSIG
// and O_ASYNC of fcntl(2). The owner is a number that means somebody else after a restart, so only
// the process itself, its main thread and its process group can be kept.
#include "files/restore.h"
#include "files/save.h"

namespace fermata::files {
namespace {


struct Owner {  // struct f_owner_ex
  i32 type, id;
};

u32 group_of(u32 pid) { return u32(sys::call(SYS_getpgid, pid).value); }

}  // namespace

Status finish_owner(Saver& saver, const image::ImageFile& file) {
  Owner owner{};
  const Result<u64> known = sys::fcntl(file.fd, sys::kGetOwnerEx, sys::arg(&owner));
  if (!known || !owner.id) return success();
  const u32 own = owner.type == sys::kFOwnerPgrp ? group_of(saver.context.pid) : saver.context.pid;
  if (u32(owner.id) != own) {
    saver.refuse(file) << "signals about it go to process, thread or group " << u32(owner.id)
                       << " (F_SETOWN); they can go to the program itself";
    return failure(sys::kEperm);
  }
  image::ImageMember* const member = saver.writer.members.add();
  if (!member) return failure(sys::kEnomem);
  member->fd = file.fd;
  member->kind = kOwner;
  member->flags = u32(sys::fcntl(file.fd, sys::kGetSignal).value);
  member->values[0] = u64(owner.type);
  return success();
}

Status restore_owner(Restorer& restorer, const image::ImageMember& member) {
  const u32 pid = sys::getpid();
  const Owner owner{i32(member.values[0]),
                    i32(member.values[0] == u64(sys::kFOwnerPgrp) ? group_of(pid) : pid)};
  Result<u64> done = sys::fcntl(member.fd, sys::kSetOwnerEx, sys::arg(&owner));
  if (done && member.flags) done = sys::fcntl(member.fd, sys::kSetSignal, member.flags);
  const image::ImageFile* const file = restorer.find(member.fd);
  if (done && file && (file->flags & sys::kAsync))
    done = sys::fcntl(member.fd, sys::kSetFlags, file->flags);
  if (!done) restorer.why << "cannot have signals sent about descriptor " << member.fd;
  return done ? success() : failure(done.error);
}

}  // namespace fermata::files
