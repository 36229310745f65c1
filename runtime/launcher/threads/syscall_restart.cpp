// SPDX-License-Identifier: Apache-2.0
// A checkpoint must not be visible, but the quiesce signal makes some blocking system calls return
// EINTR even under SA_RESTART (signal(7)): sleeps, polls, waits with a timeout. Such a call is
// restarted, as the kernel does it where it can: it is made again, with what is left of its
// timeout, from the code of boundary/call_restart.h. It works alike in this process and after a
// restart of the job, where the thread begins in that code.
//
// The kernel does not say in the frame which call it interrupted. The agent looks that up in /proc
// just before it sends the signal; the handler believes it if instruction, stack and arguments
// agree, and otherwise reads the number from the instruction before (mov $number,%eax; syscall).
//
// Other calls return what they have moved so far: a write of more than a pipe holds, a recv with
// MSG_WAITALL. They are restarted for the rest, and the caller gets the sum. A handler's signal
// ends such a call with what it has moved, even under SA_RESTART; a fresh call for the rest would
// begin again instead. So the thread first waits for room, or for data, by poll(2), which every
// handler ends, and makes the call when it will move something.
#include "launcher/threads/syscall_restart.h"

#include <asm/unistd.h>

#include "base/text.h"
#include "halves/layout.h"
#include "launcher/boundary/call_restart.h"
#include "launcher/ids/process_ids.h"
#include "launcher/patch/vdso.h"
#include "launcher/threads/clocks.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

using sys::to_ns, sys::to_spec;

constexpr u64 kInterrupted = u64(-i64(sys::kEintr));

enum class Timeout : u8 {
  kNone,          // waits for ever, or the kernel keeps what is left where the call will find it
  kSpec,          // struct timespec, relative
  kSpecWithRest,  // likewise, and the next argument says where the kernel put what is left
  kMilliseconds,
  kDeadline,      // struct timespec, absolute
  kReceive,       // SO_RCVTIMEO of a socket: the kernel does not tell what is left of it
  kSend,          // SO_SNDTIMEO
};
struct Blocking {
  u16 number;
  Timeout timeout;
  u8 argument;  // index of the timeout
};
constexpr Blocking kBlocking[] = {
    {__NR_nanosleep, Timeout::kSpecWithRest, 0}, {__NR_clock_nanosleep, Timeout::kSpecWithRest, 2},
    {__NR_poll, Timeout::kMilliseconds, 2},      {__NR_ppoll, Timeout::kNone, 0},
    {__NR_select, Timeout::kNone, 0},            {__NR_pselect6, Timeout::kNone, 0},
    {__NR_epoll_wait, Timeout::kMilliseconds, 3}, {__NR_epoll_pwait, Timeout::kMilliseconds, 3},
    {__NR_epoll_pwait2, Timeout::kSpec, 3},      {__NR_futex, Timeout::kSpec, 3},
    {__NR_pause, Timeout::kNone, 0},             {__NR_rt_sigsuspend, Timeout::kNone, 0},
    {__NR_rt_sigtimedwait, Timeout::kSpec, 2},   {__NR_semop, Timeout::kNone, 0},
    {__NR_semtimedop, Timeout::kSpec, 3},        {__NR_msgrcv, Timeout::kNone, 0},
    {__NR_msgsnd, Timeout::kNone, 0},            {__NR_io_getevents, Timeout::kSpec, 4},
    {__NR_read, Timeout::kReceive, 0},           {__NR_readv, Timeout::kReceive, 0},
    {__NR_recvfrom, Timeout::kReceive, 0},       {__NR_recvmsg, Timeout::kReceive, 0},
    {__NR_recvmmsg, Timeout::kReceive, 0},       {__NR_accept, Timeout::kReceive, 0},
    {__NR_accept4, Timeout::kReceive, 0},        {__NR_connect, Timeout::kSend, 0},
    {__NR_write, Timeout::kSend, 0},             {__NR_writev, Timeout::kSend, 0},
    {__NR_sendto, Timeout::kSend, 0},            {__NR_sendmsg, Timeout::kSend, 0},
    {__NR_sendmmsg, Timeout::kSend, 0},
};

const Blocking* find_blocking(u64 number) {
  for (const Blocking& call : kBlocking)
    if (call.number == number) return &call;
  return nullptr;
}

u64* argument(UserContext* frame, u32 index) {
  u64* const registers[6] = {&frame->rdi, &frame->rsi, &frame->rdx,
                             &frame->r10, &frame->r8,  &frame->r9};
  return registers[index];
}

