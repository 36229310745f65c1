// SPDX-License-Identifier: Apache-2.0
#include "memory/restore.h"

#include "image/build_id.h"
#include "memory/attributes.h"
#include "memory/follow.h"
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

/// Whether this is a library of ours that lies in a job's directory under its build-id. All else
/// the program has chosen itself, as it would without us.
bool is_kept_by_job(const char* path, const char* build_id) {
  return text_equal(base_name(path), build_id);
}

bool is_own(int fd) {
  sys::KernelStat info{};
  return sys::fstat(fd, &info) && image::is_own(info);
}

/// Opens the file of a region saved by reference, which must still be the same file.
Result<u64> open_referenced(const image::Reader& reader, const image::ImageRegion& region,
                            RestoreError& error) {
  const char* path = reader.string(region.path_string);
  const Result<u64> fd = sys::open_regular(path);
  error.where << path;
  if (!fd) {
    error.what = fd.error == sys::kEnxio ? "a file that the program uses is no regular file now"
                                           : "a file that the program uses is missing";
    error.advice = "install it again";
    return fd;
  }
  Text<48> hex;
  image::print_build_id(image::build_id(int(fd.value)), hex);
  if (!text_equal(hex.data, reader.string(region.build_id_string))) {
    (void)sys::close(int(fd.value));
    error.what = "a file that the program uses has changed since the checkpoint";
    error.advice = "install the version it was saved with";
    return Result<u64>::fail(sys::kEnoent);
  }
  if (is_kept_by_job(path, hex.data) && !is_own(int(fd.value))) {
    (void)sys::close(int(fd.value));
    error.what = "a part of Fermata that the job has kept may be written by other users";
    error.advice = "chown it, or chmod go-w";
    return Result<u64>::fail(sys::kEperm);
  }
  error.where = {};
  return fd;
}

