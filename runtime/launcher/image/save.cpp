// SPDX-License-Identifier: Apache-2.0
// Cutting an image. The job pauses only until every upper thread has stopped and the process has
// forked: the child, whose memory is a copy on write of that moment, writes the image while the
// application runs on. What goes wrong in the child is a failed checkpoint and nothing else.
#include "launcher/image/save.h"

#include "base/text.h"
#include "files/describe.h"
#include "image/writer.h"
#include "launcher/config.h"
#include "launcher/ids/process_ids.h"
#include "launcher/ids/thread.h"
#include "launcher/image/children.h"
#include "launcher/image/memory_limit.h"
#include "launcher/image/sections.h"
#include "launcher/process/credentials.h"
#include "launcher/process/descriptors.h"
#include "launcher/process/limits.h"
#include "launcher/process/settings.h"
#include "launcher/process/undone.h"
#include "launcher/threads/pending.h"
#include "launcher/threads/stop.h"
#include "launcher/threads/timers.h"
#include "memory/forks.h"
#include "memory/locks.h"
#include "memory/objects.h"
#include "memory/save.h"
#include "sys/check.h"
#include "sys/faults.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

using faults::Fault;
using faults::fault;

struct OutcomePage {
  SaveOutcome outcome;
  int image_fd;
  u32 described;  // futex: 1 once the writer has taken what fork(2) does not copy
};
OutcomePage* outcome_page;  // shared with the writer child
u64 stopped_ns;             // when the last save began
Path image_path;            // of that save
u64 described_by_ns;        // deadline of its writer for what the job would change by continuing

bool stands_still;           // until the whole image is written: memory_limit.cpp

constexpr u64 kSharedWithinNs = 300'000'000'000;  // the most that the job may stand still for

void fail(SaveOutcome* outcome, i32 error, const char* message) {
  outcome->error = error ? error : sys::kEio;
  shorten(outcome->message, sizeof outcome->message, message);
}

/// Signals and timers as they are at one moment: a timer that expires between the two looks would
/// be saved with its signal, or with neither. Timers that expire faster than one can look may.
Status take_signals_and_timers(u64 deadline, Message& why) {
  constexpr u32 kRounds = 8;
  forget_taken_signals();
  for (u32 round = 0; round < kRounds; round++) {
    const Status taken = take_signals(deadline, why);
    if (!taken) return taken;
    const Status read = read_timers(why);
    if (!read || !any_timer() || !signals_wait()) return read;
  }
  return take_signals(deadline, why);
}

Status refuse_lost_directory(Message& why) {
  Path path;
  sys::KernelStat own, named;
  if (!sys::readlink("/proc/self/cwd", path.data, sizeof path.data)) return success();
  const bool found = sys::stat("/proc/self/cwd", &own) && sys::stat(path.data, &named) &&
                     own.ino == named.ino && own.dev == named.dev;
  if (found) return success();
  why << "the working directory is no longer found under its name: " << path.data;
  return failure(sys::kEperm);
}

bool belongs_to_upper(int fd) { return !is_lower_descriptor(fd) && fd != outcome_page->image_fd; }

/// The application closes files while its image is being written, and then they must be closed:
/// locks go, pipes end, epolls forget.
void close_what_others_see(const image::Writer& writer) {
  for (u64 i = 0; i < writer.files.count; i++)
    if (!files::may_stay_open(writer, writer.files.entries[i]))
      (void)sys::close(writer.files.entries[i].fd);
  close_lower_descriptors(files::is_regular);
}

/// What is still open then may take as long to close as a network file system needs to flush it.
void close_all_but_image() {
  constexpr u64 kLast = 0x7fffffff;
  const int image = outcome_page->image_fd, stream = sys::message_stream;
  const int in_order[] = {image < stream ? image : stream, image < stream ? stream : image};
  u64 first = 0;
  for (const int kept : in_order) {
    if (kept < 0) continue;
    if (first < u64(kept)) (void)sys::call(SYS_close_range, first, u64(kept) - 1, 0);
    first = u64(kept) + 1;
  }
  (void)sys::call(SYS_close_range, first, kLast, 0);
}

/// Without its rank, an image is of no use. The agent's thread, which forked, lives as long.
void end_with_rank() {
  (void)sys::call(SYS_prctl, sys::kPrSetPdeathsig, sys::kSigKill);
  if (sys::call(SYS_getppid).value != own_pid()) sys::exit_group(1);
}

void tell_described() {
  __atomic_store_n(&outcome_page->described, 1, __ATOMIC_RELEASE);
  sys::futex_wake_shared(&outcome_page->described);
}

