// SPDX-License-Identifier: Apache-2.0
// The table stands in the order in which sections are restored, for there each waits for those
// before it; the comments say for which. Saving does not depend on the order, but that helpers are
// saved after the descriptors they share. A kind of thing that is saved and not restored, or the
// other way round, does not compile; what comes with another section says so.
#include "launcher/image/sections.h"

#include "base/rank.gen.h"
#include "image/format.gen.h"
#include "launcher/boundary/guest.h"
#include "launcher/config.h"
#include "launcher/ids/process_ids.h"
#include "launcher/ids/thread.h"
#include "launcher/image/helpers.h"
#include "launcher/image/identity.h"
#include "launcher/image/save.h"
#include "launcher/image/saved_threads.h"
#include "launcher/load/placement.h"
#include "launcher/load/program.h"
#include "launcher/patch/vdso.h"
#include "launcher/process/descriptors.h"
#include "launcher/process/limits.h"
#include "launcher/process/settings.h"
#include "launcher/threads/affinity.h"
#include "launcher/threads/clocks.h"
#include "launcher/threads/held_signals.h"
#include "launcher/threads/pending.h"
#include "launcher/threads/scheduling.h"
#include "launcher/threads/signals.h"
#include "launcher/threads/timers.h"
#include "memory/locks.h"
#include "memory/restore.h"
#include "memory/save.h"
#include "memory/shared.h"
#include "sys/faults.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

using faults::Fault;
using image::ImageHeader;

// --- memory ------------------------------------------------------------------------------------
memory::World world_of(const Restoring& r) {
  return {r.lower->gather, r.header().world_rank, r.header().world_size};
}

// Large, and filled before it is known whether they are needed: each has its own.
memory::RestoreError memory_error, followed_error;

void check_memory(const Status& done, const memory::RestoreError& error) {
  if (!done && error.silent) sys::exit_group(kExitLauncher);
  if (!done) die(error.what, error.where.data, done.error, error.advice);
}

