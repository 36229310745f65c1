// SPDX-License-Identifier: Apache-2.0
#include "launcher/image/identity.h"


#include "base/rank.gen.h"
#include "base/text.h"
#include "launcher/config.h"
#include "launcher/image/cpu.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr const char* kAdvice =
    "check the snapshot with `fermata verify`; older ones: `fermata snapshots`";

void copy_text(char* to, u64 capacity, const char* from) {
  u64 i = 0;
  for (; from[i] && i + 1 < capacity; i++) to[i] = from[i];
  for (; i < capacity; i++) to[i] = 0;
}

/// Whether the front end in the image is one that this launcher serves.
void check_crossing(const image::ImageHeader& h, const char* path) {
  if (h.calls_hash && h.calls_hash == served_calls_hash(h.crossing_version)) return;
  Message why;
  why << "the image was made by another version of Fermata (crossing " << h.crossing_version
      << "; this one reads ";
  if (kCrossingOldest < kCrossingVersion) why << kCrossingOldest << " to ";
  why << kCrossingVersion << ")";
  die(why.data, path, 0, "`fermata restart` says which version can use it");
}

}  // namespace

void save_identity(image::ImageHeader& h, const SaveRequest& request) {
  const Crossing& shared = crossing();
  h.machine = kElfMachine;
  // Those of the front end, which may have been made by the Fermata before this one.
  h.crossing_version = shared.version;
  h.calls_hash = served_calls_hash(shared.version);
  h.epoch = request.epoch;
  h.world_rank = request.world_rank;
  h.world_size = request.world_size;
  h.restarts = shared.restarts;
  h.thread_level = shared.thread_level;
  copy_text(reinterpret_cast<char*>(h.job), sizeof h.job, request.job);
  copy_text(reinterpret_cast<char*>(h.front), sizeof h.front, base_name(config.front));
  copy_text(reinterpret_cast<char*>(h.lower), sizeof h.lower, shared.lower->name);
  sys::TimeSpec now{};
  (void)sys::call(SYS_clock_gettime, sys::kClockRealtime, sys::arg(&now));
  h.saved_unix_s = u64(now.seconds);
  cpu_features(h.cpu_features);
  h.xsave_layout = xsave_layout(h.cpu_features[0]);
}

void check_identity(const image::ImageHeader& h, const char* path, u32 world_rank,
                    u32 world_size) {
  if (h.machine != kElfMachine) die("the image is for another machine", path, 0, kAdvice);
  check_crossing(h, path);
  if (h.world_rank != world_rank || h.world_size != world_size)
    die("the image belongs to another rank or job size", path, 0,
        "restart with as many ranks as were saved");
  Message missing;
  if (missing_features(h.cpu_features, missing))
    die("this CPU lacks features the saved program may be using", missing.data, 0,
        "restart on a CPU that has them");
  if (xsave_layout(h.cpu_features[0]) != h.xsave_layout)
    die("this CPU keeps its vector registers in another layout than the saved program's", path, 0,
        "restart on a CPU of the same maker");
}

}  // namespace fermata::launch
