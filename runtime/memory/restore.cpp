// SPDX-License-Identifier: Apache-2.0
#include "memory/restore.h"

#include "image/build_id.h"
#include "memory/attributes.h"
#include "memory/forks.h"
#include "memory/objects.h"
#include "memory/policy.h"
#include "memory/shared.h"
#include "sys/sys.h"

namespace fermata::memory {
namespace {

constexpr const char* kDamaged =
    "check the snapshot with `fermata verify`; older ones: `fermata snapshots`";
constexpr const char* kShort = "memory may be short";

/// Opens the file of a region saved by reference, which must still be the same file.
Result<u64> open_referenced(const image::Reader& reader, const image::ImageRegion& region,
                            Trouble& trouble) {
  const char* path = reader.string(region.path_string);
  const Result<u64> fd = sys::open(path, sys::kReadOnly | sys::kCloseOnExec);
  trouble.where << path;
  if (!fd) {
    trouble.what = "a file that the program uses is missing";
    trouble.advice = "install it again";
    return fd;
  }
  Text<48> hex;
  image::print_build_id(image::build_id(int(fd.value)), hex);
  if (!text_equal(hex.data, reader.string(region.build_id_string))) {
    (void)sys::close(int(fd.value));
    trouble.what = "a file that the program uses has changed since the checkpoint";
    trouble.advice = "install the version it was saved with";
    return Result<u64>::fail(sys::kEnoent);
  }
  trouble.where = {};
  return fd;
}

/// Private memory of nobody's file.
Result<u64> map_anonymous(const image::ImageRegion& region, int prot) {
  const u64 bytes = region.end - region.start;
  int flags = sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixedNoReplace;
  if (region.flags & kNoReserve) flags |= sys::kMapNoReserve;
  if (region.flags & kGrowsDown) flags |= sys::kMapGrowsDown | sys::kMapStack;
  if (region.flags & kHugeTlb) {
    const Result<u64> pool = sys::mmap(region.start, bytes, prot, flags | sys::kMapHugeTlb);
    if (pool) note_shared_memory();  // lent to the image writer: save.cpp
    if (pool) return pool;  // else this machine's pool is too small: ordinary pages hold the same
  }
  return sys::mmap(region.start, bytes, prot, flags);
}

Status fill(const image::Reader& reader, const image::ImageRegion& region, const char* path,
            Trouble& trouble) {
  for (u64 i = 0; i < region.extent_count; i++) {
    const image::ImageExtent& extent = reader.extents[region.first_extent + i];
    const Status read =
        read_extent(reader, extent, reinterpret_cast<void*>(extent.address));
    if (read) continue;
    trouble.what = "the image is damaged";
    trouble.where << path << ", page " << Hex{extent.address};
    trouble.advice = kDamaged;
    return read;
  }
  return success();
}

/// Advice that this kernel does not know changes no result and is dropped. Locks: locks.h.
void set_advice(const image::ImageRegion& region) {
  const u64 bytes = region.end - region.start;
  for (const AttributeName& known : kAttributeNames) {
    if (!(region.flags & known.bit) || !known.advice) continue;
    (void)sys::call(SYS_madvise, region.start, bytes, known.advice);
    if (known.bit & (kNotInForks | kWipedInForks)) note_fork_advice();
  }
}

u32 refused_policies;

Status map_region(const image::Reader& reader, const image::ImageRegion& region, const char* path,
                  Trouble& trouble) {
  constexpr int kFilling = sys::kProtRead | sys::kProtWrite;
  const u64 bytes = region.end - region.start;
  const int prot = int(region.prot);
  // What holds nothing gets its protection at once: closed address space is not accounted for.
  const int first = region.extent_count ? kFilling : prot;
  Result<u64> map;
  if (region.flags & kShared) {
    map = map_shared(reader, region);
  } else if (region.flags & kByReference) {
    const Result<u64> file = open_referenced(reader, region, trouble);
    if (!file) return failure(file.error);
    map = sys::mmap(region.start, bytes, first, sys::kMapPrivate | sys::kMapFixedNoReplace,
                    int(file.value), region.file_offset);
    (void)sys::close(int(file.value));
  } else {
    map = map_anonymous(region, first);
  }
  if (!map) {
    trouble.what = "cannot map saved memory";
    trouble.where << path << ", region " << Hex{region.start};
    trouble.advice = kShort;
    return failure(map.error);
  }
  const char* const policy = reader.string(region.policy_string);
  if (policy[0] && !set_policy(region.start, bytes, read_policy(policy))) refused_policies++;
  const Status filled = fill(reader, region, path, trouble);
  if (!filled) return filled;
  if (first != prot && !(region.flags & kShared)) (void)sys::mprotect(region.start, bytes, prot);
  set_advice(region);
  constexpr u64 kInstallGuard = 102;  // MADV_GUARD_INSTALL
  if (region.flags & kGuarded) (void)sys::call(SYS_madvise, region.start, bytes, kInstallGuard);
  return success();
}

}  // namespace

Status map_regions(const image::Reader& reader, const char* path, Trouble& trouble) {
  for (u64 i = 0; i < reader.header->regions.count; i++) {
    const Status mapped = map_region(reader, reader.regions[i], path, trouble);
    if (!mapped) return mapped;
  }
  if (!refused_policies) return success();
  Message note;
  note << "fermata: rank " << reader.header->world_rank << ": " << refused_policies
       << " ranges of memory had a policy (mbind) that is not allowed here\n";
  sys::say(note.data);
  return success();
}

}  // namespace fermata::memory