/// What sort of timeout this very call has: futex and clock_nanosleep come in two.
Timeout timeout_of(const Blocking& call, UserContext* frame) {
  if (call.number == __NR_clock_nanosleep && (frame->rsi & sys::kTimerAbstime))
    return Timeout::kDeadline;
  if (call.number != __NR_futex) return call.timeout;
  return (frame->rsi & FUTEX_CMD_MASK) == FUTEX_WAIT ? Timeout::kSpec : Timeout::kDeadline;
}

bool is_of_socket(Timeout timeout) {
  return timeout == Timeout::kReceive || timeout == Timeout::kSend;
}

/// SO_RCVTIMEO or SO_SNDTIMEO; 0: none, or no socket.
u64 socket_timeout_ns(Timeout timeout, u64 fd) {
  i64 limit[2] = {0, 0};  // struct timeval
  u32 bytes = sizeof limit;
  const int option = timeout == Timeout::kReceive ? sys::kSoRcvTimeo : sys::kSoSndTimeo;
  const bool known = bool(sys::call(SYS_getsockopt, fd, sys::kSolSocket, option, sys::arg(limit),
                                    sys::arg(&bytes)));
  return known ? u64(limit[0]) * 1'000'000'000 + u64(limit[1]) * 1000 : 0;
}

bool same_call(UserContext* frame, const CallSample& sample) {
  for (u32 i = 0; i < 6; i++)
    if (*argument(frame, i) != sample.arguments[i]) return false;
  return frame->rip == sample.instruction && frame->rsp == sample.stack;
}

/// The number of the call that the frame has just come out of, or kUnknownCall.
u64 interrupted_number(UserContext* frame, const CallSample* sample) {
  const bool known = sample && sample->number != kUnknownCall &&
                     sample->number != __NR_restart_syscall && same_call(frame, *sample);
  if (known) return sample->number;
  const u8* const code = reinterpret_cast<const u8*>(frame->rip);
  // Code need not be readable; but here a system call has left its end in rcx (not with FRED).
  if (frame->rcx != frame->rip) return kUnknownCall;
  if (page_floor(frame->rip - 2) != page_floor(frame->rip)) return kUnknownCall;
  if (code[-2] != 0x0f || code[-1] != 0x05) return kUnknownCall;
  if (page_floor(frame->rip - 7) != page_floor(frame->rip - 2) || code[-7] != 0xb8)
    return kUnknownCall;
  return u64(code[-6]) | u64(code[-5]) << 8;
}


void set_scratch(RestartBlock& call, const sys::TimeSpec& time) {
  call.scratch[0] = u64(time.seconds);
  call.scratch[1] = u64(time.nanoseconds);
}

