// SPDX-License-Identifier: Apache-2.0
// What a process has told the kernel about itself, beside limits and scheduling: what it has
// registered with membarrier(2), how ready it is to be killed when memory is short, what goes into
// a core dump, on which nodes its memory is to be and with what priority it reads and writes. What
// it was given by its surroundings it is given at a restart again, unless it, or a wrapper such as
// numactl, has chosen. The bits of what was chosen go with an exec, and stay over restarts.
#include "launcher/process/settings.h"

#include "base/text.h"
#include "image/reader.h"
#include "memory/policy.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

using memory::Policy;
using memory::PolicyText;

constexpr u32 kChoseScore = 4, kChoseFilter = 8, kChosePolicy = 16, kChoseIo = 32;  // header.traits
constexpr u32 kIoPriorityKnown = 1u << 31;  // ImageThread::io_priority
constexpr const char *kScore = "oom_score_adj", *kFilter = "coredump_filter";

i64 first_score, first_filter;
Policy first_policy;
u32 first_io_priority;
u32 chosen;
Policy policies[kThreadCapacity];  // by thread, as it last saw its own, or is to have
bool policies_known;               // they are to be had

i64 read_number(u32 pid, const char* name, bool in_hexadecimal) {
  char text[32];
  Text<64> path;
  path << "/proc/" << pid << "/" << name;
  (void)sys::read_text(path.data, text, sizeof text);
  const bool negative = text[0] == '-';
  const char* at = text + negative;
  const i64 value = i64(in_hexadecimal ? parse_hex(at) : parse_decimal(at));
  return negative ? -value : value;
}

bool write_text(const char* name, const char* text) {
  Text<64> path;
  path << "/proc/self/" << name;
  const Result<u64> file = sys::open(path.data, sys::kWriteOnly | sys::kCloseOnExec);
  const bool written = file && sys::write(int(file.value), text, text_length(text));
  if (file) (void)sys::close(int(file.value));
  return written;
}

u32 io_priority(u32 tid) {
  return u32(sys::call(SYS_ioprio_get, sys::kIoPrioWhoProcess, tid).value);
}

/// Bits of what differs from what the process was started with, or did before.
u32 choices(i64 score, i64 filter, u32 io, const Policy& policy) {
  u32 found = chosen;
  if (score != first_score) found |= kChoseScore;
  if (filter != first_filter) found |= kChoseFilter;
  if (io != first_io_priority) found |= kChoseIo;
  if (!(policy == first_policy)) found |= kChosePolicy;
  return found;
}

bool try_barrier(u64 command) { return bool(sys::call(SYS_membarrier, command, 0, 0)); }

/// MEMBARRIER_CMD_REGISTER_*. Before Linux 6.3 the kernel does not say; but a barrier of a private
/// kind is made only for who has registered, and the global kind, whose registration shows in no
/// answer, does no harm to who had not.
u32 registered_barriers() {
  const Result<u64> known = sys::call(SYS_membarrier, sys::kMembarrierCmdGetRegistrations, 0, 0);
  if (known) return u32(known.value);
  u32 found = sys::kMembarrierCmdRegisterGlobalExpedited;
  constexpr u64 kinds[] = {sys::kMembarrierCmdPrivateExpedited,
                           sys::kMembarrierCmdPrivateExpeditedSyncCore,
                           sys::kMembarrierCmdPrivateExpeditedRseq};
  for (const u64 kind : kinds)
    if (try_barrier(kind)) found |= u32(kind) << 1;
  return found;
}

void say_lost(const char* what) {
  Message note;
  note << "fermata: the program had chosen " << what << ", which is not allowed here\n";
  sys::say(note.data);
}

}  // namespace

void volunteer() { (void)write_text(kScore, "1000"); }

void note_settings(u32 chosen_before) {
  const u32 pid = sys::getpid();
  first_score = read_number(pid, kScore, false);
  first_filter = read_number(pid, kFilter, true);
  first_policy = memory::policy_of();
  first_io_priority = io_priority(0);
  chosen = chosen_before;
}

u32 changed_settings() {
  const u32 pid = sys::getpid();
  return choices(read_number(pid, kScore, false), read_number(pid, kFilter, true),
                 io_priority(0), memory::policy_of());
}

void note_own_settings(const Thread& thread) {
  policies[&thread - threads] = memory::policy_of();
}

u32 chosen_settings(u32 pid) {
  const i64 score = read_number(pid, kScore, false), filter = read_number(pid, kFilter, true);
  u32 found = choices(score, filter, first_io_priority, first_policy);
  for (const Thread& thread : threads) {
    if (!stands(thread)) continue;
    if (io_priority(thread.tid) != first_io_priority) found |= kChoseIo;
    if (!(policies[&thread - threads] == first_policy)) found |= kChosePolicy;
  }
  return found;
}

void save_settings(image::ImageHeader& out, u32 pid) {
  out.membarriers = registered_barriers();
  out.oom_score_adj = i32(read_number(pid, kScore, false));
  out.coredump_filter = u32(read_number(pid, kFilter, true));
  out.traits |= chosen_settings(pid);
}

void save_thread_settings(const Thread& thread, u32 found, image::Writer& writer,
                          image::ImageThread& out) {
  if (found & kChoseIo) out.io_priority = io_priority(thread.tid) | kIoPriorityKnown;
  if (!(found & kChosePolicy)) return;
  PolicyText text;
  memory::write_policy(policies[&thread - threads], text);
  out.memory_policy_string = writer.string(text.data);
}

void restore_settings(const image::ImageHeader& saved) {
  for (u32 bit = 1; bit; bit <<= 1)
    if (saved.membarriers & bit) (void)try_barrier(bit);
  chosen = saved.traits & (kChoseScore | kChoseFilter | kChosePolicy | kChoseIo);
  if (chosen & kChoseScore) {
    Text<32> text;
    text << saved.oom_score_adj;
    if (!write_text(kScore, text.data)) say_lost(kScore);
  }
  if (chosen & kChoseFilter) {
    Text<32> text;
    text << Hex{saved.coredump_filter};
    if (!write_text(kFilter, text.data)) say_lost(kFilter);
  }
}

void prepare_thread_settings(const Thread& thread, const char* policy) {
  if (!policy[0]) return;
  policies[&thread - threads] = memory::read_policy(policy);
  policies_known = true;
}

void restore_thread_settings(const Thread& thread, const image::ImageThread& saved) {
  const u64 priority = saved.io_priority & ~kIoPriorityKnown;
  if (saved.io_priority && !sys::call(SYS_ioprio_set, sys::kIoPrioWhoProcess, 0, priority))
    say_lost("an I/O priority");
  if (policies_known && !memory::set_policy(policies[&thread - threads]))
    say_lost("a memory policy");
}

}  // namespace fermata::launch
