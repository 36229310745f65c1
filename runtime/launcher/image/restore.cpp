// SPDX-License-Identifier: Apache-2.0
// A restart, on the lower half's main stack: open the image, restore what it consists of
// (sections.cpp), and step onto the saved stack of the MPI thread. From there upper code continues:
// it rebuilds the MPI objects and returns through the signal frame into the application.
#include "launcher/image/restore.h"

#include "base/rank.gen.h"
#include "base/text.h"
#include "files/describe.h"
#include "image/moved.h"
#include "image/reader.h"
#include "launcher/config.h"
#include "launcher/image/saved_threads.h"
#include "launcher/image/sections.h"
#include "launcher/process/descriptors.h"
#include "launcher/process/limits.h"
#include "launcher/threads/clocks.h"
#include "memory/locks.h"
#include "memory/restore.h"
#include "memory/shared.h"
#include "sys/faults.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

using faults::Fault;
using faults::fault;

constexpr const char* kAdvice =
    "check the snapshot with `fermata verify`; older ones: `fermata snapshots`";

/// Calls take(first, end) for all numbers in a row, from `least` on and below `limit`, that the
/// image does not use. Returns the first number above the image's descriptors.
template <typename Take>
u64 each_free_range(u64 least, u64 limit, const image::Reader& reader, Take take) {
  u64 next = least;
  for (u64 i = 0; i < reader.header->files.count; i++) {
    const u64 saved = u64(reader.files[i].fd);
    if (saved < next) continue;
    take(next, saved < limit ? saved : limit);
    next = saved + 1;
  }
  take(next, limit);
  return next;
}

/// The lower half's descriptors come where a first start would have them, if there is room beside
/// those of the image, and below the limit that will hold again when the program runs. If not, then
/// as high below them as they find room: the program's next descriptors are to have low numbers.
void place_beside_descriptors(const image::Reader& reader) {
  const image::ImageHeader& header = *reader.header;
  constexpr u64 kLeast = 3, kPlenty = 1024, kEnough = 128, kBelow = 256;
  const auto at_most = [](u64 a, u64 b) { return a < b ? a : b; };
  const u64 usual = u64(first_lower_descriptor());
  const u64 soft =
      at_most(soft_descriptors(header.limits, header.limits_changed), kDescriptorsTold);
  u64 first = usual, room = 0;
  const auto first_or_largest = [&](u64 from, u64 to) {
    if (from >= to || to - from <= room || room >= kPlenty) return;
    first = from, room = to - from;
  };
  const auto last = [&](u64 from, u64 to) {
    const u64 count = from < to ? at_most((to - from) / 2, kBelow) : 0;
    if (count < kEnough && count <= room) return;
    first = to - count, room = count;
  };
  const u64 end = each_free_range(usual, soft, reader, first_or_largest);
  const u64 enough = at_most((soft - usual) / 2, kEnough);
  if (room < enough) (void)each_free_range(kLeast, soft, reader, last);
  if (room < enough)
    (void)each_free_range(usual, at_most(most_descriptors(), kDescriptorsTold), reader,
                          first_or_largest);
  begin_lower_descriptors(first);
  allow_descriptors((end > first ? end : first) + kPlenty);
}

}  // namespace

u32 saved_restarts;
bool saved_with_helpers;

namespace {

u32 first_header_crc;  // of the image that was looked at

bool has_helpers(const image::Reader& reader) {
  for (u64 i = 0; i < reader.header->members.count; i++)
    if (reader.members[i].kind == image::MemberKind::kHelper) return true;
  return false;
}

}  // namespace

void look_at_image() {
  lift_limits_for_mpi();
  Path path;
  path << config.restore << "/" << kImageBefore << (config.rank[0] ? config.rank : "0")
       << kImageBehind;
  image::Reader reader;
  Message why;
  const Status opened = image::open_image(path.data, config.key, config.image_mac, reader, why);
  if (opened) {  // else restore_rank() says what is wrong with it
    const image::ImageHeader& header = *reader.header;
    first_header_crc = header.header_crc;
    plan_clocks(header);
    saved_thread_level << header.thread_level;
    saved_restarts = header.restarts;
    saved_with_helpers = has_helpers(reader);
    place_beside_descriptors(reader);
  }
  image::free_tables(reader);
  if (reader.fd >= 0) (void)sys::close(reader.fd);
}

void restore_rank(const LowerCalls* lower, const char* directory, u32 world_rank, u32 world_size) {
  static Path path;
  static image::Reader reader;
  path << directory << "/" << kImageBefore << world_rank << kImageBehind;
  Message why;
  Status opened = faults::failing(Fault::kRestoreBegun);
  if (opened) opened = image::open_image(path.data, config.key, config.image_mac, reader, why);
  if (!opened) die("cannot restart from this snapshot", why.data, opened.error, kAdvice);
  if (reader.header->header_crc != first_header_crc)
    die("the image was exchanged while the rank was being restored", path.data, 0, kAdvice);
  const Status moved = image::move_paths(reader, config.moves, config.move_count);
  if (!moved)
    die("no memory for the paths of the image", path.data, moved.error, "check `ulimit -v`");
  restore_sections({reader, lower, path.data, world_rank, world_size});
  const image::ImageThread main = reader.threads[reader.header->main_thread];
  image::free_tables(reader);
  fault(Fault::kRestoreResume);
  resume_main_thread(main);
}

}  // namespace fermata::launch
