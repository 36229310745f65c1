// SPDX-License-Identifier: Apache-2.0
// The pool of TLS blocks of the lower half for threads of the upper half.
//
// Code of the lower half finds its thread-local storage through GS. The main thread began in the
// lower half and has a block there; a thread that the application made has none. It acquires that
// of a donor, a thread which the lower half has made for this purpose and which sleeps for ever: to
// the lower half's libc the two are one thread. Blocks of ended threads are released, for others.
//
// The first block is never handed out. On it a thread that finds no free block calls the lower half
// to make another donor.
//
// Invariant: at any time at most one running thread has a given block in its GS. Checked where one
//            is released; taking one is an exchange.
#include "launcher/threads/tls_pool.h"

#include "arch/x86_64/context.h"
#include "halves/crossing.h"
#include "launcher/config.h"
#include "sys/check.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

struct Block {
  u32 taken;
  u64 gs_base;
};
Block blocks[kThreadCapacity];
u32 block_count;  // futex: goes up when a block has been donated
u32 maker_lock;   // who holds it may use blocks[0]

u32 take_free_block() {
  const u32 count = __atomic_load_n(&block_count, __ATOMIC_ACQUIRE);
  for (u32 i = 1; i < count; i++)
    if (!__atomic_exchange_n(&blocks[i].taken, 1, __ATOMIC_ACQ_REL)) return i;
  return 0;
}

/// Makes blocks until one is free. Returns its index, or 0 if the lower half can make no more; each
/// wait ends, at the latest, after some minutes in which this thread, too, had a processor.
u32 make_block() {
  constexpr u32 kLooks = 200'000;
  u32 looks = 0;
  for (; __atomic_exchange_n(&maker_lock, 1, __ATOMIC_ACQUIRE); looks++) {
    if (looks == kLooks) return 0;
    sys::sleep_ns(1'000'000);
  }
  // The first donor may not have come to donate_tls() yet.
  while (__atomic_load_n(&block_count, __ATOMIC_ACQUIRE) == 0 && looks++ < kLooks)
    sys::futex_wait(&block_count, 0, 1'000'000);
  u32 block = take_free_block();
  const u64 own_gs_base = arch::read_gs_base();
  arch::write_gs_base(blocks[0].gs_base);
  // Another thread may take the new block first.
  while (block == 0 && looks < kLooks) {
    const u32 seen = __atomic_load_n(&block_count, __ATOMIC_ACQUIRE);
    if (seen == 0 || seen == kThreadCapacity || crossing().lower->make_lender() != 0) break;
    while (__atomic_load_n(&block_count, __ATOMIC_ACQUIRE) == seen && looks++ < kLooks)
      sys::futex_wait(&block_count, seen, 1'000'000);
    block = take_free_block();
  }
  arch::write_gs_base(own_gs_base);
  __atomic_store_n(&maker_lock, 0, __ATOMIC_RELEASE);
  return block;
}

u64 main_block;  // waits here for the main thread

}  // namespace

void leave_tls_to_main_thread() {
  main_block = arch::read_gs_base();
  if (acquire_tls() != 0) die("no thread block for this thread", "MPI", 0, "check `ulimit -u`");
}

i32 acquire_tls() {
  Thread* const thread = find_thread(sys::gettid());
  if (!thread) return -sys::kEinval;
  if (thread == &threads[0]) {
    if (main_block) arch::write_gs_base(main_block);
    main_block = 0;
    return 0;
  }
  if (thread->block) return 0;
  u32 block = take_free_block();
  if (block == 0) block = make_block();
  if (block == 0) return -sys::kEagain;
  thread->block = block;
  arch::write_gs_base(blocks[block].gs_base);
  return 0;
}

void release_tls(Thread& thread) {
  if (thread.block)
    FERMATA_CHECK(__atomic_exchange_n(&blocks[thread.block].taken, 0, __ATOMIC_RELEASE) == 1,
                  "a block that is released has been acquired");
  thread.block = 0;
}

void donate_tls() {
  static u32 lock, never;
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) sys::sleep_ns(10'000);
  const u32 index = block_count;
  if (index < kThreadCapacity) {
    blocks[index] = {0, arch::read_gs_base()};
    __atomic_store_n(&block_count, index + 1, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
  sys::futex_wake_all(&block_count);
  for (;;) sys::futex_wait(&never, 0, 3'600'000'000'000);
}

}  // namespace fermata::launch
