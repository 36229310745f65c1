// SPDX-License-Identifier: Apache-2.0
#include "launcher/image/saved_threads.h"

#include "arch/x86_64/context.h"
#include "halves/crossing.h"
#include "launcher/boundary/guest.h"
#include "launcher/config.h"
#include "launcher/ids/thread.h"
#include "launcher/process/limits.h"
#include "launcher/process/settings.h"
#include "launcher/threads/affinity.h"
#include "launcher/threads/pending.h"
#include "launcher/threads/scheduling.h"
#include "launcher/threads/syscall_restart.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

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
  await_late_limits();
  if (!(saved.flags & kBareThread))
    reinterpret_cast<Gate*>(saved.fs_base + u64(shared.gate_offset))->attention |= kGateNew;
  UserContext* const frame = reinterpret_cast<UserContext*>(saved.frame);
  shift_restarted_call(frame);
  return_signals();
  settle_restarted_call(frame);
  arch::fermata_sigreturn_to(saved.frame);
}

void create_threads(const image::Reader& reader) {
  constexpr u64 kFlags = sys::kCloneVm | sys::kCloneFs | sys::kCloneFiles | sys::kCloneSighand |
                         sys::kCloneThread | sys::kCloneSysvSem | sys::kCloneSetTls;
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
        saved.clear_tid ? kFlags | sys::kCloneChildClearTid : kFlags, stack, 0, saved.clear_tid,
        saved.fs_base, restored_thread, copy);
    if (tid < 0) die("cannot recreate a thread", reader.string(0), i32(-tid), "check `ulimit -u`");
    thread.tid = u32(tid);
    thread.id = saved.tid;
    thread.clear_tid = saved.clear_tid;
    thread.bare = saved.flags & kBareThread;
    thread.state = ThreadState::kLive;
  }
}

}  // namespace

void save_threads(image::Writer& writer, u32 job_pid) {
  const u32 chosen = chosen_settings(job_pid);
  for (const Thread& thread : threads) {
    if (!stands(thread)) continue;
    image::ImageThread* out = writer.threads.add();
    const UserContext* frame = reinterpret_cast<const UserContext*>(thread.frame);
    *out = {};
    out->frame = thread.frame;
    out->hold_stack = thread.hold_stack;
    out->fs_base = thread.fs_base;
    out->clear_tid = thread.clear_tid;
    out->robust_list = thread.robust_list;
    out->robust_bytes = thread.robust_bytes;
    out->tid = thread.id;
    out->flags = (&thread == &threads[0] ? 1 : 0) | (thread.bare ? kBareThread : 0);
    out->altstack = frame->stack_base;
    out->altstack_bytes = frame->stack_bytes;
    out->altstack_flags = u64(u32(frame->stack_flags));
    save_affinity(thread, *out);
    save_scheduling(thread, job_pid, *out);
    save_thread_settings(thread, chosen, writer, *out);
    if (thread.hold_stack) writer.header().main_thread = u32(writer.threads.count - 1);
  }
}

void restore_threads(const image::Reader& reader) {
  const image::ImageThread& main = reader.threads[reader.header->main_thread];
  Thread& self = threads[0];
  self.id = main.tid;
  self.clear_tid = main.clear_tid;
  (void)sys::call(SYS_set_tid_address, main.clear_tid);
  if (main.robust_list) (void)sys::call(SYS_set_robust_list, main.robust_list, main.robust_bytes);
  create_threads(reader);
}

void resume_main_thread(const image::ImageThread& saved) {
  shift_restarted_call(reinterpret_cast<UserContext*>(saved.frame));
  arch::write_fs_base(saved.fs_base);
  arch::fermata_hold_resume(saved.hold_stack);
}

}  // namespace fermata::launch
