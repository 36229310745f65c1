// SPDX-License-Identifier: Apache-2.0
#include "agent/sending.h"

#include "agent/words.h"

namespace fermata::agent {

namespace {

// The send that was met last: to whom, as so manieth message.
struct Met {
  u32 epoch;  // in which checkpoint
  u32 sending;
  u64 number;
  bool told;
};
Met met;

u64 list_receivers(Count* edges) {
  const Crossing& shared = crossing();
  const u64* const sent = load(shared.sent);
  const NeedKind kind = load(shared.synchronous) ? NeedKind::kReceipt : NeedKind::kRoom;
  if (met.sending != kSendingToAny) {
    edges[0] = Count{edge_key(kind, met.sending - 1), met.number};
    return 1;
  }
  u64 count = 0;
  for (u32 rank = 0; rank < shared.world_size && count < kClockCapacity; rank++)
    if (sent[rank] != 0 && rank != shared.world_rank)
      edges[count++] = Count{edge_key(kind, rank), sent[rank]};
  return count;
}

}  // namespace

bool send_has_to_be_told(Count* edges, u64* count) {
  Crossing& shared = crossing();
  const u32 sending = load(shared.sending);
  const bool is_known = sending != 0 && (sending <= shared.world_size || sending == kSendingToAny);
  if (!is_known || sending - 1 == shared.world_rank) {
    met = Met{};
    return false;
  }
  const u64 number = sending == kSendingToAny ? 0 : load(load(shared.sent)[sending - 1]) + 1;
  const u32 epoch = load(shared.pending);
  if (met.epoch != epoch || met.sending != sending || met.number != number) {
    met = Met{epoch, sending, number, false};
    return false;
  }
  if (met.told) return false;
  met.told = true;
  *count = list_receivers(edges);
  store(shared.sending_told, 1u);
  return *count != 0;
}

}  // namespace fermata::agent
