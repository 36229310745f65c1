// SPDX-License-Identifier: Apache-2.0
// What the restorers of the single kinds share.
#pragma once

#include "files/describe.h"
#include "files/kinds.h"
#include "sys/sys.h"

namespace fermata::files {


struct Restorer {
  const image::Reader& reader;
  const DescriptorContext& context;
  Message& why;

  /// The descriptor's entry in the image; null if it has none.
  const image::ImageFile* find(int fd) const;
  /// Moves a descriptor that is in nobody's way to where no saved one belongs.
  Result<u64> lift(int fd) const;
  /// Gives `opened` its saved number and close-on-exec flag. Errors: EEXIST if that is taken.
  Status place(int opened, const image::ImageFile& file) const;
  /// Opens what `fd` is open on once more, with the flags of `file`, and places it.
  Status place_again(int fd, const image::ImageFile& file) const;
};

Status restore_path(Restorer& restorer, const image::ImageFile& file);
Status restore_deleted(Restorer& restorer, const image::ImageFile& file);
Status restore_pipe(Restorer& restorer, const image::ImageFile& file);
Status restore_socket(Restorer& restorer, const image::ImageFile& file);
Status restore_event(Restorer& restorer, const image::ImageFile& file);
Status restore_member(Restorer& restorer, const image::ImageMember& member);
Status restore_option(Restorer& restorer, const image::ImageMember& member);
Status restore_owner(Restorer& restorer, const image::ImageMember& member);
Status restore_property(Restorer& restorer, const image::ImageMember& member);

/// open(2) of what was open before, with as many of its flags as the place takes. A file that its
/// owner may not open any more, since the program has changed its permissions, is opened all the
/// same: for that moment they are others.
Result<u64> open_again(const char* path, int flags);

}  // namespace fermata::files
