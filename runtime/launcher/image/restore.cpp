// SPDX-License-Identifier: Apache-2.0
// A restart, on the lower half's main stack: check the image, map the upper half back at its old
// addresses, put files and signals right, recreate the threads, and step onto the saved stack of
// the MPI thread. From there upper code continues: it rebuilds the MPI objects and returns through
// the signal frame into the application.
#include "files/describe.h"
#include "image/moved.h"
#include "launcher/launcher.h"
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

void check_fits(const image::ImageHeader& h, const char* path, u32 world_rank, u32 world_size) {
  if (h.machine != 62) die("the image is for another machine", path, 0, kAdvice);
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

void restore_memory(const image::Reader& reader, const LowerCalls* lower, const char* path) {
  static memory::RestoreError error;
  // First of all: the memory that comes back is to be where the program wants it.
  const image::ImageThread& main = reader.threads[reader.header->main_thread];
  prepare_thread_settings(threads[0], reader.string(main.memory_policy_string));
  restore_thread_settings(threads[0], main);
  const memory::World world{lower->gather, reader.header->world_rank, reader.header->world_size};
  Status mapped = memory::restore_objects(reader, world, error);
  if (mapped) mapped = memory::map_regions(reader, path, error);
  if (!mapped && error.silent) sys::exit_group(70);
  if (!mapped) die(error.what, error.where.data, mapped.error, error.advice);
}

void map_followed(const image::Reader& reader, const char* path) {
  static memory::RestoreError error;
  const Status mapped = memory::map_followed(reader, path, error);
  if (!mapped) die(error.what, error.where.data, mapped.error, error.advice);
}

/// One of the two parts of it: files::restore_files, files::restore_members.
void bring_back_files(const image::Reader& reader, decltype(files::restore_files)* part) {
  Message why;
  const files::DescriptorContext context{nullptr, ambient_streams(), sys::getpid(), "", nullptr,
                                         memory::object_descriptor, inherited_descriptor};
  const Status restored = part(reader, context, why);
  if (!restored)
    die("cannot bring back an open file", why.data, restored.error,
        "put the file where the program had it, or free the descriptor");
}

struct NewThread {
  image::ImageThread saved;
  const Thread* thread;
};

void restored_thread(void* argument) {
  const NewThread& begun = *static_cast<const NewThread*>(argument);
  const image::ImageThread& saved = begun.saved;
  if (saved.robust_list)
    (void)sys::call(SYS_set_robust_list, saved.robust_list, saved.robust_bytes);
  restore_scheduling(saved);
  restore_thread_settings(*begun.thread, saved);
  Crossing& shared = crossing();
  while (__atomic_load_n(&shared.rebuilding, __ATOMIC_ACQUIRE))
    sys::futex_wait(&shared.rebuilding, 1, 10'000'000);
  if (!(saved.flags & kBareThread))
    reinterpret_cast<Gate*>(saved.fs_base + u64(shared.gate_offset))->attention |= kGateNew;
  UserContext* const frame = reinterpret_cast<UserContext*>(saved.frame);
  shift_carried_call(frame);
  return_signals();
  settle_carried_call(frame);
  arch::fermata_sigreturn_to(saved.frame);
}

void create_threads(const image::Reader& reader) {
  constexpr u64 kFlags = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 | 0x80000 | 0x200000;
  // VM FS FILES SIGHAND THREAD SYSVSEM SETTLS CLEARTID
  const u64 count = reader.header->threads.count;
  u32 slot = 1;
  for (u64 i = 0; i < count; i++) {
    const image::ImageThread& saved = reader.threads[i];
    if (i == reader.header->main_thread || slot == kThreadCapacity) continue;
    Thread& thread = threads[slot++];
    // Its own stack below its signal frame is free: the handler that stood there is gone. There is
    // what it must know, for the reader's tables go.
    const u64 stack = (saved.frame - 512 - sizeof(NewThread)) & ~u64(63);
    const NewThread begun{saved, &thread};
    void* const copy = reinterpret_cast<void*>(stack);
    __builtin_memcpy(copy, &begun, sizeof begun);
    prepare_thread_settings(thread, reader.string(saved.memory_policy_string));
    const i64 tid = arch::fermata_clone_call(
        saved.clear_tid ? kFlags : kFlags & ~u64(0x200000), stack, 0, saved.clear_tid,
        saved.fs_base, restored_thread, copy);
    if (tid < 0) die("cannot recreate a thread", reader.string(0), i32(-tid), "check `ulimit -u`");
    thread.tid = u32(tid);
    thread.id = saved.tid;
    thread.clear_tid = saved.clear_tid;
    thread.bare = saved.flags & kBareThread;
    thread.state = ThreadState::kLive;
  }
}

void relink_crossing(const LowerCalls* lower) {
  Crossing& shared = crossing();
  shared.lower = lower;
  shared.restarts++;
  shared.rebuilding = 1;
  shared.pending = 0;
  shared.phase = Phase::kRun;
  shared.targets_version = shared.expected_version = 0;
}

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

/// For the next image; copied, because this image may be removed while the program runs.
void take_over_names(const image::Reader& reader) {
  const image::ImageHeader& h = *reader.header;
  static Path program, front;
  static Text<8192> save_files;
  program << reader.string(h.executable_string);
  name_process(program.data, reinterpret_cast<const char*>(h.command));
  front << reinterpret_cast<const char*>(h.front);
  config.program = program.data;
  config.front = front.data;
  save_files << reader.string(h.save_files_string);
  if (!config.save_files[0]) config.save_files = save_files.data;
  if (h.sealing == image::kEncrypted) config.encrypt = "yes";
}

}  // namespace

