// SPDX-License-Identifier: Apache-2.0
// Two processes restore what two ranks shared, and talk over a socket where ranks would over MPI:
// the memory is one again, holds what the later reader saw of those that could write it, and is
// refused on two hosts. What each rank knows in part only is put together.
#include "image/reader.cpp"
#include "image/seal.cpp"
#include "memory/attributes.h"
#include "memory/make.cpp"
#include "memory/places.cpp"
#include "memory/segments.cpp"
#include "memory/shared.cpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool shares;

namespace fermata::memory {
void note_shared_memory() { shares = true; }
}  // namespace fermata::memory

using namespace fermata;

// The images here are not sealed.
extern "C" {
void fermata_seal_keys(const u8*, const u8*, image::SealKeys*, u8*) { abort(); }
void fermata_seal_tag(const image::SealKeys*, const void*, u64, u8*) { abort(); }
bool fermata_seal_decrypt(const image::SealKeys*, u64, void*, u64, const u8*) { abort(); }
void fermata_seal_mac(const image::SealKeys*, const image::SealPart*, u64, u8*) { abort(); }
bool fermata_seal_equal(const void*, const void*, u64) { abort(); }
}

#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) {                                                       \
      printf("rank %u: %s:%d: %s\n", rank, __FILE__, __LINE__, #condition);   \
      fflush(stdout);                                                         \
      _exit(1);                                                               \
    }                                                                         \
  } while (0)

static u32 rank;
static int line[2];  // a socketpair: rank r uses line[r]

static int gather(const void* mine, u64 bytes, void* all) {
  char* const out = static_cast<char*>(all);
  memcpy(out + rank * bytes, mine, bytes);
  if (write(line[rank], mine, bytes) != ssize_t(bytes)) return 1;
  for (u64 at = 0; at < bytes;) {
    const ssize_t got = read(line[rank], out + (1 - rank) * bytes + at, bytes - at);
    if (got <= 0) return 1;
    at += u64(got);
  }
  return 0;
}

/// One page of `letter` in an object that was inode 42.
static void make_image(image::Reader& reader, char letter, u64 saved_ns, u32 kind) {
  static image::ImageHeader header;
  static image::ImageObject object;
  static image::ImageExtent extent;
  static char strings[] = "\0/memfd:test (deleted)";
  char page[4096];
  memset(page, letter, sizeof page);
  FILE* const file = tmpfile();
  EXPECT(file && fwrite(page, sizeof page, 1, file) == 1 && fflush(file) == 0);
  header.objects.count = 1;
  extent = {4096, 4096, 0, crc32c(page, sizeof page), 0};  // the second page of the object
  object = {};
  object.host = 7, object.device = 1, object.inode = 42;
  object.saved_ns = saved_ns;
  object.size = 12288;
  object.extent_count = 1;
  object.kind = kind;
  object.flags = memory::kWritable | memory::kWhole;
  object.mode = 0600;
  object.path_string = 1;
  object.seals = kind == memory::kNameless ? 2 : 0;  // F_SEAL_SHRINK
  object.segment = 123456789;                        // as the application knows it
  reader.fd = fileno(file);
  reader.header = &header;
  reader.objects = &object;
  reader.extents = &extent;
  reader.strings = strings;
  reader.string_bytes = sizeof strings;
}

