// SPDX-License-Identifier: Apache-2.0
// What the describers of the single kinds share while an image is being written.
#pragma once

#include "files/describe.h"
#include "files/kinds.h"
#include "sys/sys.h"

namespace fermata::files {

struct Saver {
  image::Writer& writer;
  const DescriptorContext& context;
  Message& why;

  u64 count() const { return writer.files.count; }
  image::ImageFile& file(u64 index) { return writer.files.entries[index]; }
  /// The application's descriptor of that number, null if it has none (or not described yet).
  image::ImageFile* find(int fd);
  /// A zeroed member of this descriptor; null when the table is full.
  image::ImageMember* add_member(const image::ImageFile& file, image::MemberKind kind) {
    image::ImageMember* const member = writer.members.add();
    if (!member) return nullptr;
    *member = {};
    member->fd = file.fd;
    member->kind = kind;
    return member;
  }
  /// Refuses the checkpoint because of this descriptor.
  Message& refuse(const image::ImageFile& file) {
    return why << "descriptor " << file.fd << " cannot be saved: ";
  }
};

// One per family of kinds. `path` is what /proc/self/fd says. Each fills the fields of its kind.
Status describe_path(Saver& saver, image::ImageFile& file, const sys::KernelStat& info,
                     const char* path);
Status keep_contents(Saver& saver, image::ImageFile& file, const sys::KernelStat& info,
                     const char* path);
Status describe_pipe(Saver& saver, image::ImageFile& file, const char* path);
Status describe_socket(Saver& saver, image::ImageFile& file);
Status describe_event(Saver& saver, image::ImageFile& file, const char* path);

// Second pass, when every descriptor is known.
Status finish_pipe(Saver& saver, image::ImageFile& file);
Status finish_socket(Saver& saver, image::ImageFile& file);
Status finish_epoll(Saver& saver, const image::ImageFile& file);
Status finish_inotify(Saver& saver, const image::ImageFile& file);
Status finish_locks(Saver& saver, const image::ImageFile& file);
Status finish_options(Saver& saver, const image::ImageFile& file);
Status finish_owner(Saver& saver, const image::ImageFile& file);
Status finish_properties(Saver& saver, const image::ImageFile& file);

/// The whole fdinfo of a descriptor, in a buffer that the next call overwrites; null if it cannot
/// be read.
const char* fdinfo_of(u32 pid, int fd);

}  // namespace fermata::files