/// Replaces the timeout of a call that is about to be made once more by what is left of it. How
/// long it has waited the first time nobody can say, unless the kernel does: then it starts anew.
void renew_timeout(RestartBlock& call, const Blocking& kind, UserContext* frame) {
  u64* const value = argument(frame, kind.argument);
  const Timeout timeout = timeout_of(kind, frame);
  u64 left;
  switch (timeout) {
    case Timeout::kNone:
    case Timeout::kDeadline: return;
    case Timeout::kReceive:
    case Timeout::kSend:
      left = socket_timeout_ns(timeout, call.rdi);
      if (left && call.deadline_ns == 0) call.deadline_ns = call.began_ns + left;
      return;
    case Timeout::kMilliseconds:
      if (i32(*value) <= 0) return;
      left = u64(*value) * 1'000'000;
      break;
    default:
      if (*value == 0) return;
      left = to_ns(*reinterpret_cast<const sys::TimeSpec*>(*value));
      if (timeout == Timeout::kSpecWithRest)
        if (const u64 rest = *argument(frame, kind.argument + 1))
          left = to_ns(*reinterpret_cast<const sys::TimeSpec*>(rest));
  }
  if (call.deadline_ns == 0) call.deadline_ns = call.began_ns + left;
  const u64 rest = call.deadline_ns > call.began_ns ? call.deadline_ns - call.began_ns : 0;
  if (rest < left) left = rest;
  if (timeout == Timeout::kMilliseconds) {
    *value = (left + 999'999) / 1'000'000;
    return;
  }
  set_scratch(call, to_spec(left));
  *value = sys::arg(call.scratch);
}

struct Part {  // struct iovec
  u64 base, bytes;
};

/// The first part of a writev that is not done after `moved` bytes; that is taken off `moved`.
const Part* first_left(UserContext* frame, u64& moved) {
  const Part* part = reinterpret_cast<const Part*>(frame->rsi);
  const Part* const end = part + frame->rdx;
  for (; part < end && moved >= part->bytes; part++) moved -= part->bytes;
  return part < end ? part : nullptr;
}

/// Whether a socket has no messages, so that one receive can continue where another one has ended.
bool is_stream(u64 fd) {
  i32 type = 0;
  u32 bytes = sizeof type;
  return sys::call(SYS_getsockopt, fd, sys::kSolSocket, sys::kSoType, sys::arg(&type),
                   sys::arg(&bytes)) &&
         type == sys::kSockStream;
}

/// Whether a transfer has moved less than it was to, though it could have waited for the rest: into
/// a pipe or a socket, out of a socket with MSG_WAITALL, out of getrandom(2).
bool was_cut_short(u64 number, UserContext* frame) {
  const u64 moved = frame->rax;
  u64 rest = moved;
  if (i64(moved) <= 0) return false;
  switch (number) {
    case __NR_getrandom: return moved < frame->rsi;
    case __NR_sendfile: return moved < frame->r10;
    case __NR_recvfrom:
      return moved < frame->rdx && !(frame->r10 & sys::kMsgPeek) &&
             frame->r10 & sys::kMsgWaitAll && is_stream(frame->rdi);
    case __NR_sendto: return moved < frame->rdx;
    case __NR_writev: {
      const Part* const part = first_left(frame, rest);
      const Part* const end = reinterpret_cast<const Part*>(frame->rsi) + frame->rdx;
      if (!part || end - part > 2) return false;  // there is room for two
      break;
    }
    case __NR_write:
      if (moved >= frame->rdx) return false;
      break;
    default: return false;
  }
  sys::KernelStat info;
  if (!sys::fstat(int(frame->rdi), &info)) return false;
  const u32 type = info.mode & sys::kTypeMask;
  return type == sys::kTypeFifo || type == sys::kTypeSocket;
}

/// Changes the arguments to those of the rest.
void move_on(RestartBlock& call, UserContext* frame) {
  u64 moved = frame->rax;
  call.moved += moved;
  if (call.number == __NR_getrandom) {
    frame->rdi += moved;
    frame->rsi -= moved;
  } else if (call.number == __NR_sendfile) {
    frame->r10 -= moved;
  } else if (call.number == __NR_writev) {
    const Part* const end = reinterpret_cast<const Part*>(frame->rsi) + frame->rdx;
    const Part* const part = first_left(frame, moved);
    const Part first = {part->base + moved, part->bytes - moved};
    const Part second = part + 1 < end ? part[1] : Part{};
    call.scratch[0] = first.base, call.scratch[1] = first.bytes;
    call.scratch[2] = second.base, call.scratch[3] = second.bytes;
    frame->rsi = sys::arg(call.scratch);
    frame->rdx = u64(end - part);
  } else {
    frame->rsi += moved;
    frame->rdx -= moved;
  }
}

/// Waits until the rest of a transfer can move. What has a time limit ends by EINTR as it is.
void wait_for_rest(RestartBlock& call, UserContext* frame) {
  const bool receives = call.number == __NR_recvfrom;
  const Timeout limit = receives ? Timeout::kReceive : Timeout::kSend;
  if (call.number == __NR_getrandom || socket_timeout_ns(limit, call.rdi)) return;
  const u64 events = receives ? sys::kPollIn : sys::kPollOut;
  call.deadline_ns = u64(u32(call.rdi)) | events << 32;  // a pollfd
  frame->r8 = frame->rsi;
  frame->r9 = frame->rdx;
  frame->rdi = sys::arg(&call.deadline_ns);
  frame->rsi = 1;
  frame->rdx = ~u64(0);
  frame->rax = __NR_poll;
  frame->rip = wait_address;
}

/// A thread that waits for the rest of its transfer, or is about to make the call, waits again.
bool stands_in_rest(UserContext* frame) {
  if (frame->rip == waited_address || frame->rip == wait_address) {
    const bool again = frame->rip == wait_address || frame->rax == kInterrupted;
    if (!again || restart_block(frame)->number == kUnknownCall) return true;
    frame->rax = __NR_poll;
    frame->rip = wait_address;
    return true;
  }
  if (frame->rip != restart_address) return false;
  if (restart_block(frame)->moved) wait_for_rest(*restart_block(frame), frame);
  return true;
}

/// Its time was over before it was interrupted: it ends as it would have then.
bool is_over(const RestartBlock& call, Timeout timeout, UserContext* frame) {
  if (!is_of_socket(timeout)) return false;
  if (call.deadline_ns == 0 || call.began_ns < call.deadline_ns) return false;
  frame->rax = u64(call.number == __NR_connect ? -sys::kEinprogress : -i64(sys::kEagain));
  return true;
}

}  // namespace