/// Private memory of nobody's file.
Result<u64> map_anonymous(const image::ImageRegion& region, int prot) {
  const u64 bytes = region.end - region.start;
  int flags = sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixedNoReplace;
  if (region.flags & kDroppable) {
    const Result<u64> map =
        sys::mmap(region.start, bytes, prot, (flags & ~sys::kMapPrivate) | sys::kMapDroppable);
    if (map) return map;  // else an older kernel's, which keeps more than it must
  }
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
            RestoreError& error) {
  for (u64 i = 0; i < region.extent_count; i++) {
    const image::ImageExtent& extent = reader.extents[region.first_extent + i];
    const Status read =
        read_extent(reader, extent, reinterpret_cast<void*>(extent.address));
    if (!read) return tell_damage(path, extent.address, error), read;
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

void give_policy(const image::Reader& reader, const image::ImageRegion& region) {
  const char* const policy = reader.string(region.policy_string);
  if (policy[0] && !set_policy(region.start, region.end - region.start, read_policy(policy)))
    refused_policies++;
}

constexpr int kFilling = sys::kProtRead | sys::kProtWrite;

/// The file that a private mapping continues to show. Errors: that of open(2), ENXIO if it is too
/// short by now.
Result<u64> open_followed(const image::Reader& reader, const image::ImageRegion& region) {
  Text<64> link;
  const int object = region_descriptor(region);
  if (object >= 0) link << "/proc/self/fd/" << object;
  if (region.file && region.file <= reader.header->files.count)
    link << "/proc/self/fd/" << reader.files[region.file - 1].fd;
  const char* const name = link.size ? link.data : reader.string(region.path_string);
  const Result<u64> fd = sys::open(name, sys::kReadOnly | sys::kCloseOnExec | sys::kNonBlock);
  if (!fd || is_long_enough(reader, region, int(fd.value))) return fd;
  (void)sys::close(int(fd.value));
  return Result<u64>::fail(sys::kEnxio);
}

/// Maps and fills a region that shows a file. False: it is not there, so the image has to do.
Result<bool> map_from_file(const image::Reader& reader, const image::ImageRegion& region,
                           const char* path, RestoreError& error) {
  const Result<u64> file = open_followed(reader, region);
  if (!file) return Result<bool>::ok(false);
  const int fd = int(file.value);
  const Result<u64> map = sys::mmap(region.start, region.end - region.start, kFilling,
                                    sys::kMapPrivate | sys::kMapFixed, fd, region.file_offset);
  const bool own = region.object || region.file;
  Status filled;
  if (map) give_policy(reader, region);
  if (map) filled = fill_followed(reader, region, fd, own, path, error);
  (void)sys::close(fd);
  return filled ? Result<bool>::ok(bool(map)) : Result<bool>::fail(filled.error);
}

Status settle_region(const image::ImageRegion& region, bool protect) {
  const u64 bytes = region.end - region.start;
  if (protect) (void)sys::mprotect(region.start, bytes, int(region.prot));
  set_advice(region);
  if (region.flags & kGuarded)
    (void)sys::call(SYS_madvise, region.start, bytes, sys::kMadvGuardInstall);
  return success();
}

/// A region whose place is held by a mapping that nobody has used.
Status map_follower(const image::Reader& reader, const image::ImageRegion& region,
                    const char* path, RestoreError& error) {
  const Result<bool> mapped = map_from_file(reader, region, path, error);
  if (!mapped) return failure(mapped.error);
  if (!mapped.value) {
    (void)sys::munmap(region.start, region.end - region.start);
    const Result<u64> map = map_anonymous(region, kFilling);
    if (map) give_policy(reader, region);
    const Status filled = map ? fill(reader, region, path, error) : failure(map.error);
    if (!filled) return filled;
  }
  return settle_region(region, true);
}

Status map_region(const image::Reader& reader, const image::ImageRegion& region, const char* path,
                  RestoreError& error) {
  const u64 bytes = region.end - region.start;
  const int prot = int(region.prot);
  // What holds nothing gets its protection at once: closed address space is not accounted for.
  const int first = region.extent_count ? kFilling : prot;
  Result<u64> map;
  if (region.flags & kShared) {
    map = map_shared(reader, region);
  } else if (region.flags & kByReference) {
    const Result<u64> file = open_referenced(reader, region, error);
    if (!file) return failure(file.error);
    map = sys::mmap(region.start, bytes, first, sys::kMapPrivate | sys::kMapFixedNoReplace,
                    int(file.value), region.file_offset);
    (void)sys::close(int(file.value));
  } else if (region.flags & kFollows) {
    map = sys::mmap(region.start, bytes, 0,
                    sys::kMapPrivate | sys::kMapAnonymous | sys::kMapNoReserve |
                        sys::kMapFixedNoReplace);
    if (map && region.file) return success();  // until the descriptors are there
    if (map) return map_follower(reader, region, path, error);
  } else {
    map = map_anonymous(region, first);
  }
  if (!map) {
    error.what = "cannot map saved memory";
    error.where << path << ", region " << Hex{region.start};
    error.advice = kShort;
    return failure(map.error);
  }
  give_policy(reader, region);
  const Status filled = fill(reader, region, path, error);
  if (!filled) return filled;
  return settle_region(region, first != prot && !(region.flags & kShared));
}

}  // namespace

void tell_damage(const char* path, u64 address, RestoreError& error) {
  error.what = "the image is damaged";
  error.where << path << ", page " << Hex{address};
  error.advice = kDamaged;
}

Status map_followed(const image::Reader& reader, const char* path, RestoreError& error) {
  for (u64 i = 0; i < reader.header->regions.count; i++) {
    const image::ImageRegion& region = reader.regions[i];
    if (!(region.flags & kFollows) || !region.file) continue;
    const Status mapped = map_follower(reader, region, path, error);
    if (mapped) continue;
    if (error.what[0]) return mapped;
    error.what = "cannot map saved memory";
    error.where << path << ", region " << Hex{region.start};
    error.advice = kShort;
    return mapped;
  }
  return success();
}

Status map_regions(const image::Reader& reader, const char* path, RestoreError& error) {
  for (u64 i = 0; i < reader.header->regions.count; i++) {
    const Status mapped = map_region(reader, reader.regions[i], path, error);
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
