// SPDX-License-Identifier: Apache-2.0
// Whether this rank may stand still: what the coordinator has told it of the others.
//
// A rank may stop only where it has no obligation: no member waits for it in a collective call,
// that is, none of its clocks (gate/clock.h) is behind its target, and nobody who must run on waits
// for a message of it (decision 0038). The rules are those of control/protocol, which is checked.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

/// Copies the newest targets to SafepointState::targets, by clock index, and its
/// obligations to SafepointState::to_send and its kin, by rank. Returns their version, 0 if none.
/// The agent fills the lists before it stores targets_version, and stores the version again when it
/// refines them, so a copy is good if the version is the same before and after.
u64 refresh_targets();

/// True if some member waits, or may come to wait, for this rank in a collective call; as far as is
/// known.
bool owes_collective();

/// Messages of this rank that have been counted, though the program has not matched them yet.
u64 kept_from(i32 rank);

/// Those of them that are held.
u64 held_from(i32 rank);

/// True if this rank may not stand still: some member waits for it in a collective call, or another
/// rank waits for a message that it has not sent, or that it has not matched.
/// Preconditions: refresh_targets() returned a version.
bool has_obligation();

}  // namespace fermata::mpi
