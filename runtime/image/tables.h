// SPDX-License-Identifier: Apache-2.0
// The tables of an image, said once: in this order they are written, read and sealed.
#pragma once

#include "image/format.gen.h"

namespace fermata::image {

/// Visits the reference to each table in the header, with the member of that name of a Reader or
/// Writer. Ends at the first visit that returns false; returns whether there was none.
template <typename Header, typename Holder, typename Visit>
bool each_table(Header& h, Holder&& of, const Visit& visit) {
  return visit(h.regions, of.regions) && visit(h.objects, of.objects) &&
         visit(h.extents, of.extents) && visit(h.threads, of.threads) &&
         visit(h.files, of.files) && visit(h.members, of.members) &&
         visit(h.actions, of.actions) && visit(h.signals, of.signals) &&
         visit(h.timers, of.timers) && visit(h.strings, of.strings) && visit(h.tags, of.tags);
}
inline constexpr u64 kTables = 11;

}  // namespace fermata::image