/// Where the key cannot be read the image is not sealed: whoever commits the snapshot does that.
/// But what is to be encrypted never lies anywhere in clear.
Status begin_seal(image::Writer& writer, Message& why) {
  const bool encrypts = config.encrypt[0];
  Message reason;
  if (!config.key[0]) reason << "there is no key";
  else if (writer.seal_with(config.key, encrypts, reason)) return success();
  if (!encrypts) return success();
  why << "the image cannot be encrypted: " << reason.data;
  return failure(sys::kEperm);
}

/// In the writer's copy of the table: nothing of the application ran while it was made.
void check_all_stand() {
  for (const Thread& thread : threads) {
    const ThreadState state = state_of(thread);
    FERMATA_CHECK(state == ThreadState::kFree || state == ThreadState::kKept,
                  "all threads stand while the image is cut");
  }
}

/// Creates the image, sealed if it is to be.
Status create_image(image::Writer& writer, const char* path, Message& why) {
  Status status = faults::failing(Fault::kWriterBegun);
  if (status) status = begin_seal(writer, why);
  if (status) status = writer.create(path);
  if (!status && !why.size) why << "cannot create " << path;
  return status;
}

/// Refuses what no section could save.
Status refuse_state(u32 job_pid, Message& why) {
  Status status = refuse_children(job_pid, sys::getpid(), why);
  if (status) status = refuse_lost_directory(why);
  if (status) status = refuse_other_credentials(job_pid, why);
  if (status) status = refuse_undone(why);
  return status;
}

/// Tells why there is no image: what was refused says so itself, an error has its number.
void tell_failure(i32 error, Message& why, SaveOutcome& outcome) {
  const bool refused = error == sys::kEperm || error == sys::kEagain;
  if (!refused) why << " (errno " << error << ")";
  if (error == sys::kEnospc) why << ": the disk is full";
  if (error == sys::kEfbig) why << ": the program has limited the size of files (RLIMIT_FSIZE)";
  fail(&outcome, error, why.data);
}

/// The child's whole life. Everything it touches is its own copy, but for the outcome page.
[[noreturn]] void write_image(const SaveRequest& request) {
  volunteer();  // before it takes any memory
  check_all_stand();
  end_with_rank();
  lift_limits();  // what the program has limited is its own affair
  static image::Writer writer;
  static Message why;
  SaveOutcome& outcome = outcome_page->outcome;
  Status status = create_image(writer, request.path, why);
  outcome_page->image_fd = writer.fd();
  fault(Fault::kWriterCreated);
  const u32 job_pid = u32(sys::call(SYS_getppid).value);
  if (status) status = refuse_state(job_pid, why);
  // Listing the mappings costs a walk over the page tables: the job waits for it only if it must.
  memory::look_for_shared_memory();
  const bool shares = memory::shared_memory_seen();
  const Saving saving{writer, request, job_pid, belongs_to_upper, why};
  if (status && shares) status = save_sections(Stage::kShared, saving);
  if (status) status = save_sections(Stage::kDescribed, saving);
  if (status) close_what_others_see(writer);
  else close_all_but_image();
  if (!status || !stands_still) tell_described();
  close_all_but_image();
  fault(Fault::kWriterDescribed);
  if (status && !shares) status = save_sections(Stage::kShared, saving);
  if (status) status = save_sections(Stage::kPages, saving);
  if (status) {
    status = writer.finish();
    if (!status) why << "cannot finish " << request.path;
  }
  if (stands_still) tell_described();
  if (!status) tell_failure(status.error, why, outcome);
  outcome.image_bytes = writer.file_bytes();
  outcome.image_crc = writer.header().header_crc;
  fault(Fault::kWriterFlushed);
  sys::exit_group(status ? 0 : 1);
}

/// True once the writer has ended; whoever waits for the image finds out how.
bool has_ended(u32 writer) {
  i32 info[32] = {};  // siginfo_t; stays zero while the child lives
  const Result<u64> got = sys::call(SYS_waitid, sys::kPPid, writer, sys::arg(info),
                                    sys::kWNoHang | sys::kWExited | sys::kWNoWait | sys::kWAll);
  return !got || info[0];
}

// Writers that nobody has waited for yet. One that is killed while its disk hangs ends late.
constexpr u32 kWriters = 64;
u32 writers[kWriters];

void change_writer(u32 from, u32 to) {
  for (u32& pid : writers) {
    if (pid != from) continue;
    pid = to;
    return;
  }
}

/// wait(2) without waiting. Returns `writer` if it has ended, 0 if it has not.
Result<u64> reap(u32 writer, i32* status) {
  const Result<u64> got =
      sys::call(SYS_wait4, writer, sys::arg(status), sys::kWNoHang | sys::kWAll);
  if (got ? got.value == writer : got.error != sys::kEintr) change_writer(writer, 0);
  return got;
}

void reap_old_writers() {
  i32 status = 0;
  for (const u32 pid : writers)
    if (pid) (void)reap(pid, &status);
}

