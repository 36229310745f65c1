// SPDX-License-Identifier: Apache-2.0
// The application's descriptors: described for the image, brought back at restart.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/reader.h"
#include "image/writer.h"

namespace fermata::files {

/// What only the launcher knows of descriptors.
struct DescriptorContext {
  bool (*belongs)(int fd);  // whether a descriptor is the application's
  const int* streams;       // the rank's own streams 0, 1, 2 as it was started; -1 = was closed
  u32 pid;                  // the process that is being saved
  const char* save_files;   // which files are saved with their contents (kept.cpp); "" = none
  bool (*helper_holds)(u64 inode);  // whether a child that will be started again has this pipe
  // At a restart: a descriptor of the shared memory that was saved as this; device 0: of any.
  int (*object)(u64 inode, u64 device);
  int (*inherited)(int fd); // at a restart: what the process was started with as fd, moved; or -1
};

/// Whether kcmp(2) may be used here; without it no descriptors can be described.
bool can_compare_files();

/// Adds every descriptor for which belongs(fd) holds, with what fork(2) does not copy: offsets, and
/// the contents of pipes, sockets and deleted files. The application must stand still meanwhile.
/// Runs in the forked child. Errors: EPERM for what cannot be saved, named in `why`.
Status describe_files(image::Writer& writer, const DescriptorContext& context, Message& why);

/// Whether a descriptor is a regular file's. Makes one system call.
bool is_regular(int fd);

/// Whether it makes no difference to the application that the image writer has this descriptor
/// open for a moment longer, in which it is closed and perhaps flushed: a regular file without
/// locks. (One that the application locks and closes, or executes, in that moment seems in use.)
bool may_stay_open(const image::Writer& writer, const image::ImageFile& file);

/// Brings every descriptor of the image back under its number, with its contents. reader.fd must be
/// open and out of the way. Errors: errno, `why` names the file.
Status restore_files(const image::Reader& reader, const DescriptorContext& context, Message& why);

/// Gives them their members, options, owners and locks. Preconditions: restore_files() is done, and
/// nobody will close another descriptor of the same files. Errors: as above.
Status restore_members(const image::Reader& reader, const DescriptorContext& context, Message& why);

}  // namespace fermata::files
