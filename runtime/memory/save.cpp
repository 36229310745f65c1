// SPDX-License-Identifier: Apache-2.0
// A page is saved if it may hold something that a fresh mapping would not: of anonymous memory the
// pages that exist; of a private mapping of a file with a build-id those that were written (the
// rest comes from the file, whose identity the restart checks); of other files all; of memory of
// the lower half (aliases.h) the pages that exist. Zero pages of anonymous memory are left out.
// Shared memory is saved by object: objects.h.
#include "memory/save.h"

#include "image/build_id.h"
#include "memory/aliases.h"
#include "memory/excluded.h"
#include "memory/follow.h"
#include "memory/forks.h"
#include "memory/guards.h"
#include "memory/objects.h"
#include "memory/pages.h"
#include "memory/policy.h"
#include "memory/refusals.h"
#include "memory/swap.h"

namespace fermata::memory {
namespace {

/// Memory of the lower half is saved as private memory of nobody's file.
void hide_alias(Mapping& mapping) {
  if (!is_alias(mapping)) return;
  mapping.alias = true;
  mapping.shared = false;
  mapping.file_offset = mapping.device = mapping.inode = 0;
  mapping.path = "";
}

image::Table<Mapping> mappings;  // of the upper half, in parts that are alike; paths in a text

/// Lists the upper half's mappings.
Status list_mappings(Message& why) {
  const Status reserved = mappings.reserve(1 << 20);
  note_swapping();
  char* next = read_mappings(Detail::kAttributes);
  if (!reserved || !next) {
    why << "cannot read /proc/self/smaps";
    return failure(reserved ? sys::kEio : reserved.error);
  }
  const Result<u64> pagemap = sys::open("/proc/self/pagemap", sys::kReadOnly | sys::kCloseOnExec);
  while (next && *next) {
    Mapping mapping;
    next = parse_mapping(next, mapping);
    if (!next) break;
    hide_alias(mapping);
    const bool saved = is_saved(mapping);
    const Status possible = saved ? refuse_inside(mapping, why) : refuse_outside(mapping, why);
    if (!possible) return possible;
    if (!saved) continue;
    while (mapping.bytes()) {
      const Mapping noted = first_noted_part(mapping);
      const Mapping part = pagemap ? first_guard_part(int(pagemap.value), noted) : noted;
      Mapping* const entry = mappings.add();
      if (!entry) {
        why << "more memory regions than an image holds";
        return failure(sys::kEnomem);
      }
      *entry = part;
      mapping.file_offset += part.bytes();
      mapping.start = part.end;
    }
  }
  if (pagemap) (void)sys::close(int(pagemap.value));
  return success();
}

/// The build-id of a private mapping's file, if the file can still be found under its name.
bool find_build_id(const Mapping& mapping, Text<48>& hex) {
  if (mapping.inode == 0 || is_kept_name(mapping.path)) return false;
  const Result<u64> fd = sys::open_regular(mapping.path);
  if (!fd) return false;
  sys::KernelStat info;
  const bool same = sys::fstat(int(fd.value), &info) && info.ino == mapping.inode;
  if (same) image::print_build_id(image::build_id(int(fd.value)), hex);
  (void)sys::close(int(fd.value));
  return hex.size > 0;
}

/// Memory that is a device's registers or buffers has no contents that could come back.
Status refuse_device(const Mapping& mapping, Message& why) {
  sys::KernelStat info;
  const bool named = mapping.path[0] == '/' && sys::stat(mapping.path, &info) &&
                     info.ino == mapping.inode;
  const u32 type = named ? info.mode & sys::kTypeMask : 0;
  const bool device = type == sys::kTypeCharDevice || type == sys::kTypeBlockDevice;
  const bool memory = !(mapping.attributes & kOfDevice);
  if (memory && mapping.path[0] == '/' && (!device || text_equal(mapping.path, "/dev/zero")))
    return success();
  why << "memory of a device cannot be saved: " << mapping.path << ", mapped at "
      << Hex{mapping.start};
  return failure(sys::kEperm);
}

void name_unreadable(const Pages& pages, const char* path, Message& why) {
  why << "memory that cannot be read cannot be saved either: " << path << " at "
      << Hex{pages.unreadable};
}

image::ImageRegion* add_region(image::Writer& writer, const Mapping& mapping, Message& why) {
  image::ImageRegion* region = writer.regions.add();
  if (!region) {
    why << "more memory regions than an image holds";
    return nullptr;
  }
  region->start = mapping.start;
  region->end = mapping.end;
  region->prot = u32((mapping.read ? sys::kProtRead : 0) | (mapping.write ? sys::kProtWrite : 0) |
                     (mapping.execute ? sys::kProtExec : 0));
  region->flags = mapping.attributes | (mapping.shared ? u32(kShared) : 0) |
                  (mapping.inode ? u32(kFileBacked) : 0);
  region->file_offset = mapping.file_offset;
  region->path_string = writer.string(mapping.path);
  if (const Policy policy = policy_of(mapping.start); policy.mode) {
    PolicyText text;
    write_policy(policy, text);
    region->policy_string = writer.string(text.data);
  }
  region->first_extent = writer.extents.count;
  return region;
}

/// What of a mapping is not excluded.
Status save_parts(Pages& pages, const Mapping& mapping, Wanted wanted) {
  Status saved;
  for (Mapping part = first_included_part(mapping); saved && part.bytes() != 0;) {
    saved = pages.save(part, wanted, 0);
    Mapping rest = mapping;
    rest.start = part.end;
    part = first_included_part(rest);
  }
  return saved;
}

/// Whether one shared mapping shows all of an object that `mapping` can.
bool is_shown(const Mapping& mapping) {
  for (u64 i = 0; i < mappings.count; i++) {
    const Mapping& other = mappings.entries[i];
    if (other.shared && other.inode == mapping.inode && other.device == mapping.device &&
        other.file_offset <= mapping.file_offset &&
        other.file_offset + other.bytes() >= mapping.file_offset + mapping.bytes())
      return true;
  }
  return false;
}

/// What will show the file of a private mapping after a restart: its object, a descriptor of the
/// program's, or its name. False: nothing, so nobody can write to it either.
bool find_followed(const image::Writer& writer, const Mapping& mapping,
                   image::ImageRegion& region) {
  for (u64 i = 0; i < writer.objects.count; i++) {
    const image::ImageObject& object = writer.objects.entries[i];
    if (object.inode != mapping.inode || object.device != mapping.device) continue;
    const bool has_all = (object.flags & kWhole) || is_shown(mapping);
    region.object = has_all ? u32(i) + 1 : 0;
    return has_all;
  }
  region.file = descriptor_of(writer, mapping);
  sys::KernelStat info;
  return region.file || (!is_kept_name(mapping.path) && sys::stat(mapping.path, &info) &&
                         info.ino == mapping.inode);
}

/// Whether a mapping shows a file. /dev/zero and the huge page pool have inodes as well.
bool is_of_file(const Mapping& mapping) {
  return mapping.inode != 0 && !(mapping.attributes & kHugeTlb) &&
         !text_equal(mapping.path, "/dev/zero");
}

/// Notes what of a private mapping of a file a restart takes from there: nothing, what was not
/// written to, as it is in the file of this build-id, or likewise as it is in the file then.
void note_file(image::Writer& writer, const Mapping& mapping, image::ImageRegion& region) {
  Text<48> hex;
  const bool by_reference = find_build_id(mapping, hex);
  if (by_reference) region.flags |= kByReference;
  region.build_id_string = writer.string(hex.data);
  const bool follows = !by_reference && !mapping.alias && find_followed(writer, mapping, region);
  if (follows) region.flags |= kFollows;
}

Wanted wanted_of(const Mapping& mapping, const image::ImageRegion& region) {
  if (mapping.alias) return Wanted::kCached;
  if (region.flags & (kByReference | kFollows)) return Wanted::kWritten;
  return mapping.inode ? Wanted::kAll : Wanted::kExisting;
}

Status save_private(Pages& pages, const Mapping& mapping, Message& why) {
  const bool is_file = is_of_file(mapping);
  if (is_file) {
    const Status possible = refuse_device(mapping, why);
    if (!possible) return possible;
  }
  image::ImageRegion* const region = add_region(pages.writer, mapping, why);
  if (!region) return failure(sys::kEnomem);
  if (is_file) note_file(pages.writer, mapping, *region);
  if (mapping.attributes & kGuarded) return success();
  const Wanted wanted = wanted_of(mapping, *region);
  Status saved = save_parts(pages, mapping, wanted);
  const u64 written = pages.writer.extents.count;
  if (saved && region->flags & kFollows) saved = save_parts(pages, mapping, Wanted::kUnwritten);
  for (u64 i = written; i < pages.writer.extents.count; i++)
    pages.writer.extents.entries[i].flags = kNeverWritten;
  region->extent_count = pages.writer.extents.count - region->first_extent;
  if (!saved && pages.unreadable) name_unreadable(pages, mapping.path, why);
  else if (!saved) why << "cannot write the image";
  return saved;
}

/// Pages of the huge page pool are the parent's: when it writes to one and the pool has no other,
/// the kernel takes the child's away. Those of the lower half are shared with other ranks.
bool is_lent(const Mapping& mapping) {
  return mapping.alias || (!mapping.shared && (mapping.attributes & kHugeTlb));
}

template <typename Take>
Status with_pages(image::Writer& writer, Message& why, Take take) {
  Pages pages{writer};
  Status done = pages.open();
  if (!done) {
    why << "cannot read /proc/self (mem or pagemap)";
    return done;
  }
  done = take(pages);
  pages.close();
  return done;
}

}  // namespace

Status save_shared(image::Writer& writer, Message& why) {
  Status listed = refuse_ipc(why);
  if (listed) listed = list_mappings(why);
  if (!listed) return listed;
  return with_pages(writer, why, [&](Pages& pages) {
    for (u64 i = 0; i < mappings.count; i++) {
      const Mapping& mapping = mappings.entries[i];
      if (is_lent(mapping)) {
        const Status saved = save_private(pages, mapping, why);
        if (!saved) return saved;
      }
      if (!mapping.shared) continue;
      Status possible = refuse_device(mapping, why);
      u32 object = 0;
      if (possible) possible = add_object(writer, mapping, object, why);
      if (!possible) return possible;
      image::ImageRegion* const region = add_region(writer, mapping, why);
      if (!region) return failure(sys::kEnomem);
      region->object = object;
    }
    return save_objects(pages, mappings, why);
  });
}

Status save_regions(image::Writer& writer, Message& why) {
  return with_pages(writer, why, [&](Pages& pages) {
    for (u64 i = 0; i < mappings.count; i++) {
      const Mapping& mapping = mappings.entries[i];
      if (mapping.shared || is_lent(mapping)) continue;
      const Status saved = save_private(pages, mapping, why);
      if (!saved) return saved;
    }
    return success();
  });
}

}  // namespace fermata::memory
