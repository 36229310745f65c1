// SPDX-License-Identifier: Apache-2.0
// Calls that take a signal mask (sigsuspend, ppoll, ...) trap, for the mask must not keep our
// signals out, and others because they wait for an id or a time that has to be translated.
#include "launcher/boundary/call_restart.h"

#include <asm/unistd.h>

#include "launcher/patch/vdso.h"

namespace fermata::launch {
namespace {

// Places in RestartBlock::scratch of a call with a mask: what a timeout does not need.
enum { kMask = 2, kHeld = 3 };  // kHeld: what the mask has beyond what the program wants

/// The register that points at the mask; of pselect6 at what points at it. Null: there is none.
u64* mask_register(u64 number, UserContext* context) {
  switch (number) {
    case __NR_rt_sigsuspend:
    case __NR_rt_sigtimedwait: return &context->rdi;
    case __NR_ppoll: return &context->r10;
    case __NR_epoll_pwait:
    case __NR_epoll_pwait2: return &context->r8;
    case __NR_pselect6: return &context->r9;
    default: return nullptr;
  }
}

void hold(RestartBlock& call, u64 held) {
  const u64 wanted = call.scratch[kMask] & ~call.scratch[kHeld];
  // What waits for signals waits for them, held or not.
  call.scratch[kHeld] = call.number == __NR_rt_sigtimedwait ? 0 : held & ~wanted;
  call.scratch[kMask] = wanted | call.scratch[kHeld];
}

}  // namespace

static_assert(sizeof(RestartBlock) <= sys::kSiMaxSize);

RestartBlock* restart_block(UserContext* frame) {
  return reinterpret_cast<RestartBlock*>(frame->rsp);
}

RestartBlock* begin_restart(UserContext* frame, u64 number) {
  RestartBlock* const call = reinterpret_cast<RestartBlock*>(frame + 1);
  *call = {number,     0,          0,         {},        frame->rdi, frame->rsi,
           frame->rdx, frame->r10, frame->r8, frame->r9, frame->rip, frame->rsp, 0};
  frame->rsp = sys::arg(call);
  return call;
}

u64 restart_as_pause(UserContext* context) {
  begin_restart(context, __NR_pause);
  context->rip = restart_address;
  return __NR_pause;
}

u64 restart_trapped_call(u64 number, UserContext* context) {
  begin_restart(context, number);
  context->rip = restart_address;
  return number;
}

sys::TimeSpec& restart_timeout(UserContext* context) {
  return *reinterpret_cast<sys::TimeSpec*>(restart_block(context)->scratch);
}

u64 trap_masked_call(u64 number, UserContext* context, u64 held) {
  struct SizedMask {
    u64 mask, bytes;
  };
  RestartBlock* const call = begin_restart(context, number);
  u64* mask = mask_register(number, context);
  if (number == __NR_pselect6) {
    const SizedMask given = *reinterpret_cast<const SizedMask*>(*mask);
    call->scratch[0] = given.mask;
    call->scratch[1] = given.bytes;
    *mask = sys::arg(call->scratch);
    mask = &call->scratch[0];
  }
  if (*mask) {
    call->scratch[kMask] = *reinterpret_cast<const u64*>(*mask) & ~kOurSignals;
    hold(*call, held);
    *mask = sys::arg(&call->scratch[kMask]);
  }
  context->rip = restart_address;
  return number;
}

void renew_held_in_call(UserContext* frame, u64 held) {
  if (restart_address == 0 || frame->rip != restart_address) return;
  RestartBlock* const call = restart_block(frame);
  const u64* mask = mask_register(call->number, frame);
  if (mask && call->number == __NR_pselect6) mask = call->scratch;
  if (mask && *mask == sys::arg(&call->scratch[kMask])) hold(*call, held);
}

}  // namespace fermata::launch
