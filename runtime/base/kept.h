// SPDX-License-Identifier: Apache-2.0
// Room for arrays that live as long as one call, of any length, without a call of the kernel or of
// an allocator each time: what one call has used is kept for the next.
//
// A call takes a piece out of the pool and puts it back, each by one atomic exchange, so threads
// and signal handlers that call MPI as well find other pieces or make their own. A piece that is
// too small is given back to where it came from, and one twice as large as needed takes its place:
// the pool soon holds as many pieces as are in use at a time, all large enough.
//
// Invariant: a piece is in the pool or in the hands of one call. Not checked: hot path; pieces move
//            by exchanges alone.
#pragma once

#include "base/types.h"

namespace fermata {

/// `Source::map(bytes)` makes room and never fails, `Source::unmap(address, bytes)` ends it.
template <class Source>
class KeptRoom {
 public:
  /// Room for `bytes` bytes, aligned to 64, not cleared.
  static void* take(u64 bytes) {
    const u64 whole = bytes + sizeof(Piece);
    for (Piece*& place : pool_) {
      if (__atomic_load_n(&place, __ATOMIC_RELAXED) == nullptr) continue;
      Piece* const piece = __atomic_exchange_n(&place, nullptr, __ATOMIC_ACQUIRE);
      if (piece == nullptr) continue;
      if (piece->bytes >= whole) return piece + 1;
      Source::unmap(piece, piece->bytes);
      break;
    }
    const u64 room = page_ceil(2 * whole < kLeast ? kLeast : 2 * whole);
    Piece* const piece = static_cast<Piece*>(Source::map(room));
    piece->bytes = room;
    return piece + 1;
  }
  static void give_back(void* room) {
    Piece* const piece = static_cast<Piece*>(room) - 1;
    for (Piece*& place : pool_) {
      Piece* none = nullptr;
      if (__atomic_load_n(&place, __ATOMIC_RELAXED) == nullptr &&
          __atomic_compare_exchange_n(&place, &none, piece, false, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED))
        return;
    }
    Source::unmap(piece, piece->bytes);
  }

 private:
  struct alignas(64) Piece {
    u64 bytes;
  };
  static constexpr int kPieces = 64;
  static constexpr u64 kLeast = 32 * 1024;
  inline static Piece* pool_[kPieces];
};

}  // namespace fermata