Text<16> saved_thread_level;
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
  Path path;
  path << config.restore << "/rank-" << (config.rank[0] ? config.rank : "0") << ".img";
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
  path << directory << "/rank-" << world_rank << ".img";
  Message why;
  Status opened = faults::failing(Fault::kRestoreBegun);
  if (opened) opened = image::open_image(path.data, config.key, config.image_mac, reader, why);
  if (!opened) die("cannot restart from this snapshot", why.data, opened.error, kAdvice);
  if (reader.header->header_crc != first_header_crc)
    die("the image was exchanged while the rank was being restored", path.data, 0, kAdvice);
  const Status moved = image::move_paths(reader, config.moves, config.move_count);
  if (!moved)
    die("no memory for the paths of the image", path.data, moved.error, "check `ulimit -v`");
  const image::ImageHeader& h = *reader.header;
  check_fits(h, path.data, world_rank, world_size);
  fault(Fault::kRestoreOpened);

  const u64 all = ~kOurSignals | sys::signal_bit(kSignalQuiesce);
  (void)sys::sigprocmask(sys::kSigSetMask, &all, nullptr);
  restore_memory(reader, lower, path.data);
  fault(Fault::kRestoreMemory);
  placement = {h.brk_start, h.brk_end, h.mmap_cursor};
  renew_vdso(h.restarts + 1);
  begin_clocks();
  restore_process_ids(h);
  take_over_names(reader);

  const char* cwd = reader.string(h.cwd_string);
  if (cwd[0]) {
    const Result<u64> entered = sys::call(SYS_chdir, sys::word(cwd));
    if (!entered) die("cannot enter the working directory", cwd, entered.error, "create it again");
  }
  (void)sys::call(SYS_umask, h.umask);
  reader.fd = reader.out_of_the_way(reader.fd);
  bring_back_files(reader, files::restore_files);
  map_followed(reader, path.data);
  (void)sys::close(reader.fd);
  const memory::World world{lower->gather, h.world_rank, h.world_size};
  const Status finished = memory::finish_objects(reader, world);
  if (!finished) die("the ranks cannot agree on shared memory", path.data, finished.error, kAdvice);
  bring_back_files(reader, files::restore_members);
  start_helpers(reader);
  restore_limits(h.limits, h.limits_changed);
  memory::restore_locks(reader);
  memory::restore_seals(reader);
  restore_actions(reader);
  fault(Fault::kRestoreFiles);

  const image::ImageThread main = reader.threads[h.main_thread];
  relink_crossing(lower);
  Thread& self = threads[0];
  self.id = main.tid;
  self.clear_tid = main.clear_tid;
  (void)sys::call(SYS_set_tid_address, main.clear_tid);
  if (main.robust_list) (void)sys::call(SYS_set_robust_list, main.robust_list, main.robust_bytes);
  create_threads(reader);
  fault(Fault::kRestoreThreads);
  restore_affinity(reader);
  restore_scheduling(main);
  restore_traits(h.traits);
  restore_settings(h);
  show_program(h.arguments);
  restore_timers(reader);
  restore_signals(reader);
  image::free_tables(reader);
  fault(Fault::kRestoreResume);
  shift_carried_call(reinterpret_cast<UserContext*>(main.frame));
  arch::write_fs_base(main.fs_base);
  arch::fermata_hold_resume(main.hold_stack);
}

}  // namespace fermata::launch
