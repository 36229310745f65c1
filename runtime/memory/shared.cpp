// SPDX-License-Identifier: Apache-2.0
#include "memory/shared.h"

#include "memory/make.h"
#include "memory/objects.h"
#include "memory/places.h"
#include "memory/segments.h"
#include "sys/sys.h"

namespace fermata::memory {
namespace {

/// What one rank says of one object.
struct Claim {
  u64 host, device, inode;  // when saved: the same on every rank that shared it
  u64 saved_ns;
  u64 place;                // now
  u32 kind, flags;
  u32 segment, unused;
};

/// Where the rank that made an object has it.
struct Offer {
  u32 pid;
  i32 fd;       // -1: not made here
  u32 segment;  // System V: the kernel's id
  u32 unused;
};

struct Own {
  int fd;
  u32 segment;
  u64 inode, device;  // when saved
};
constexpr u64 kOwnCapacity = 1 << 16;
Own* own;       // by index in the image
u64 own_count;
Claim* claims;  // [rank][widest]
u64 widest;     // objects of the rank with the most

template <typename T>
T* reserve(u64 count) {
  const Result<u64> map = sys::mmap(0, count * sizeof(T), sys::kProtRead | sys::kProtWrite,
                                    sys::kMapPrivate | sys::kMapAnonymous | sys::kMapNoReserve);
  return map ? reinterpret_cast<T*>(map.value) : nullptr;
}

bool same_object(const Claim& a, const Claim& b) {
  return a.kind && a.host == b.host && a.device == b.device && a.inode == b.inode;
}

/// Whose contents are wanted: those of ranks that could write, for the others may have read theirs
/// when the job had gone on; among equals the last that were read.
bool is_better(const Claim& a, const Claim& b) {
  const bool writes = a.flags & kWritable;
  if (writes != bool(b.flags & kWritable)) return writes;
  return a.saved_ns > b.saved_ns;
}

/// Position in `claims` of the one who makes the object; -1 for a file on disk that nobody could
/// write: it is there already.
i64 maker_of(const Claim& wanted, u64 count) {
  i64 maker = -1;
  for (u64 i = 0; i < count; i++) {
    if (!same_object(claims[i], wanted)) continue;
    if (wanted.kind == kFile && !(claims[i].flags & kWritable)) continue;
    if (maker < 0 || is_better(claims[i], claims[maker])) maker = i64(i);
  }
  return maker;
}

/// Memory cannot be shared from afar. The lowest rank concerned tells.
Status refuse_apart(const image::Reader& reader, const Claim& mine, u64 index, const World& world,
                    Trouble& trouble) {
  if (mine.kind == kFile) return success();
  for (u64 i = 0; i < u64(world.size) * widest; i++) {
    if (!same_object(claims[i], mine) || claims[i].place == mine.place) continue;
    const u64 other = i / widest;
    trouble.what = "shared memory of ranks that are on different hosts now";
    trouble.where << reader.string(reader.objects[index].path_string) << ", of rank " << world.rank
                  << " and rank " << other;
    trouble.advice = "restart these ranks on one host";
    trouble.silent = other < world.rank;
    return failure(sys::kEinval);
  }
  return success();
}

Status exchange_claims(const image::Reader& reader, const World& world) {
  own_count = reader.header->objects.count;
  u64* const counts = reserve<u64>(world.size);
  if (!counts || own_count > kOwnCapacity) return failure(sys::kEnomem);
  if (world.gather(&own_count, sizeof own_count, counts)) return failure(sys::kEio);
  widest = 0;
  for (u32 rank = 0; rank < world.size; rank++)
    if (counts[rank] > widest) widest = counts[rank];
  if (!widest) return success();
  own = reserve<Own>(own_count + 1);
  claims = reserve<Claim>(u64(world.size) * widest);
  Claim* const mine = reserve<Claim>(widest);
  if (!own || !claims || !mine) return failure(sys::kEnomem);
  for (u64 i = 0; i < own_count; i++) {
    const image::ImageObject& object = reader.objects[i];
    if (object.flags & kWritable) note_shared_memory();
    mine[i] = {object.host, object.device, object.inode, object.saved_ns, this_place(),
               object.kind, object.flags,  object.segment, 0};
  }
  return world.gather(mine, widest * sizeof(Claim), claims) ? failure(sys::kEio) : success();
}

/// Gets from `offer` what another rank made.
Status take_offer(const image::Reader& reader, const image::ImageObject& object,
                  const Offer& offer, Own& out, Trouble& trouble) {
  const char* const path = reader.string(object.path_string);
  out.segment = offer.segment;
  if (object.kind == kSegment) return success();
  Text<64> link;
  link << "/proc/" << offer.pid << "/fd/" << offer.fd;
  const char* from = object.kind == kFile ? path : link.data;
  const int access = object.flags & kWritable ? sys::kReadWrite : sys::kReadOnly;
  const Result<u64> fd = sys::open(from, access | sys::kCloseOnExec);
  if (!fd) {
    trouble.what = "cannot open shared memory that another rank has restored";
    trouble.where << path << ", as " << from;
    trouble.advice = "restart the ranks as one user and in one container";
    return failure(fd.error);
  }
  out.fd = reader.out_of_the_way(int(fd.value));
  return success();
}

/// The ids that other ranks of this place know are good here, too.
void note_segments(const image::Reader& reader, const Offer* offers, u64 count) {
  const u64 place = this_place();
  for (u64 i = 0; i < count; i++)
    if (offers[i].fd != -1 && claims[i].kind == kSegment && claims[i].place == place)
      learn_segment(claims[i].segment, offers[i].segment);
  for (u64 i = 0; i < own_count; i++)
    if (reader.objects[i].kind == kSegment)
      note_segment(reader.objects[i].segment, own[i].segment);
}

}  // namespace

Status restore_objects(const image::Reader& reader, const World& world, Trouble& trouble) {
  trouble.what = "the ranks cannot agree on shared memory";
  trouble.advice = "memory may be short";
  Status done = exchange_claims(reader, world);
  if (!done || !widest) return done;
  const u64 total = u64(world.size) * widest;
  const Claim* const mine = claims + u64(world.rank) * widest;
  Offer* const offers = reserve<Offer>(total);
  Offer* const given = reserve<Offer>(widest);
  if (!offers || !given) return failure(sys::kEnomem);
  for (u64 i = 0; i < widest; i++) given[i] = {sys::getpid(), -1, 0, 0};
  for (u64 i = 0; i < own_count; i++) {
    own[i] = {-1, 0, reader.objects[i].inode, reader.objects[i].device};
    const Status together = refuse_apart(reader, mine[i], i, world, trouble);
    if (!together) return together;
    if (maker_of(mine[i], total) != i64(u64(world.rank) * widest + i)) continue;
    done = make_object(reader, reader.objects[i], own[i].fd, own[i].segment, trouble);
    if (!done) return done;
    given[i].fd = own[i].fd >= 0 ? own[i].fd : 0;
    given[i].segment = own[i].segment;
  }
  if (world.gather(given, widest * sizeof(Offer), offers)) return failure(sys::kEio);
  for (u64 i = 0; i < own_count; i++) {
    const image::ImageObject& object = reader.objects[i];
    const i64 maker = maker_of(mine[i], total);
    if (maker < 0) done = open_unchanged(reader, object, own[i].fd, trouble);
    else if (given[i].fd < 0)
      done = take_offer(reader, object, offers[maker], own[i], trouble);
    if (!done) return done;
  }
  note_segments(reader, offers, total);
  return success();
}

Result<u64> map_shared(const image::Reader& reader, const image::ImageRegion& region) {
  if (!region.object) return Result<u64>::fail(sys::kEinval);
  const image::ImageObject& object = reader.objects[region.object - 1];
  const Own& from = own[region.object - 1];
  const u64 bytes = region.end - region.start;
  if (object.kind != kSegment)
    return sys::mmap(region.start, bytes, int(region.prot),
                     sys::kMapShared | sys::kMapFixedNoReplace, from.fd, region.file_offset);
  // shmat knows whole segments only, so the part that is wanted is moved into its place.
  constexpr u64 kMoveThere = 3;  // MREMAP_MAYMOVE | MREMAP_FIXED
  const Result<u64> all = sys::call(SYS_shmat, from.segment, 0, 0);
  if (!all) return all;
  const u64 end = all.value + page_ceil(object.size), part = all.value + region.file_offset;
  const Result<u64> moved =
      sys::call(SYS_mremap, part, bytes, bytes, kMoveThere, region.start);
  if (!moved) return moved;
  if (part > all.value) (void)sys::munmap(all.value, part - all.value);
  if (end > part + bytes) (void)sys::munmap(part + bytes, end - part - bytes);
  const Result<u64> closed = sys::mprotect(region.start, bytes, int(region.prot));
  return closed ? moved : closed;
}

int object_descriptor(u64 inode, u64 device) {
  for (u64 i = 0; i < own_count && widest; i++)
    if (own[i].inode == inode && (!device || own[i].device == device) && own[i].fd >= 0)
      return own[i].fd;
  return -1;
}

Status finish_objects(const image::Reader& reader, const World& world) {
  if (!widest) return success();
  u8 arrived = 1;
  u8* const all = reserve<u8>(world.size);
  if (!all || world.gather(&arrived, 1, all)) return failure(sys::kEio);
  const u64 total = u64(world.size) * widest;
  const Claim* const mine = claims + u64(world.rank) * widest;
  for (u64 i = 0; i < own_count; i++) {
    const bool made_here = maker_of(mine[i], total) == i64(u64(world.rank) * widest + i);
    if (made_here) settle_object(reader.objects[i], own[i].fd, own[i].segment);
    if (own[i].fd >= 0) (void)sys::close(own[i].fd);
  }
  return success();
}

}  // namespace fermata::memory
