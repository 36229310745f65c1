// SPDX-License-Identifier: Apache-2.0
// The ids of the process, its parent, its group and its session.
//
// A program makes names of its process id, compares it with what it remembers (asyncio, Python's
// multiprocessing) and hands it to calls. A restart makes a new process; the application keeps the
// old ids, and in a restarted process the calls that take or tell one trap and are translated, here
// and in thread_ids.cpp. Until the first restart the kernel's ids are the application's and nothing
// traps. What a call tells of other processes stays as it is, and so does what they see.
//
// A number that the application knows as its own means the application, even if some other process
// goes by it now; only what waits for children asks for those. That of a kept thread or of a helper
// (helpers.cpp), which has a new id as well, may be a new child's: then a call that takes processes
// means the child, one that takes threads the thread. Forks of the process have the
// kernel's ids, know their parent by the kept one, and share these tables, as does a vfork child,
// whose memory this is: so nothing here is written to on behalf of another process.
#include "launcher/ids/process_ids.h"

#include <asm/unistd.h>
#include <linux/capability.h>

#include "base/text.h"
#include "image/reader.h"
#include "launcher/boundary/call_restart.h"
#include "launcher/ids/senders.h"
#include "launcher/ids/thread.h"
#include "launcher/ids/thread_ids.h"
#include "launcher/load/program.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

struct Ids {
  u32 process, parent, group, session;
};
Ids known;      // to the application
Ids real;       // the kernel's for each of them
Ids at_saving;  // what the application would be told just now; for the image

Ids of_kernel() {
  return {sys::getpid(), u32(sys::call(SYS_getppid).value), u32(sys::call(SYS_getpgid, 0).value),
          u32(sys::call(SYS_getsid, 0).value)};
}

u32 known_parent(u32 pid) {
  if (is_forked_child()) return known_process(pid);
  return pid == real.parent ? known.parent : pid;
}
u32 known_session(u32 id) {
  if (id == real.session) return known.session;
  return id == real.process ? known.process : id;
}

}  // namespace

void note_process_ids() {
  const Ids now = of_kernel();
  if (!ids_differ()) known = real = now;
  at_saving = {known.process, known_parent(now.parent), known_group(now.group),
               known_session(now.session)};
}

void save_process_ids(image::ImageHeader& out) {
  out.saved_pid = at_saving.process;
  out.parent = at_saving.parent;
  out.group = at_saving.group;
  out.session = at_saving.session;
}

void restore_process_ids(const image::ImageHeader& saved) {
  known = {saved.saved_pid, saved.parent, saved.group, saved.session};
  // A leader has made a session or group for itself, or its MPI has for every rank: kill(0) is not
  // to hit anybody else. If there is one already, the numbers alone must do.
  if (known.session == known.process) (void)sys::call(SYS_setsid);
  if (known.group == known.process) (void)sys::call(SYS_setpgid, 0, 0);
  real = of_kernel();
  adopt_saved_ids();
  tell_senders(real.process, known.process);
}

u32 known_process(u32 pid) {
  if (!ids_differ()) return pid;
  if (pid == real.process) return known.process;
  for (const HelperId* helper = helper_ids(); helper->real; helper++)
    if (helper->real == pid) return helper->known;
  return pid;
}

u32 known_group(u32 id) {
  if (id == real.group) return known.group;
  return id == real.process ? known.process : id;
}

namespace {

u64 helpers_began[kHelperCapacity];  // in the order of helper_ids()

u32 helper_count() {
  u32 count = 0;
  while (helper_ids()[count].real) count++;
  return count;
}

/// When a process began, in ticks since the boot; 0: there is none.
u64 beginning_of(u32 pid) {
  u64 began = 0;
  Text<32> path;
  path << "/proc/" << pid << "/stat";
  read_stat(path.data, 22, &began, 1);
  return began;
}

bool is_child(u32 id) {
  constexpr int kLook = sys::kWExited | sys::kWAll | sys::kWNoWait | sys::kWNoHang;
  u8 info[128];
  return bool(sys::call(SYS_waitid, sys::kPPid, id, sys::arg(info), kLook, 0));
}

/// The helper that the application knows by this id, if it has not been waited for; then its number
/// may come to be somebody else's.
const HelperId* find_helper(u32 id) {
  HelperId* const all = helper_ids();
  for (u32 i = 0; all[i].real; i++) {
    if (all[i].known != id) continue;
    if (beginning_of(all[i].real) == helpers_began[i]) return &all[i];
    forget_ended_helpers();
    return nullptr;
  }
  return nullptr;
}

/// For what waits for children, which takes no other ids.
u32 kernel_child(u32 id) {
  const HelperId* const helper = is_forked_child() ? nullptr : find_helper(id);
  return helper && !is_child(id) ? helper->real : id;
}

}  // namespace

void note_helper_id(u32 pid, u32 known_as) {
  HelperId* const all = helper_ids();
  const u32 count = helper_count();
  if (known_as == 0 || count == kHelperCapacity) return;
  helpers_began[count] = beginning_of(pid);
  all[count] = {pid, known_as};
}

