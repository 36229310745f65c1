// SPDX-License-Identifier: Apache-2.0
// Shared memory is saved by object, not by mapping: the kernel's (device, inode) says which
// mappings and descriptors, of one rank or of several, show the same bytes, and a restart makes
// them show the same bytes again (shared.h). This is the half that saves.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "memory/pages.h"

namespace fermata::memory {

using enum image::ObjectKind;
enum ObjectFlag : u32 {
  kWritable = 1,  // through this rank's mapping
  kWhole = 2,     // the extents tell of every byte; else of those that this rank has mapped
  kRemoved = 4,   // System V: lives as long as it is attached
};

/// The application shares memory that it can write, with other ranks or with the image writer:
/// from now on a checkpoint of this rank waits for those of the others.
void note_shared_memory();
bool shared_memory_seen();
/// Looks for it in the maps: what was mapped by a 32-bit call (int $0x80) was not seen by anybody.
void look_for_shared_memory();

/// The object that a shared mapping shows: `object` is 1 + its index in the image. Errors: EPERM
/// for what cannot be saved, named in `why`.
Status add_object(image::Writer& writer, const Mapping& mapping, u32& object, Message& why);

/// Saves the contents of all objects, and System V segments that are known but not attached.
/// Preconditions: the application of every rank that shares them stands still.
Status save_objects(Pages& pages, const image::Table<Mapping>& mappings, Message& why);

}  // namespace fermata::memory