/// Ends a save before there is a writer.
i32 refuse(SaveOutcome* outcome, i32 error, const char* message) {
  fail(outcome, error, message);
  release();
  return -error;
}

/// fork(2) without a libc and without SIGCHLD: the application must not see this child.
i64 fork_writer() { return arch::raw_syscall(SYS_clone, 0, 0, 0, 0, 0); }

}  // namespace

bool is_old_writer(u32 pid) {
  for (const u32 writer : writers)
    if (writer == pid) return true;
  return false;
}

u64 resume() {
  release();
  return sys::now_ns() - stopped_ns;
}

i32 save(const SaveRequest* request, SaveOutcome* outcome) {
  *outcome = {};
  const u64 begin = sys::now_ns();
  const u64 deadline = begin + u64(request->deadline_ms) * 1'000'000;
  if (!outcome_page) {
    const Result<u64> map = sys::mmap(0, kPageBytes, sys::kProtRead | sys::kProtWrite,
                                      sys::kMapShared | sys::kMapAnonymous);
    if (!map) return fail(outcome, map.error, "cannot map a page"), -map.error;
    outcome_page = reinterpret_cast<OutcomePage*>(map.value);
  }
  outcome_page->outcome = {};
  outcome_page->image_fd = -1;
  outcome_page->described = 0;
  const Status held = await_hold(deadline);
  if (!held) {
    fail(outcome, held.error, "the MPI thread did not come to the safe point in time");
    return -held.error;
  }
  fault(Fault::kSaveHeld);
  u32 late = 0;
  const Status stopped = quiesce(deadline, &late);
  if (!stopped) {
    Message why;
    why << "thread " << late << " did not stop in time";
    return refuse(outcome, stopped.error, why.data);
  }
  fault(Fault::kSaveStopped);
  if (!threads[0].hold_stack)
    return refuse(outcome, sys::kEperm, "MPI_Init was called by a thread other than the main one");
  const Room room = room_for_saving();
  if (room == Room::kNone)
    return refuse(outcome, sys::kEnobufs,
                  "the memory limit of its control group leaves no room for a writer of the image: "
                  "the kernel would kill the job");
  Message why;
  const Status taken = take_signals_and_timers(deadline, why);
  if (!taken) return refuse(outcome, taken.error, why.data);
  fault(Fault::kSaveTaken);
  const Status lifted = memory::lift_fork_advice(why);
  if (!lifted) return refuse(outcome, lifted.error, why.data);
  note_process_ids();
  reap_old_writers();
  stands_still = room == Room::kForWriter;
  image_path = {};
  image_path << request->path;
  const i64 child = fork_writer();
  if (child == 0) write_image(*request);
  if (child > 0) change_writer(0, u32(child));
  memory::renew_fork_advice();
  stopped_ns = begin;
  const bool much = memory::shared_memory_seen() || config.save_files[0] || stands_still;
  described_by_ns = much ? begin + kSharedWithinNs : deadline;
  if (child < 0) {
    release();
    fail(outcome, i32(-child), "cannot fork the image writer: memory may be short");
  }
  return i32(child);
}

i32 save_described(i32 writer, u32 timeout_ms) {
  u32& described = outcome_page->described;
  if (!__atomic_load_n(&described, __ATOMIC_ACQUIRE)) {
    sys::futex_wait_shared(&described, 0, u64(timeout_ms) * 1'000'000);
    if (!__atomic_load_n(&described, __ATOMIC_ACQUIRE) && !has_ended(u32(writer))) {
      if (sys::now_ns() < described_by_ns) return 0;
      (void)sys::call(SYS_kill, u64(writer), sys::kSigKill);
      fail(&outcome_page->outcome, sys::kEtimedout,
           "saving the contents of open files or shared memory took too long");
    }
  }
  return 1;
}

i32 save_finish(i32 writer, u32 timeout_ms, SaveOutcome* outcome) {
  const u64 deadline = sys::now_ns() + u64(timeout_ms) * 1'000'000;
  for (;;) {
    i32 status = 0;
    const Result<u64> got = reap(u32(writer), &status);
    if (!got && got.error != sys::kEintr) {
      fail(outcome, got.error, "the image writer is gone");
      return 1;
    }
    if (got && got.value == u64(writer)) {
      *outcome = outcome_page->outcome;
      constexpr i32 kSignal = 0x7f;  // of a status
      const i32 error = (status & kSignal) == sys::kSigKill ? sys::kEnomem : sys::kEio;
      if (status && !outcome->error) fail(outcome, error, "the image writer was killed");
      // Half an image in a file system of memory keeps the room that the job may need at once.
      if (status) (void)sys::call(SYS_unlink, sys::arg(image_path.data));
      return 1;
    }
    if (sys::now_ns() >= deadline) return 0;
    sys::sleep_ns(500'000);
  }
}

}  // namespace fermata::launch