void finish_objects(const Restoring& r) {
  const Status finished = memory::finish_objects(r.reader, world_of(r));
  if (!finished)
    die("the ranks cannot agree on shared memory", r.path, finished.error,
        "check the snapshot with `fermata verify`; older ones: `fermata snapshots`");
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

// --- the process -------------------------------------------------------------------------------
void save_program(const Saving& s) {
  ImageHeader& h = s.header();
  thread_name(s.job_pid, s.job_pid, h.command);
  h.executable_string = s.writer.string(executable());
  h.save_files_string = s.writer.string(config.save_files);
}

/// For the next image; copied, because this image may be removed while the program runs.
void restore_program(const Restoring& r) {
  const ImageHeader& h = r.header();
  static Path program, front;
  static Text<8192> save_files;
  program << r.reader.string(h.executable_string);
  name_process(program.data, reinterpret_cast<const char*>(h.command));
  front << reinterpret_cast<const char*>(h.front);
  config.program = program.data;
  config.front = front.data;
  save_files << r.reader.string(h.save_files_string);
  if (!config.save_files[0]) config.save_files = save_files.data;
  if (h.sealing == image::kEncrypted) config.encrypt = "yes";
}

void save_directory(const Saving& s) {
  Path path;
  if (sys::readlink("/proc/self/cwd", path.data, sizeof path.data))
    s.header().cwd_string = s.writer.string(path.data);
}

void restore_directory(const Restoring& r) {
  const char* const path = r.reader.string(r.header().cwd_string);
  if (!path[0]) return;
  const Result<u64> entered = sys::call(SYS_chdir, sys::arg(path));
  if (!entered) die("cannot enter the working directory", path, entered.error, "create it again");
}

void block_signals() {
  const u64 all = ~kOurSignals | sys::signal_bit(kSignalQuiesce);
  (void)sys::sigprocmask(sys::kSigSetMask, &all, nullptr);
}

// --- descriptors -------------------------------------------------------------------------------
Status save_files(const Saving& s) {
  const files::DescriptorContext context{s.is_upper, ambient_streams(), s.job_pid,
                                         config.save_files, helper_holds_pipe, nullptr, nullptr};
  return files::describe_files(s.writer, context, s.why);
}

/// One of the two parts of it: files::restore_files, files::restore_members.
void restore_files(const Restoring& r, decltype(files::restore_files)* part) {
  Message why;
  const files::DescriptorContext context{nullptr, ambient_streams(), sys::getpid(), "", nullptr,
                                         memory::object_descriptor, inherited_descriptor};
  const Status restored = part(r.reader, context, why);
  if (!restored)
    die("cannot bring back an open file", why.data, restored.error,
        "put the file where the program had it, or free the descriptor");
}

// --- the table ---------------------------------------------------------------------------------
using Save = const Saving&;
using Restore = const Restoring&;

/// In place of one half of a pair: another section does it.
struct Elsewhere {
  void operator()(auto&&) const {}
};
constexpr Elsewhere with_memory, with_threads, with_files, with_shared_memory;

struct Section {
  const char* what;
  Stage stage;
  Status (*save)(Save);
  void (*restore)(Restore);
  Fault then;  // a point behind its restore

  /// Both are given, or this does not compile. What cannot fail returns nothing.
  template <typename SaveIt, typename RestoreIt>
  constexpr Section(const char* name, Stage when, SaveIt, RestoreIt, Fault point = Fault::kNone)
      : what(name), stage(when), then(point) {
    static_assert(__is_empty(SaveIt) && __is_empty(RestoreIt), "lambdas: they are made anew");
    save = [](Save s) {
      if constexpr (__is_same(decltype(SaveIt{}(s)), void)) return SaveIt{}(s), success();
      else return SaveIt{}(s);
    };
    restore = [](Restore r) { RestoreIt{}(r); };
  }
};

constexpr Section kSections[] = {
    {"identity", Stage::kDescribed,  // first: nothing has been changed when it does not fit
     [](Save s) { save_identity(s.header(), s.request); },
     [](Restore r) { check_identity(r.header(), r.path, r.world_rank, r.world_size); },
     Fault::kRestoreOpened},
    {"signal masks", Stage::kPages,  // before there is a frame that a signal could interrupt
     with_memory,  // each thread has its own in its frame
     [](Restore) { block_signals(); }},
    {"memory policy", Stage::kDescribed,  // before memory: it is to come where the program wants it
     with_threads,
     [](Restore r) {
       prepare_thread_settings(threads[0], r.reader.string(r.main_thread().memory_policy_string));
       restore_thread_settings(threads[0], r.main_thread());
     }},
    {"shared memory", Stage::kShared,  // waits for the other ranks, each of which makes a part
     [](Save s) { return memory::save_shared(s.writer, s.why); },
     [](Restore r) {
       check_memory(memory::restore_objects(r.reader, world_of(r), memory_error),
                    memory_error);
     }},
    {"memory", Stage::kPages,  // waits for the objects that it shows
     [](Save s) { return memory::save_regions(s.writer, s.why); },
     [](Restore r) {
       check_memory(memory::map_regions(r.reader, r.path, memory_error), memory_error);
     },
     Fault::kRestoreMemory},
    {"placement", Stage::kDescribed,
     [](Save s) {
       s.header().brk_start = placement.brk_start;
       s.header().brk_end = placement.brk_end;
       s.header().mmap_cursor = placement.mmap_cursor;
     },
     [](Restore r) {
       placement = {r.header().brk_start, r.header().brk_end, r.header().mmap_cursor};
     }},
    {"vdso", Stage::kPages,  // from here on upper memory: handlers and clocks go by its page
     with_memory, [](Restore r) { renew_vdso(r.header().restarts + 1, clocks_shifted()); }},
    {"clocks", Stage::kDescribed,
     [](Save s) { save_clocks(s.header()); }, [](Restore) { begin_clocks(); }},
    {"process ids", Stage::kDescribed,
     [](Save s) { save_process_ids(s.header()); },
     [](Restore r) { restore_process_ids(r.header()); }},
    {"program", Stage::kDescribed, [](Save s) { save_program(s); },
     [](Restore r) { restore_program(r); }},
    {"working directory", Stage::kDescribed, [](Save s) { save_directory(s); },
     [](Restore r) { restore_directory(r); }},
    {"umask", Stage::kDescribed,
     [](Save s) { s.header().umask = u32(sys::call(SYS_umask, 022).value); },
     [](Restore r) { (void)sys::call(SYS_umask, r.header().umask); }},
    {"descriptors", Stage::kDescribed,  // wait for shared memory: some are open on it
     [](Save s) { return save_files(s); },
     [](Restore r) {
       r.reader.fd = r.reader.out_of_the_way(r.reader.fd);
       restore_files(r, files::restore_files);
     }},
    {"memory of open files", Stage::kPages,  // waits for the descriptors that it is mapped by
     with_memory,
     [](Restore r) {
       check_memory(memory::map_followed(r.reader, r.path, followed_error), followed_error);
       (void)sys::close(r.reader.fd);  // the last that is read of the image; its tables are left
     }},
    {"removed and sealed memory", Stage::kShared,  // waits until all ranks have mapped and opened
     with_shared_memory, [](Restore r) { finish_objects(r); }},
    {"members of descriptors", Stage::kDescribed,  // locks: nobody closes such a file any more
     with_files, [](Restore r) { restore_files(r, files::restore_members); }},
    {"helpers", Stage::kDescribed,  // wait for the descriptors that they share
     [](Save s) { return save_helpers(s.writer, s.why); },
     [](Restore r) { start_helpers(r.reader); }},
    {"limits", Stage::kDescribed,  // of descriptors: all have been made
     [](Save s) { save_limits(s.header().limits, s.header().limits_changed, s.job_pid); },
     [](Restore r) { restore_limits(r.header().limits, r.header().limits_changed); }},
    {"memory locks", Stage::kDescribed,  // wait for the limits: RLIMIT_MEMLOCK is the program's
     [](Save s) { s.header().future_locks = memory::future_locks(); },
     [](Restore r) { memory::restore_locks(r.reader); }},
    {"memory seals", Stage::kPages,  // wait for memory to be filled: they forbid to write
     with_memory, [](Restore r) { memory::restore_seals(r.reader); }},
    {"signal actions", Stage::kDescribed,  // wait for the ids that handlers are told
     [](Save s) { save_actions(s.writer); }, [](Restore r) { restore_actions(r.reader); },
     Fault::kRestoreFiles},
    {"crossing", Stage::kPages,  // before there is a thread that reads it
     with_memory, [](Restore r) { relink_crossing(r.lower); }},
    {"threads", Stage::kDescribed,  // wait for all memory, and for the crossing
     [](Save s) { save_threads(s.writer, s.job_pid); },
     [](Restore r) { restore_threads(r.reader); }, Fault::kRestoreThreads},
    {"held signals", Stage::kDescribed,  // wait for the threads whose masks have them
     [](Save) { show_masks(); }, [](Restore r) { restore_held(r.reader); }},
    {"processors", Stage::kDescribed,  // wait for the threads that are bound to them
     [](Save s) { save_given_processors(s.header()); },
     [](Restore r) { restore_affinity(r.reader); }},
    {"scheduling", Stage::kDescribed,  // of this thread: those that it has made would inherit it
     with_threads, [](Restore r) { restore_scheduling(r.main_thread()); }},
    {"traits", Stage::kDescribed,
     [](Save s) { save_traits(s.header()); }, [](Restore r) { restore_traits(r.header()); }},
    {"settings", Stage::kDescribed,
     [](Save s) { save_settings(s.header(), s.job_pid); },
     [](Restore r) { restore_settings(r.header()); }},
    {"what /proc shows", Stage::kDescribed,
     [](Save s) { save_shown(s.header().arguments); },
     [](Restore r) { show_program(r.header().arguments); }},
    {"timers", Stage::kDescribed,  // wait for the threads that they tell
     [](Save s) { save_timers(s.writer); }, [](Restore r) { restore_timers(r.reader); }},
    {"pending signals", Stage::kDescribed,  // wait for the timers whose signals they are
     [](Save s) { save_signals(s.writer); }, [](Restore r) { restore_signals(r.reader); }},
};

}  // namespace

Status save_sections(Stage stage, const Saving& saving) {
  for (const Section& section : kSections) {
    if (section.stage != stage) continue;
    const Status saved = section.save(saving);
    if (!saved) return saved;
  }
  return success();
}

void restore_sections(const Restoring& restoring) {
  for (const Section& section : kSections) {
    section.restore(restoring);
    faults::fault(section.then);
  }
}

}  // namespace fermata::launch