static void one_host(u32 kind) {
  image::Reader reader;
  make_image(reader, rank ? 'B' : 'A', rank ? 2000 : 1000, kind);
  memory::RestoreError error;
  const memory::World world{gather, rank, 2};
  EXPECT(memory::restore_objects(reader, world, error));
  image::ImageRegion region{};
  region.start = 0x1234'0000'0000;
  region.end = region.start + 12288;
  region.prot = PROT_READ | PROT_WRITE;
  region.flags = memory::kShared;
  region.object = 1;
  EXPECT(memory::map_shared(reader, region));
  volatile char* const shared = reinterpret_cast<char*>(region.start);
  EXPECT(shared[0] == 0 && shared[4096] == 'B' && shared[8191] == 'B' && shared[8192] == 0);
  const int fd = memory::object_descriptor(42, 1);
  EXPECT((fd >= 0) == (kind == memory::kNameless));
  EXPECT(memory::object_descriptor(42, 2) == -1 && memory::object_descriptor(42, 0) == fd);
  char word = 0, all[2];
  EXPECT(gather(&word, 1, all) == 0);  // both have looked
  shared[rank] = char('a' + rank);
  EXPECT(gather(&word, 1, all) == 0);
  EXPECT(shared[0] == 'a' && shared[1] == 'b');
  const int kept = fd >= 0 ? dup(fd) : -1;
  EXPECT(memory::finish_objects(reader, world));
  EXPECT(gather(&word, 1, all) == 0);  // the maker has settled it
  if (kept >= 0) EXPECT(ftruncate(kept, 4096) == -1);  // sealed again
  if (kind != memory::kSegment) return;
  const u32 real = memory::real_segment(123456789);
  memory::SegmentInfo info;
  EXPECT(real != 123456789 && memory::known_segment(real) == 123456789);
  EXPECT(memory::stat_segment(real, info) && info.attach_count == 2);
  EXPECT(gather(&word, 1, all) == 0);
  if (rank == 0) EXPECT(memory::control_segment(123456789, sys::kIpcRmid, 0));
}

/// Who has not used a segment knows it, but does not save it, and waits for nobody.
static void segment_of_rank_0() {
  image::Reader reader;
  make_image(reader, 'A', 1000, memory::kSegment);
  image::ImageHeader header{};
  header.objects.count = rank == 0;
  reader.header = &header;
  memory::RestoreError error;
  const memory::World world{gather, rank, 2};
  EXPECT(memory::restore_objects(reader, world, error));
  const u32 real = memory::real_segment(123456789);
  memory::SegmentInfo info;
  EXPECT(real != 123456789 && memory::stat_segment(real, info));
  bool is_own = false;
  memory::each_segment([&](const memory::SegmentPair& pair) { is_own = is_own || pair.is_own; });
  EXPECT(is_own == (rank == 0) && shares == (rank == 0));
  memory::note_segment(123456789, real);  // attaches it
  memory::each_segment([&](const memory::SegmentPair& pair) { is_own = is_own || pair.is_own; });
  EXPECT(is_own && shares);
  EXPECT(memory::finish_objects(reader, world));
  if (rank == 0) EXPECT(memory::control_segment(123456789, sys::kIpcRmid, 0));
}

/// Who could only read may have read when the others had continued.
static void read_later_by_who_cannot_write() {
  image::Reader reader;
  make_image(reader, rank ? 'B' : 'A', rank ? 2000 : 1000, memory::kNameless);
  image::ImageObject object = reader.objects[0];
  if (rank == 1) object.flags &= ~u32(memory::kWritable);
  reader.objects = &object;
  memory::RestoreError error;
  const memory::World world{gather, rank, 2};
  EXPECT(memory::restore_objects(reader, world, error));
  char letter = 0;
  const int fd = memory::object_descriptor(42, 1);
  EXPECT(fd >= 0 && pread(fd, &letter, 1, 4096) == 1 && letter == 'A');
  EXPECT(memory::finish_objects(reader, world));
}

static void two_hosts() {
  if (rank == 1 && unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0) _exit(77);  // not allowed here
  if (rank == 1) EXPECT(sethostname("elsewhere", 9) == 0);
  image::Reader reader;
  make_image(reader, 'A', 1000, memory::kNameless);
  memory::RestoreError error;
  const Status done = memory::restore_objects(reader, {gather, rank, 2}, error);
  EXPECT(!done && strstr(error.what, "different hosts"));
  EXPECT(strstr(error.where.data, "/memfd:test") && strstr(error.where.data, "rank 1"));
  EXPECT(error.silent == (rank == 1));
}

