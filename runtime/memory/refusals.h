// SPDX-License-Identifier: Apache-2.0
// What an application can have that no image holds. The boundary notes it as it is made, and a
// checkpoint that finds it still there is refused by name.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "memory/maps.h"

namespace fermata::memory {

/// The application mapped [start, start + bytes) at an address of its own choice.
void note_placed(u64 start, u64 bytes);
/// The application has a System V semaphore set or message queue of this id.
void note_semaphores(u32 id);
void note_queue(u32 id);
/// An io_context_t: the address of the ring that the kernel has mapped.
void note_io_context(u64 address);

/// EPERM with `why`, if `mapping` is AddressSanitizer's shadow of all other memory, or has a
/// protection key of the application's.
Status refuse_inside(const Mapping& mapping, Message& why);
/// EPERM with `why`, if `mapping` is the application's but lies outside what is saved.
Status refuse_outside(const Mapping& mapping, Message& why);
/// EPERM with `why`, if a noted semaphore set or queue still exists.
Status refuse_ipc(Message& why);

}  // namespace fermata::memory
