// SPDX-License-Identifier: Apache-2.0
// Where everything lives. A rank is one address space shared by three programs; these numbers are
// the treaty between them. The upper window is saved and comes back at the same addresses, so what
// the upper half must find again after a restart has a fixed place here.
#pragma once

#include "base/types.h"

namespace fermata {

// The upper half: the application, its libraries, our front end. Saved.
inline constexpr u64 kUpperBase = 0x1000'0000'0000;
inline constexpr u64 kUpperEnd = 0x2000'0000'0000;

// The launcher is linked at a fixed address between the windows, so that upper memory may hold the
// address of its service table (kLauncherCalls) across a restart.
inline constexpr u64 kLauncherBase = 0x2800'0000'0000;
inline constexpr u64 kLauncherEnd = 0x2880'0000'0000;
inline constexpr u64 kLauncherCallsAt = kLauncherBase + 0x1000;  // struct LauncherCalls

// Below here the kernel's vdso has a place of its own after each restart: launcher/patch/vdso.cpp.
inline constexpr u64 kVdsoTop = 0x2900'0000'0000;
inline constexpr u64 kVdsoBytes = 0x4000;  // room for the largest one

// The lower half's code: the real MPI and all it needs. Never saved. Its data may live anywhere
// outside the upper window.
inline constexpr u64 kLowerBase = 0x3000'0000'0000;
inline constexpr u64 kLowerEnd = 0x4000'0000'0000;

// Inside the upper window, from low to high. The first two gibibytes are free: the shadow memory of
// AddressSanitizer ends there, at 0x1000'7fff'8000.
inline constexpr u64 kUpperVdso = 0x1000'c000'0000;      // our vdso image and its jump table
inline constexpr u64 kUpperVdsoBytes = 0x1'0000;
inline constexpr u64 kCrossing = 0x1000'c001'0000;       // struct Crossing, see crossing.h
inline constexpr u64 kCrossingBytes = 0x1'0000;
inline constexpr u64 kInterface = kCrossing + 0x8000;    // struct fermata_table of fermata.h
inline constexpr u64 kExcluded = kCrossing + 0x9000;     // struct Excluded, see crossing.h
inline constexpr u64 kAtFermata = 0x4645'524d;           // its type in the auxiliary vector
inline constexpr u64 kClocks = 0x1000'c010'0000;         // ClockEntry[kClockCapacity]
inline constexpr u64 kClockBytes = 0x10'0000;
inline constexpr u64 kMailbox = 0x1000'c020'0000;        // agent -> safe state payloads: crossing.h
inline constexpr u64 kMailboxBytes = 0x100'0000;
inline constexpr u64 kSlots = 0x1001'0000'0000;          // handle slots, a reserved array per kind
inline constexpr u64 kSlotsBytesPerKind = 0x1'0000'0000; // 4 GiB of address space, touched as used
inline constexpr u64 kMpiArena = 0x100c'0000'0000;       // the front end's allocator (64 GiB room)
inline constexpr u64 kMpiArenaBytes = 0x10'0000'0000;
inline constexpr u64 kUpperHeap = 0x1020'0000'0000;      // the private brk heap
inline constexpr u64 kUpperHeapBytes = 0x100'0000'0000;
inline constexpr u64 kUpperLoader = 0x1170'0000'0000;    // its ld.so, alone: the boundary knows it
inline constexpr u64 kUpperLoaderEnd = 0x1171'0000'0000;
inline constexpr u64 kUpperProgram = 0x1180'0000'0000;   // a PIE application
inline constexpr u64 kUpperMmap = 0x1200'0000'0000;      // everything the upper half maps
inline constexpr u64 kUpperMmapEnd = 0x1f00'0000'0000;
inline constexpr u64 kUpperStackEnd = 0x1fff'0000'0000;  // top of the main thread's stack,
                                                         // which has a terabyte of room to grow

// On the main thread's first stack, as opposed to a coroutine's, say.
constexpr bool in_first_stack(u64 address) {
  return address >= kUpperMmapEnd && address < kUpperStackEnd;
}
constexpr bool in_upper(u64 address) { return address >= kUpperBase && address < kUpperEnd; }
constexpr bool in_lower(u64 address) { return address >= kLowerBase && address < kLowerEnd; }

}  // namespace fermata
