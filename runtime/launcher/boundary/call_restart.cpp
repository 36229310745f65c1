// SPDX-License-Identifier: Apache-2.0
// Calls that take a signal mask (sigsuspend, ppoll, ...) trap, for the mask must not keep our
// signals out, and others because they wait for an id or a time that has to be translated.
#include "launcher/boundary/call_restart.h"

#include <asm/unistd.h>

#include "launcher/patch/vdso.h"

namespace fermata::launch {

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
  u64* mask = number == __NR_rt_sigsuspend || number == __NR_rt_sigtimedwait ? &context->rdi
              : number == __NR_ppoll                                         ? &context->r10
                                                                             : &context->r8;
  if (number == __NR_pselect6) {
    const SizedMask given = *reinterpret_cast<const SizedMask*>(context->r9);
    call->scratch[0] = given.mask;
    call->scratch[1] = given.bytes;
    context->r9 = sys::arg(call->scratch);
    mask = &call->scratch[0];
  }
  if (*mask) {
    const bool waits_for_them = number == __NR_rt_sigtimedwait;
    call->scratch[2] = (*reinterpret_cast<const u64*>(*mask) & ~kOurSignals) |
                       (waits_for_them ? 0 : held);
    *mask = sys::arg(&call->scratch[2]);
  }
  context->rip = restart_address;
  return number;
}

}  // namespace fermata::launch