void forget_ended_helpers() {
  static u32 busy = 0;
  if (is_forked_child() || __atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) return;
  HelperId* const all = helper_ids();
  u32 count = helper_count();
  for (u32 i = count; i-- > 0;) {
    if (beginning_of(all[i].real) == helpers_began[i]) continue;
    count--;
    all[i] = all[count];
    helpers_began[i] = helpers_began[count];
    all[count] = {0, 0};
  }
  __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

u32 kernel_process(u32 id) {
  if (!ids_differ() || id == 0) return id;
  const bool is_fork = is_forked_child();
  if (id == known.process) return is_fork && sys::getpid() == id ? id : real.process;
  if (const HelperId* const helper = find_helper(id))
    return is_child(id) ? id : helper->real;
  if (is_fork) return id;
  if (const Thread* const thread = find_thread_by_id(id))
    return thread->tid != id && is_child(id) ? id : thread->tid;
  const bool is_parent = id == known.parent && sys::call(SYS_getppid).value == real.parent;
  return is_parent ? real.parent : id;
}

u32 kernel_task(u32 id) {
  const u32 tid = kernel_tid(id);
  return tid != id ? tid : kernel_process(id);
}

u32 kernel_group(u32 id) {
  if (!ids_differ() || id == 0) return id;
  if (id == known.group) return real.group;
  return id == known.process ? real.process : id;
}

namespace {

/// As kill(2) and F_SETOWN take it.
u64 kernel_process_or_group(u64 id) {
  const i32 number = i32(id);
  if (number < -1) return u64(i64(-i32(kernel_group(u32(-number)))));
  return number > 0 ? kernel_process(u32(number)) : id;
}

u64 set_group(const u64 (&a)[6]) {
  const u32 target = a[0] ? kernel_process(u32(a[0])) : 0;
  const u64 result = pass_on(SYS_setpgid, {target, kernel_group(u32(a[1]))});
  const bool is_own = !is_forked_child() && (target == 0 || target == real.process);
  if (result != 0 || !is_own || !ids_differ()) return result;
  known.group = a[1] ? u32(a[1]) : known.process;
  real.group = u32(sys::call(SYS_getpgid, 0).value);
  return result;
}

/// The process may lead a group already, though the application does not know of it.
u64 begin_session() {
  const bool own = ids_differ() && !is_forked_child();
  if (own && known.group != known.process && real.group == real.process) {
    const Result<u64> other = sys::call(SYS_getpgid, real.parent);
    if (other) (void)sys::call(SYS_setpgid, 0, other.value);
  }
  const u64 result = pass_on(SYS_setsid, {});
  if (!own || i64(result) < 0) return known_group(u32(result));
  real.group = real.session = real.process;
  known.group = known.session = known.process;
  return known.process;
}

struct Owner {  // struct f_owner_ex
  i32 type, id;
};
struct Lock {  // struct flock
  i16 type, whence;
  i64 start, bytes;
  i32 pid;
};

u64 set_owner(const u64 (&a)[6]) {
  if (!is_readable(a[2], sizeof(Owner))) return pass_on(SYS_fcntl, a);
  Owner owner = *reinterpret_cast<const Owner*>(a[2]);
  owner.id = i32(owner.type == sys::kFOwnerPgrp  ? kernel_group(u32(owner.id))
                 : owner.type == sys::kFOwnerTid ? kernel_task(u32(owner.id))
                                           : kernel_process(u32(owner.id)));
  return pass_on(SYS_fcntl, {a[0], a[1], sys::arg(&owner)});
}

/// fcntl(2) where it takes or tells ids.
u64 control_descriptor(const u64 (&a)[6]) {
  if (a[1] == sys::kSetOwnerEx) return set_owner(a);
  const u64 argument = a[1] == sys::kSetOwner ? kernel_process_or_group(a[2]) : a[2];
  const u64 result = pass_on(SYS_fcntl, {a[0], a[1], argument});
  if (a[1] == sys::kGetOwner) {
    const i32 id = i32(result);
    if (id < -4095) return u64(i64(-i32(known_group(u32(-id)))));
    return id > 0 ? known_thread(u32(id)) : result;
  }
  if (result != 0) return result;
  if (a[1] == sys::kGetOwnerEx) {
    Owner& owner = *reinterpret_cast<Owner*>(a[2]);
    owner.id = i32(owner.type == sys::kFOwnerPgrp  ? known_group(u32(owner.id))
                   : owner.type == sys::kFOwnerTid ? known_thread(u32(owner.id))
                                             : known_process(u32(owner.id)));
  } else if (a[1] == sys::kGetLock || a[1] == sys::kGetDescriptionLock) {
    Lock& lock = *reinterpret_cast<Lock*>(a[2]);
    if (lock.type != sys::kFUnlck) lock.pid = i32(known_process(u32(lock.pid)));
  }
  return result;
}

/// SO_PEERCRED: who made a pair of sockets. Other levels have other options of this number.
u64 tell_peer(const u64 (&a)[6]) {
  const u64 result = pass_on(SYS_getsockopt, a);
  if (result != 0 || u32(a[1]) != sys::kSolSocket) return result;
  if (*reinterpret_cast<const u32*>(a[4]) >= sizeof(u32)) {
    u32& pid = *reinterpret_cast<u32*>(a[3]);
    pid = known_process(pid);
  }
  return result;
}

u64 control_capabilities(u64 number, const u64 (&a)[6]) {
  using Header = __user_cap_header_struct;
  if (!is_readable(a[0], sizeof(Header))) return pass_on(number, a);
  Header* const given = reinterpret_cast<Header*>(a[0]);
  Header header = *given;
  header.pid = int(kernel_task(u32(header.pid)));
  const u64 result = pass_on(number, {sys::arg(&header), a[1]});
  if (header.version != given->version) given->version = header.version;
  return result;
}

u64 control_by_kind(u64 number, const u64 (&a)[6], u64 of_process, u64 of_group) {
  u64 id = a[1];
  if (a[0] == of_process) id = kernel_task(u32(id));
  else if (a[0] == of_group && id) id = kernel_group(u32(id));
  return pass_on(number, {a[0], id, a[2]});
}

/// To a thread of a process.
u64 send_to_thread(u64 number, const u64 (&a)[6]) {
  const u32 process = kernel_process(u32(a[0]));
  const u32 thread = process == real.process || !ids_differ() ? kernel_tid(u32(a[1])) : u32(a[1]);
  return pass_on(number, {process, thread, a[2], a[3]});
}

/// getpgid(2) and getsid(2).
u64 tell_group_or_session(u64 number, const u64 (&a)[6]) {
  const i64 result = i64(pass_on(number, {kernel_process(u32(a[0]))}));
  if (result < 0) return u64(result);
  return number == SYS_getpgid ? known_group(u32(result)) : known_session(u32(result));
}

/// What takes ids and tells none: they are all that is translated.
u64 pass_on_named(u64 number, const u64 (&arguments)[6]) {
  u64 a[6];
  __builtin_memcpy(a, arguments, sizeof a);
  switch (number) {
    case SYS_kill: a[0] = kernel_process_or_group(a[0]); break;
    case SYS_kcmp:
      a[0] = kernel_process(u32(a[0]));
      a[1] = kernel_process(u32(a[1]));
      break;
    case SYS_clock_getres: a[0] = kernel_clock(a[0]); break;
    case SYS_tkill:
    case SYS_sched_getaffinity:
    case SYS_sched_rr_get_interval:
    case SYS_sched_setscheduler:
    case SYS_sched_getscheduler:
    case SYS_sched_setparam:
    case SYS_sched_getparam:
    case SYS_sched_setattr:
    case SYS_sched_getattr:
    case SYS_get_robust_list:
    case SYS_prlimit64:
    case SYS_move_pages:
    case SYS_migrate_pages: a[0] = kernel_task(u32(a[0])); break;
    case SYS_perf_event_open: a[1] = kernel_task(u32(a[1])); break;
    case SYS_ptrace: a[1] = kernel_process(u32(a[1])); break;
    default: a[0] = kernel_process(u32(a[0]));
  }
  return pass_on(number, a);
}

}  // namespace

u64 trap_waiting_call(u64 number, UserContext* context) {
  const u64 result = restart_trapped_call(number, context);
  forget_ended_helpers();
  name_awaited(number, context->rdi, context->rsi);
  return result;
}

void name_awaited(u64 number, u64& first, u64& second) {
  const i32 id = i32(first);
  if (number == SYS_wait4 && id > 0) first = kernel_child(u32(id));
  else if (number == SYS_wait4 && id < -1) first = u64(i64(-i32(kernel_group(u32(-id)))));
  else if (number == SYS_waitid && first == sys::kPPid) second = kernel_child(u32(second));
  else if (number == SYS_waitid && first == sys::kPPgid && second)
    second = kernel_group(u32(second));
}

u64 trap_id_call(u64 number, const u64 (&a)[6]) {
  switch (number) {
    case SYS_getpid: return known_process(sys::getpid());
    case SYS_gettid: return known_thread(sys::gettid());
    case SYS_getppid: return known_parent(u32(sys::call(SYS_getppid).value));
    case SYS_getpgrp: return known_group(u32(sys::call(SYS_getpgid, 0).value));
    case SYS_getpgid:
    case SYS_getsid: return tell_group_or_session(number, a);
    case SYS_setpgid: return set_group(a);
    case SYS_setsid: return begin_session();
    case SYS_fcntl: return control_descriptor(a);
    case SYS_getsockopt: return tell_peer(a);
    case SYS_capget:
    case SYS_capset: return control_capabilities(number, a);
    case SYS_getpriority:
    case SYS_setpriority:
      return control_by_kind(number, a, sys::kPrioProcess, sys::kPrioPgrp);
    case SYS_ioprio_get:
    case SYS_ioprio_set:
      return control_by_kind(number, a, sys::kIoPrioWhoProcess, sys::kIoPrioWhoPgrp);
    case SYS_tgkill:
    case SYS_rt_tgsigqueueinfo: return send_to_thread(number, a);
    default: return pass_on_named(number, a);
  }
}

}  // namespace fermata::launch