void sample_call(Thread& thread) {
  Path path;
  path << "/proc/self/task/" << thread.tid << "/syscall";
  char text[256];
  (void)sys::read_text(path.data, text, sizeof text);
  // "running" (then what it said before may hold: the thread may have been asked already), or
  // "number 0x.. (six arguments) 0x<sp> 0x<pc>".
  if (text[0] < '0' || text[0] > '9') return;
  const char* at = text;
  const u64 number = parse_decimal(at);
  u64 words[8] = {};
  for (u64& word : words) {
    if (at[0] != ' ' || at[1] != '0' || at[2] != 'x') return;
    at += 3;
    word = parse_hex(at);
  }
  __builtin_memcpy(thread.sample.arguments, words, sizeof thread.sample.arguments);
  thread.sample.stack = words[6];
  thread.sample.instruction = words[7];
  thread.sample.number = number;
}

void restart_call(UserContext* frame, const CallSample* sample) {
  const i64 result = i64(frame->rax);
  const bool interrupted = frame->rax == kInterrupted;
  if (restart_address == 0 || stands_in_rest(frame)) return;
  if ((!interrupted && result <= 0) || in_lower(frame->rip)) return;
  RestartBlock* call = nullptr;
  if (frame->rip == restarted_address) call = restart_block(frame);
  const u64 number = call ? call->number : interrupted_number(frame, sample);
  const Blocking* const kind = find_blocking(number);
  if (interrupted ? !kind : !was_cut_short(number, frame)) return;
  const bool of_socket = kind && is_of_socket(kind->timeout);
  // Without a timeout these begin again by themselves; EINTR is then some driver's answer.
  if (interrupted && !call && of_socket && !socket_timeout_ns(kind->timeout, frame->rdi)) return;
  if (!call) call = begin_restart(frame, number);
  call->began_ns = sys::now_ns();
  if (interrupted && is_over(*call, kind->timeout, frame)) return;
  if (interrupted) renew_timeout(*call, *kind, frame);
  else move_on(*call, frame);
  frame->rax = number;
  frame->rip = restart_address;
  if (!interrupted) wait_for_rest(*call, frame);
}

void settle_restarted_call(UserContext* frame) {
  const bool waits = frame->rip == wait_address;
  if (restart_address == 0 || (frame->rip != restart_address && !waits)) return;
  u64 pending = 0;
  (void)sys::call(SYS_rt_sigpending, sys::arg(&pending), sizeof pending);
  pending &= ~frame->mask & ~kOurSignals;
  for (int signal = 1; signal <= 64; signal++) {
    sys::KernelAction action;
    if (!(pending & sys::signal_bit(signal)) || !sys::sigaction(signal, nullptr, &action)) continue;
    if (action.handler <= 1) continue;
    frame->rip = waits ? waited_address : restarted_address;
    frame->rax = kInterrupted;
    restart_block(frame)->number = kUnknownCall;  // not even if the quiesce signal comes first
    return;
  }
}

void shift_restarted_call(UserContext* frame) {
  if (frame->rip != restart_address) return;
  RestartBlock& call = *restart_block(frame);
  if (call.number == __NR_wait4 || call.number == __NR_waitid) {
    frame->rdi = call.rdi;
    frame->rsi = call.rsi;
    name_awaited(call.number, frame->rdi, frame->rsi);
  }
  const u64 now = sys::now_ns(), then = call.began_ns;
  if (call.deadline_ns) call.deadline_ns += now - then;
  call.began_ns = now;
  const Blocking* const kind = find_blocking(call.number);
  if (!kind || timeout_of(*kind, frame) != Timeout::kDeadline) return;
  u64* const value = argument(frame, kind->argument);
  if (call.number == __NR_clock_nanosleep && is_boot_clock(frame->rdi)) {
    set_scratch(call, to_new_boot_clock(*reinterpret_cast<const sys::TimeSpec*>(*value)));
    *value = sys::arg(call.scratch);
    return;
  }
  const bool of_futex = call.number == __NR_futex;
  const bool on_monotonic = of_futex ? !(frame->rsi & FUTEX_CLOCK_REALTIME) &&
                                           (frame->rsi & FUTEX_CMD_MASK) != FUTEX_LOCK_PI
                                     : frame->rdi == sys::kClockMonotonic;
  if (*value == 0 || !on_monotonic) return;
  set_scratch(call, to_spec(to_ns(*reinterpret_cast<const sys::TimeSpec*>(*value)) + now - then));
  *value = sys::arg(call.scratch);
}

}  // namespace fermata::launch