/// Runs `body` as two ranks. Returns 0 if both succeed or may not try.
template <typename Body>
static int as_two(Body body) {
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, line)) return 1;
  pid_t pids[2];
  for (rank = 0; rank < 2; rank++) {
    pids[rank] = fork();
    if (pids[rank] != 0) continue;
    alarm(30);
    close(line[1 - rank]);
    body();
    _exit(0);
  }
  close(line[0]), close(line[1]);
  int failed = 0, skipped = 0;
  for (const pid_t pid : pids) {
    int status = -1;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skipped = 1;
    else if (status) failed = 1;
  }
  return failed && !skipped;
}

/// An image with two pages of `letter` from `from` on, and a zero page after them. The rank had
/// mapped the three, of five.
static void make_part(image::Reader& reader, char letter, u64 from, u32 kind, const char* path) {
  static image::ImageHeader header;
  static image::ImageObject object;
  static image::ImageRegion region;
  static image::ImageExtent extent;
  make_image(reader, letter, rank ? 2000 : 1000, kind);
  static char pages[8192];
  memset(pages, letter, sizeof pages);
  FILE* const file = tmpfile();
  EXPECT(file && fwrite(pages, sizeof pages, 1, file) == 1 && fflush(file) == 0);
  reader.fd = fileno(file);
  header.objects.count = header.regions.count = 1;
  object = reader.objects[0];
  object.flags = memory::kWritable;
  object.size = kind == memory::kFile ? 5 * 4096 : from + 3 * 4096;
  region.start = 0x1234'0000'0000, region.end = region.start + 3 * 4096;
  region.file_offset = from;
  region.flags = memory::kShared;
  region.object = 1;
  extent = {from, sizeof pages, 0, crc32c(pages, sizeof pages), 0};
  if (path) reader.strings = path, reader.string_bytes = strlen(path) + 1, object.path_string = 0;
  reader.header = &header, reader.objects = &object, reader.regions = &region;
  reader.extents = &extent;
}

/// Rank 0 had mapped pages 0 to 2, rank 1, which read later, 2 to 4.
static void parts(u32 kind, const char* path) {
  image::Reader reader;
  make_part(reader, rank ? 'B' : 'A', rank ? 2 * 4096 : 0, kind, path);
  memory::RestoreError error;
  const memory::World world{gather, rank, 2};
  EXPECT(memory::restore_objects(reader, world, error));
  const int fd = kind == memory::kFile ? -1 : dup(memory::object_descriptor(42, 0));
  EXPECT(memory::finish_objects(reader, world));
  char letters[6] = {};
  const int there = fd >= 0 ? fd : open(path, O_RDONLY);
  for (int i = 0; i < 5; i++) EXPECT(pread(there, &letters[i], 1, i * 4096) == 1);
  EXPECT(memcmp(letters, "AABB\0", 6) == 0);
  EXPECT(lseek(there, 0, SEEK_END) == 5 * 4096);
}

/// A file on disk, with what the job wrote after the snapshot; or gone.
static int parts_of_a_file(bool is_there) {
  char path[] = "/tmp/fermata-parts-XXXXXX";
  const int fd = mkstemp(path);
  char later[5 * 4096];
  memset(later, 'x', sizeof later);
  if (fd < 0 || write(fd, later, sizeof later) != sizeof later) return 1;
  if (!is_there && unlink(path)) return 1;
  const int failed = as_two([&] { parts(memory::kFile, path); });
  unlink(path), close(fd);
  return failed;
}

int main() {
  return as_two([] { one_host(memory::kNameless); }) ||
         as_two([] { one_host(memory::kSegment); }) ||
         as_two(segment_of_rank_0) || as_two(read_later_by_who_cannot_write) ||
         as_two([] { parts(memory::kNameless, nullptr); }) || parts_of_a_file(true) ||
         parts_of_a_file(false) || as_two(two_hosts);
}
