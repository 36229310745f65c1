// SPDX-License-Identifier: Apache-2.0
// Where an object's contents are read from: from the file itself if it can be opened, by its name
// or through a descriptor that the application has, because a file tells which parts are holes;
// else through the mappings.
#include "memory/objects.h"

#include "memory/huge.h"
#include "memory/places.h"
#include "memory/segments.h"
#include "sys/holes.h"

namespace fermata::memory {
namespace {

using sys::kRamfsMagic, sys::kTmpfsMagic;
constexpr u32 kPermissions = 0777;
constexpr int kDescriptorsSearched = 4096;

u64 file_system_of(const char* path) {
  u64 info[15] = {};  // struct statfs
  return sys::call(SYS_statfs, sys::arg(path), sys::arg(info)) ? info[0] : 0;
}

u64 boot_time_ns() {
  sys::TimeSpec t{};
  (void)sys::call(SYS_clock_gettime, sys::kClockBoottime, sys::arg(&t));
  return u64(t.seconds) * 1'000'000'000 + u64(t.nanoseconds);
}

image::ImageObject* find_object(image::Writer& writer, u64 device, u64 inode) {
  for (u64 i = 0; i < writer.objects.count; i++) {
    image::ImageObject& object = writer.objects.entries[i];
    if (object.device == device && object.inode == inode) return &object;
  }
  return nullptr;
}

image::ImageObject* new_object(image::Writer& writer, u64 device, u64 inode, u32 kind,
                               Message& why) {
  image::ImageObject* const object = writer.objects.add();
  if (!object) {
    why << "more shared memory objects than an image holds";
    return nullptr;
  }
  object->host = kind == kSegment ? kernel_and_ipc() : this_kernel();
  object->device = device;
  object->inode = inode;
  object->kind = kind;
  return object;
}

void describe_segment(image::ImageObject& object, const SegmentInfo& info, u32 real) {
  object.segment = known_segment(real);
  object.key = info.key;
  object.mode = info.mode & kPermissions;
  object.size = info.bytes;
  object.flags |= kWritable | kWhole | (info.mode & sys::kShmDest ? u32(kRemoved) : 0);
}

/// Kind, name and size of what `mapping` shows.
Status describe(image::Writer& writer, image::ImageObject& object, const Mapping& mapping,
                Message& why) {
  if (object.kind == kSegment) {
    SegmentInfo info;
    const Result<u64> known = stat_segment(u32(mapping.inode), info);
    if (known) describe_segment(object, info, u32(mapping.inode));
    else why << "System V segment " << mapping.inode << " cannot be examined";
    return known ? success() : failure(sys::kEperm);
  }
  if (text_starts(mapping.path, "/secretmem")) {
    why << "memory that cannot be read (memfd_secret) cannot be saved, mapped at "
        << Hex{mapping.start};
    return failure(sys::kEperm);
  }
  object.path_string = writer.string(mapping.path);
  object.mode = 0600;
  sys::KernelStat info;
  const bool deleted = !sys::stat(mapping.path, &info) || info.ino != mapping.inode;
  if (deleted || is_kept_name(mapping.path)) return success();
  const u64 system = file_system_of(mapping.path);
  if (system == sys::kHugetlbfsMagic) {
    why << "a shared file of the huge page pool cannot be saved: " << mapping.path;
    return failure(sys::kEperm);
  }
  object.kind = system == kTmpfsMagic || system == kRamfsMagic ? kNamed : kFile;
  object.mode = info.mode & kPermissions;
  object.size = u64(info.size);
  return success();
}

/// The device number of the file system on which the kernel itself makes memory that is shared:
/// anonymous, memfds, System V. Their names prove nothing, a file in / may have such a one.
u64 kernels_own_device() {
  static u64 device = 0;
  if (device) return device;
  const Result<u64> fd = sys::call(SYS_memfd_create, sys::arg(""), sys::kMfdCloexec);
  sys::KernelStat info;
  if (fd && sys::fstat(int(fd.value), &info)) device = info.dev;
  if (fd) (void)sys::close(int(fd.value));
  return device;
}

/// Whether all that exists of it is in memory. Of a file on disk mincore(2) shows what is cached.
bool lives_in_memory(const Mapping& mapping) {
  if (mapping.device == kernels_own_device()) return true;
  Path directory;  // the nearest one that is still there
  directory << mapping.path;
  while (directory.size) {
    const bool cut = directory.data[--directory.size] == '/';
    directory.data[directory.size] = 0;
    sys::KernelStat info;
    if (!cut || !sys::stat(directory.data, &info)) continue;
    const u64 system = file_system_of(directory.data);
    return info.dev == mapping.device &&
           (system == kTmpfsMagic || system == kRamfsMagic || system == sys::kHugetlbfsMagic);
  }
  return false;
}

bool is_segment(const Mapping& mapping) {
  return text_starts(mapping.path, "/SYSV") &&
         (mapping.device == kernels_own_device() || (mapping.attributes & kHugeTlb));
}

/// Opens the object for reading: by name, or through a descriptor of this process. Fills size and
/// seals.
Result<u64> open_object(image::ImageObject& object, const char* path) {
  sys::KernelStat info;
  if (object.kind != kNameless) {
    const Result<u64> opened = sys::open_regular(path);
    if (!opened || !sys::fstat(int(opened.value), &info)) return opened;
    object.size = u64(info.size);
    return opened;
  }
  for (int fd = 0; fd < kDescriptorsSearched; fd++) {
    if (!sys::fstat(fd, &info) || info.ino != object.inode || info.dev != object.device) continue;
    Text<64> link;
    link << "/proc/self/fd/" << fd;
    const Result<u64> opened = sys::open(link.data, sys::kReadOnly | sys::kCloseOnExec);
    if (!opened) continue;
    object.size = u64(info.size);
    object.mode = info.mode & kPermissions;
    const Result<u64> seals = sys::fcntl(fd, sys::kGetSeals);
    object.seals = seals ? u32(seals.value) : 0;
    return opened;
  }
  return Result<u64>::fail(sys::kEnoent);
}

bool shows(const Mapping& mapping, const image::ImageObject& object) {
  return mapping.shared && mapping.inode == object.inode && mapping.device == object.device;
}

/// True if an earlier mapping shows all that this one does.
bool is_repeated(const image::Table<Mapping>& mappings, u64 index) {
  const Mapping& own = mappings.entries[index];
  for (u64 i = 0; i < index; i++) {
    const Mapping& other = mappings.entries[i];
    if (other.shared && other.inode == own.inode && other.device == own.device &&
        other.file_offset <= own.file_offset &&
        other.file_offset + other.bytes() >= own.file_offset + own.bytes())
      return true;
  }
  return false;
}

/// Through the mappings; `fd` is the file, or -1 where only memory is there. A restart knows from
/// the regions which parts these are.
Status save_mapped(Pages& pages, image::ImageObject& object,
                   const image::Table<Mapping>& mappings, int fd) {
  u64 end = 0;
  for (u64 i = 0; i < mappings.count; i++) {
    const Mapping& mapping = mappings.entries[i];
    if (!shows(mapping, object)) continue;
    const u64 to = mapping.file_offset + mapping.bytes();
    if (to > end) end = to;
    if (is_repeated(mappings, i)) continue;
    const Wanted wanted = lives_in_memory(mapping) ? Wanted::kCached : Wanted::kAll;
    const Status saved = fd >= 0
                             ? pages.save_file(fd, mapping.file_offset, to)
                             : pages.save(mapping, wanted, mapping.file_offset - mapping.start);
    if (!saved) return saved;
  }
  if (object.kind == kNameless) object.size = end;  // as far as this rank knows
  return success();
}

/// Of all segments together.
u64 segment_pages_in_swap() {
  u64 info[6] = {};  // struct shm_info: used_ids, shm_tot, shm_rss, shm_swp, ...
  return sys::call(SYS_shmctl, 0, sys::kShmInfo, sys::arg(info)) ? info[3] : 1;
}

Status save_segment(Pages& pages, const image::ImageObject& object) {
  Result<u64> at = sys::call(SYS_shmat, u32(object.inode), 0, sys::kShmRdonly);
  if (!at) return failure(at.error);
  Mapping whole;
  if (is_of_huge_pool(at.value)) {
    whole.attributes = kHugeTlb;  // which is watched only where it may be written
    const Result<u64> writable = sys::call(SYS_shmat, u32(object.inode), 0, 0);
    if (writable) (void)sys::call(SYS_shmdt, at.value);
    if (writable) at = writable;
  }
  whole.start = at.value;
  whole.end = at.value + page_ceil(object.size);
  whole.swapped_kib = segment_pages_in_swap() * (kPageBytes / 1024);
  const Status saved = pages.save(whole, Wanted::kCached, -whole.start);
  (void)sys::call(SYS_shmdt, at.value);
  return saved;
}

Status save_contents(Pages& pages, image::ImageObject& object, const char* path,
                     const image::Table<Mapping>& mappings) {
  if (object.kind == kSegment) return save_segment(pages, object);
  const Result<u64> file = open_object(object, path);
  const int fd = file ? int(file.value) : -1;
  Status saved;
  if (file && object.kind != kFile) {
    saved = pages.save_file(fd, 0, page_ceil(object.size));
    object.flags |= kWhole;
  } else {
    saved = save_mapped(pages, object, mappings, fd);
  }
  if (file) (void)sys::close(fd);
  return saved;
}

/// Segments that the application made or attached once and may attach again.
Status add_unattached(image::Writer& writer, u64 device, Message& why) {
  Status done;
  each_segment([&](const SegmentPair& pair) {
    const u32 real = pair.real;
    SegmentInfo info;
    if (!pair.is_own || !done || !stat_segment(real, info)) return;
    bool found = false;
    for (u64 i = 0; i < writer.objects.count; i++)
      found = found || (writer.objects.entries[i].kind == kSegment &&
                        writer.objects.entries[i].inode == real);
    if (found) return;
    image::ImageObject* const object = new_object(writer, device, real, kSegment, why);
    if (object) describe_segment(*object, info, real);
    else done = failure(sys::kEnomem);
  });
  return done;
}

bool seen;

}  // namespace

void note_shared_memory() { seen = true; }
bool shared_memory_seen() { return seen; }

void look_for_shared_memory() {
  char* const text = seen ? nullptr : read_mappings(Detail::kPlain);
  for (char* next = text; next && *next && !seen;) {
    Mapping mapping;
    next = parse_mapping(next, mapping);
    seen = next && is_saved(mapping) && mapping.shared && mapping.write;
  }
  if (text) free_mappings(text);
}

Status add_object(image::Writer& writer, const Mapping& mapping, u32& object, Message& why) {
  image::ImageObject* entry = find_object(writer, mapping.device, mapping.inode);
  if (!entry) {
    const u32 kind = is_segment(mapping) ? kSegment : kNameless;
    entry = new_object(writer, mapping.device, mapping.inode, kind, why);
    if (!entry) return failure(sys::kEnomem);
    const Status described = describe(writer, *entry, mapping, why);
    if (!described) return described;
  }
  if (mapping.attributes & kMayWrite) entry->flags |= kWritable;
  object = u32(entry - writer.objects.entries) + 1;
  return success();
}

Status save_objects(Pages& pages, const image::Table<Mapping>& mappings, Message& why) {
  image::Writer& writer = pages.writer;
  u64 device = 1;  // of the kernel's own file system for shared memory
  for (u64 i = 0; i < writer.objects.count; i++)
    if (writer.objects.entries[i].kind == kSegment) device = writer.objects.entries[i].device;
  const Status listed = add_unattached(writer, device, why);
  if (!listed) return listed;
  for (u64 i = 0; i < writer.objects.count; i++) {
    image::ImageObject& object = writer.objects.entries[i];
    object.saved_ns = boot_time_ns();
    object.first_extent = writer.extents.count;
    const char* path = writer.text(object.path_string);
    const Status saved = save_contents(pages, object, path, mappings);
    object.extent_count = writer.extents.count - object.first_extent;
    if (saved) continue;
    why << "cannot save the shared memory " << path;
    if (pages.unreadable) why << ": it cannot be read at " << Hex{pages.unreadable};
    return saved;
  }
  return success();
}

}  // namespace fermata::memory
