// SPDX-License-Identifier: Apache-2.0
// The processors that threads are bound to. Where a rank runs is its launcher's affair and may
// differ at each restart, so a thread that has what the rank was given gets what it is given now.
// What the program has bound itself it finds again: if the rank has been given others than it had,
// and as many, at the same places among those; else on the same processors. A line on stderr
// says so where the machine does not allow it; the next image names those that the program chose.
#include "launcher/threads/affinity.h"

#include "base/text.h"
#include "image/writer.h"
#include "launcher/ids/process_ids.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr u32 kBoundItself = 2;  // ImageThread::flags

struct Processors {
  static constexpr u32 kMost = 8 * sizeof image::ImageThread::processors;
  u64 words[kMost / 64];

  bool has(u32 cpu) const { return words[cpu / 64] >> cpu % 64 & 1; }
  void add(u32 cpu) { words[cpu / 64] |= u64(1) << cpu % 64; }
  bool within(const Processors& other) const {
    for (u32 i = 0; i < kMost; i++)
      if (has(i) && !other.has(i)) return false;
    return true;
  }
  u32 count() const {
    u32 sum = 0;
    for (u32 i = 0; i < kMost; i++) sum += has(i);
    return sum;
  }
};

Processors given;  // to this rank, before the program bound anything
bool given_known;
Processors unmet[kThreadCapacity];  // by thread: what it was bound to and is not since a restart

Processors& unmet_of(const Thread& thread) { return unmet[&thread - threads]; }

Processors of_thread(u32 tid) {
  Processors found{};
  (void)sys::call(SYS_sched_getaffinity, tid, sizeof found, sys::arg(&found));
  return found;
}

/// Those at the places in `to` that `bound` has in `from`.
/// Preconditions: `bound` lies within `from`, and `to` has as many as that.
Processors by_place(const Processors& bound, const Processors& from, const Processors& to) {
  Processors placed{};
  u32 at = 0;
  for (u32 cpu = 0; cpu < Processors::kMost; cpu++) {
    if (!from.has(cpu)) continue;
    while (!to.has(at)) at++;
    if (bound.has(cpu)) placed.add(at);
    at++;
  }
  return placed;
}

bool bind_again(u32 tid, const Processors& bound, const Processors& had) {
  const bool moved = !had.within(given) && bound.within(had) && given.count() >= had.count();
  const Processors wanted = moved ? by_place(bound, had, given) : bound;
  if (!sys::call(SYS_sched_setaffinity, tid, sizeof wanted, sys::arg(&wanted))) return false;
  return wanted.within(of_thread(tid));
}

}  // namespace

u64 trap_set_affinity(const u64 (&a)[6]) {
  if (!given_known) given = of_thread(threads[0].tid);
  given_known = true;
  const u64 result = trap_id_call(SYS_sched_setaffinity, a);
  Thread* const thread = a[0] ? find_thread_by_id(u32(a[0])) : find_thread(sys::gettid());
  if (result != 0 || !thread || is_forked_child()) return result;
  thread->bound = true;
  unmet_of(*thread) = {};
  return result;
}

void inherit_affinity(const Thread* creator, Thread& thread) {
  thread.bound = creator && creator->bound;
  unmet_of(thread) = creator ? unmet_of(*creator) : Processors{};
}

void save_affinity(const Thread& thread, image::ImageThread& out) {
  const Processors& missed = unmet_of(thread);
  const Processors bound = missed.count() ? missed : of_thread(thread.tid);
  __builtin_memcpy(out.processors, &bound, sizeof bound);
  if (thread.bound) out.flags |= kBoundItself;
}

void save_given_processors(image::ImageHeader& out) {
  if (!given_known) given = of_thread(threads[0].tid);
  __builtin_memcpy(out.processors, &given, sizeof given);
}

void restore_affinity(const image::Reader& reader) {
  Processors had, bound;
  __builtin_memcpy(&had, reader.header->processors, sizeof had);
  given = of_thread(threads[0].tid);
  given_known = true;
  u32 elsewhere = 0;
  for (u64 i = 0; i < reader.header->threads.count; i++) {
    const image::ImageThread& saved = reader.threads[i];
    Thread* const thread = find_thread_by_id(saved.tid);
    if (!thread || !(saved.flags & kBoundItself)) continue;
    thread->bound = true;
    __builtin_memcpy(&bound, saved.processors, sizeof bound);
    if (bind_again(thread->tid, bound, had)) continue;
    unmet_of(*thread) = bound;
    elsewhere++;
  }
  if (!elsewhere) return;
  Message note;
  note << "fermata: rank " << reader.header->world_rank << ": " << elsewhere
       << " threads were bound to processors that cannot be used here\n";
  sys::say(note.data);
}

}  // namespace fermata::launch
