// SPDX-License-Identifier: Apache-2.0
#include "memory/shared.h"

#include "memory/make.h"
#include "memory/objects.h"
#include "memory/places.h"
#include "memory/segments.h"
#include "sys/sys.h"

namespace fermata::memory {
namespace {

/// What one rank says of one object, or of one part where its image has parts only.
struct ObjectClaim {
  u64 host, device, inode;  // when saved: the same on every rank that shared it
  u64 saved_ns;
  u64 place;                // now
  u64 size;                 // of the object, as far as this rank knows
  u64 from, to;             // the part: bytes of the object
  u32 kind, flags;
  u32 segment, unused;
};

/// Where the rank that made an object has it.
struct ObjectOffer {
  u32 pid;
  i32 fd;       // -1: not made here
  u32 segment;  // System V: the kernel's id
  u32 unused;
};

struct LocalObject {
  int fd;
  u32 segment;
  u64 inode, device;             // when saved
  u64 first_claim, claim_count;  // positions in `claims`
};
constexpr u32 kMustBeMade = 1u << 31;  // ObjectClaim::flags: this rank does not find it as it was
constexpr u64 kOwnCapacity = 1 << 16;
LocalObject* own;       // by index in the image
u64 own_count;
ObjectClaim* claims;  // [rank][widest]; those of one object stand together
u64 widest;     // claims of the rank with the most
u64 total;      // length of `claims`

template <typename T>
T* reserve(u64 count) {
  const Result<u64> map = sys::mmap(0, count * sizeof(T), sys::kProtRead | sys::kProtWrite,
                                    sys::kMapPrivate | sys::kMapAnonymous | sys::kMapNoReserve);
  return map ? reinterpret_cast<T*>(map.value) : nullptr;
}

bool same_object(const ObjectClaim& a, const ObjectClaim& b) {
  return a.kind && a.host == b.host && a.device == b.device && a.inode == b.inode;
}

/// Whose contents are wanted: those of ranks that could write, for the others may have read theirs
/// when the job had continued; among equals the last that were read.
bool is_better(const ObjectClaim& a, const ObjectClaim& b) {
  const bool writes = a.flags & kWritable;
  if (writes != bool(b.flags & kWritable)) return writes;
  return a.saved_ns > b.saved_ns;
}

/// The same for positions in `claims`, with an answer for any two.
bool goes_before(u64 a, u64 b) {
  return is_better(claims[a], claims[b]) || (a < b && !is_better(claims[b], claims[a]));
}

/// Position in `claims` of the one who makes the object; -1 for a file that nobody could write: it
/// is there already.
i64 maker_of(const ObjectClaim& wanted) {
  i64 maker = -1;
  bool needed = wanted.kind != kFile && wanted.kind != kNamed;
  for (u64 i = 0; i < total; i++) {
    if (!same_object(claims[i], wanted)) continue;
    needed = needed || claims[i].flags & (kWritable | kMustBeMade);
    if (maker < 0 || is_better(claims[i], claims[maker])) maker = i64(i);
  }
  return needed ? maker : -1;
}

struct Part {
  u64 from, to;
};

/// The first part of an object from byte `at` on that an image tells of. Empty if there is none.
Part next_part(const image::Reader& reader, u64 index, u64 at) {
  if (reader.objects[index].flags & kWhole) return at ? Part{} : Part{0, ~u64(0)};
  Part part{~u64(0), 0};
  const auto each_mapped = [&](auto take) {
    for (u64 i = 0; i < reader.header->regions.count; i++) {
      const image::ImageRegion& region = reader.regions[i];
      if (region.object == index + 1 && (region.flags & kShared))
        take(region.file_offset, region.file_offset + (region.end - region.start));
    }
  };
  each_mapped([&](u64 from, u64 to) {
    if (to > at && from < part.from) part = {from, to};
  });
  for (u64 before = 0; part.to != before;) {  // what overlaps or touches is one part
    before = part.to;
    each_mapped([&](u64 from, u64 to) {
      if (from <= part.to && to > part.to) part.to = to;
    });
  }
  return part;
}

/// Calls take(index, part) for each part of each object, and once for an object without any.
template <typename Take>
void each_part(const image::Reader& reader, Take take) {
  for (u64 i = 0; i < own_count; i++) {
    Part part = next_part(reader, i, 0);
    do {
      take(i, part);
      part = next_part(reader, i, part.to);
    } while (part.from < part.to);
  }
}

/// The object as all ranks together know it: how large it is, and whether they have all of it.
image::ImageObject together(const image::Reader& reader, u64 index) {
  image::ImageObject object = reader.objects[index];
  const ObjectClaim& mine = claims[own[index].first_claim];
  const ObjectClaim* sure = nullptr;  // who has seen the size, not only how far it was mapped
  for (u64 i = 0; i < total; i++) {
    const ObjectClaim& other = claims[i];
    if (!same_object(other, mine)) continue;
    if (other.size > object.size) object.size = other.size;
    const bool seen = other.kind == kFile || other.flags & kWhole;
    if (seen && (!sure || is_better(other, *sure))) sure = &other;
  }
  if (sure) object.size = sure->size;
  u64 end = 0;  // all of it below this is in the images of those that could write
  for (bool more = true; more;) {
    more = false;
    for (u64 i = 0; i < total; i++) {
      const ObjectClaim& other = claims[i];
      if (!same_object(other, mine) || !(other.flags & kWritable)) continue;
      if (other.from > end || other.to <= end) continue;
      end = other.to;
      more = true;
    }
  }
  if (end >= object.size) object.flags |= kWhole;
  return object;
}

/// Whether this rank may write to what the maker has made.
bool fills(const ObjectClaim& mine, const ObjectClaim& maker) {
  return mine.flags & kWritable || (mine.kind == kNameless && !(maker.flags & kWritable));
}

/// Where what goes before claim `own_position` covers byte `at`, how far it does; else `at`, and
/// `end` becomes where the next one begins, if that is earlier.
u64 skip_better(u64 own_position, u64 at, u64& end) {
  u64 covered = at;
  for (u64 i = 0; i < total; i++) {
    const ObjectClaim& other = claims[i];
    if (!same_object(other, claims[own_position]) || !goes_before(i, own_position)) continue;
    if (other.from <= at && other.to > covered) covered = other.to;
    if (other.from > at && other.from < end) end = other.from;
  }
  return covered;
}

/// Every byte is written by one rank, the best of those whose images tell of it: the maker's before
/// the others get the object, theirs before finish_objects is over.
Status fill_parts(const image::Reader& reader, u64 index, RestoreError& error) {
  const image::ImageObject object = together(reader, index);
  const LocalObject& mine = own[index];
  for (u64 i = mine.first_claim; i < mine.first_claim + mine.claim_count; i++) {
    for (u64 at = claims[i].from; at < claims[i].to;) {
      u64 end = claims[i].to;
      const u64 covered = skip_better(i, at, end);
      if (covered == at) {
        const Status filled = fill_object(reader, object, mine.fd, at, end, error);
        if (!filled) return filled;
      }
      at = covered == at ? end : covered;
    }
  }
  return success();
}

/// Memory cannot be shared from afar. The lowest rank concerned tells.
Status refuse_apart(const image::Reader& reader, const ObjectClaim& mine, u64 index,
                    const World& world, RestoreError& error) {
  if (mine.kind == kFile || maker_of(mine) < 0) return success();
  for (u64 i = 0; i < total; i++) {
    if (!same_object(claims[i], mine) || claims[i].place == mine.place) continue;
    const u64 other = i / widest;
    error.what = "shared memory of ranks that are on different hosts now";
    error.where << reader.string(reader.objects[index].path_string) << ", of rank " << world.rank
                  << " and rank " << other;
    error.advice = "restart these ranks on one host";
    error.silent = other < world.rank;
    return failure(sys::kEinval);
  }
  return success();
}

/// Files in memory that nobody could write are left alone if every rank finds them as they were.
/// One that is gone is made again, and so is one that this user can write: a rank may have done so
/// by write(2).
Status look_for_unwritten(const image::Reader& reader, ObjectClaim* mine, const World& world,
                          RestoreError& error) {
  bool any = false;
  for (u64 i = 0; i < total; i++)
    any = any || (claims[i].kind == kNamed && !(claims[i].flags & kWritable));
  if (!any) return success();
  for (u64 i = 0; i < own_count; i++) {
    const image::ImageObject& object = reader.objects[i];
    if (object.kind != kNamed || maker_of(claims[own[i].first_claim]) >= 0) continue;
    const Status looked = open_if_same(reader, object, own[i].fd, error);
    if (!looked) return looked;
    if (own[i].fd >= 0) continue;
    const u64 path = sys::arg(reader.string(object.path_string));
    const Result<u64> writable = sys::call(SYS_access, path, sys::kWOk);
    if (writable || writable.error == sys::kEnoent)
      mine[own[i].first_claim % widest].flags |= kMustBeMade;
  }
  return world.gather(mine, widest * sizeof(ObjectClaim), claims) ? failure(sys::kEio) : success();
}

Status exchange_claims(const image::Reader& reader, const World& world, RestoreError& error) {
  own_count = reader.header->objects.count;
  u64* const counts = reserve<u64>(world.size);
  if (!counts || own_count > kOwnCapacity) return failure(sys::kEnomem);
  u64 own_claims = 0;
  each_part(reader, [&](u64, const Part&) { own_claims++; });
  if (world.gather(&own_claims, sizeof own_claims, counts)) return failure(sys::kEio);
  widest = 0;
  for (u32 rank = 0; rank < world.size; rank++)
    if (counts[rank] > widest) widest = counts[rank];
  if (!widest) return success();
  own = reserve<LocalObject>(own_count + 1);
  total = u64(world.size) * widest;
  claims = reserve<ObjectClaim>(total);
  ObjectClaim* const mine = reserve<ObjectClaim>(widest);
  if (!own || !claims || !mine) return failure(sys::kEnomem);
  u64 at = 0;
  each_part(reader, [&](u64 index, const Part& part) {
    const image::ImageObject& object = reader.objects[index];
    if (object.flags & kWritable) note_shared_memory();
    if (!own[index].claim_count++)
      own[index] = {-1, 0, object.inode, object.device, world.rank * widest + at, 1};
    mine[at++] = {object.host, object.device, object.inode, object.saved_ns, this_place(),
                  object.size, part.from,     part.to,      object.kind,     object.flags,
                  object.segment, 0};
  });
  if (world.gather(mine, widest * sizeof(ObjectClaim), claims)) return failure(sys::kEio);
  return look_for_unwritten(reader, mine, world, error);
}

/// Gets from `offer` what another rank made; `access` as of open(2).
Status take_offer(const image::Reader& reader, const image::ImageObject& object,
                  const ObjectOffer& offer, int access, LocalObject& out, RestoreError& error) {
  const char* const path = reader.string(object.path_string);
  out.segment = offer.segment;
  if (object.kind == kSegment) return success();
  Text<64> link;
  link << "/proc/" << offer.pid << "/fd/" << offer.fd;
  const char* from = object.kind == kFile ? path : link.data;
  const Result<u64> fd = sys::open(from, access | sys::kCloseOnExec);
  if (!fd) {
    error.what = "cannot open shared memory that another rank has restored";
    error.where << path << ", as " << from;
    error.advice = "restart the ranks as one user and in one container";
    return failure(fd.error);
  }
  out.fd = reader.out_of_the_way(int(fd.value));
  return success();
}

/// The ids that other ranks of this place know are good here, too.
void note_segments(const image::Reader& reader, const ObjectOffer* offers) {
  const u64 place = this_place();
  for (u64 i = 0; i < total; i++)
    if (offers[i].fd != -1 && claims[i].kind == kSegment && claims[i].place == place)
      learn_segment(claims[i].segment, offers[i].segment);
  for (u64 i = 0; i < own_count; i++)
    if (reader.objects[i].kind == kSegment)
      note_segment(reader.objects[i].segment, own[i].segment);
}

/// Makes the objects of which this rank is the maker, and tells in `given` where they are.
Status make_own(const image::Reader& reader, const World& world, ObjectOffer* given,
                RestoreError& error) {
  for (u64 i = 0; i < own_count; i++) {
    const ObjectClaim& mine = claims[own[i].first_claim];
    Status done = refuse_apart(reader, mine, i, world, error);
    if (!done) return done;
    const i64 maker = maker_of(mine);
    if (maker >= 0 && own[i].fd >= 0) (void)sys::close(own[i].fd);  // another rank has not found it
    if (maker != i64(own[i].first_claim)) continue;
    done = make_object(reader, together(reader, i), own[i].fd, own[i].segment, error);
    if (done && reader.objects[i].kind != kSegment) done = fill_parts(reader, i, error);
    if (!done) return done;
    ObjectOffer& offer = given[own[i].first_claim % widest];
    offer.fd = own[i].fd >= 0 ? own[i].fd : 0;
    offer.segment = own[i].segment;
  }
  return success();
}

/// Gets the objects that other ranks have made, and those that nobody had to make.
Status get_others(const image::Reader& reader, const ObjectOffer* offers, RestoreError& error) {
  for (u64 i = 0; i < own_count; i++) {
    const image::ImageObject& object = reader.objects[i];
    const ObjectClaim& mine = claims[own[i].first_claim];
    const i64 maker = maker_of(mine);
    Status done;
    if (maker < 0) {
      if (own[i].fd < 0) done = open_unchanged(reader, object, own[i].fd, error);
    } else if (maker != i64(own[i].first_claim)) {
      const bool filling = fills(mine, claims[maker]);
      const int access = filling ? sys::kReadWrite : sys::kReadOnly;
      done = take_offer(reader, object, offers[maker], access, own[i], error);
      if (done && filling && object.kind != kSegment) done = fill_parts(reader, i, error);
    }
    if (!done) return done;
  }
  return success();
}

}  // namespace

Status restore_objects(const image::Reader& reader, const World& world, RestoreError& error) {
  error.what = "the ranks cannot agree on shared memory";
  error.advice = "memory may be short";
  Status done = exchange_claims(reader, world, error);
  if (!done || !widest) return done;
  ObjectOffer* const offers = reserve<ObjectOffer>(total);
  ObjectOffer* const given = reserve<ObjectOffer>(widest);
  if (!offers || !given) return failure(sys::kEnomem);
  for (u64 i = 0; i < widest; i++) given[i] = {sys::getpid(), -1, 0, 0};
  done = make_own(reader, world, given, error);
  if (!done) return done;
  if (world.gather(given, widest * sizeof(ObjectOffer), offers)) return failure(sys::kEio);
  done = get_others(reader, offers, error);
  if (!done) return done;
  note_segments(reader, offers);
  return success();
}

Result<u64> map_shared(const image::Reader& reader, const image::ImageRegion& region) {
  if (!region.object) return Result<u64>::fail(sys::kEinval);
  const image::ImageObject& object = reader.objects[region.object - 1];
  const LocalObject& from = own[region.object - 1];
  const u64 bytes = region.end - region.start;
  if (object.kind != kSegment)
    return sys::mmap(region.start, bytes, int(region.prot),
                     sys::kMapShared | sys::kMapFixedNoReplace, from.fd, region.file_offset);
  // shmat knows whole segments only, so the part that is wanted is moved into its place.
  constexpr int kMoveThere = sys::kMremapMayMove | sys::kMremapFixed;
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

int region_descriptor(const image::ImageRegion& region) {
  return region.object && region.object <= own_count ? own[region.object - 1].fd : -1;
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
  for (u64 i = 0; i < own_count; i++) {
    const bool made_here = maker_of(claims[own[i].first_claim]) == i64(own[i].first_claim);
    if (made_here) settle_object(reader.objects[i], own[i].fd, own[i].segment);
    if (own[i].fd >= 0) (void)sys::close(own[i].fd);
  }
  return success();
}

}  // namespace fermata::memory
