// SPDX-License-Identifier: Apache-2.0
// The application asks for a checkpoint (fermata_checkpoint, fermata_request).
//
// fermata_checkpoint waits outside MPI, gate open, so that the rank parks there like anywhere else;
// now and then it looks inside, for others may receive what this rank has sent (MPI-4.0, 3.5).
// The coordinator begins when all ranks have asked, and its answer comes by the agent. A process
// that wakes in here after a restart finds out whether it was saved by this checkpoint: the agent
// notes the epoch that all have asked for, and park() the restarts from such a one. There may have
// been another restart since.
//
// A program that saves itself is told to while it waits in here. Its function is called in all
// ranks or in none, whatever becomes of the checkpoint meanwhile: it may contain collective calls.
#pragma once

#include "interface/fermata.h"

namespace fermata::mpi {

int checkpoint(char* message, size_t bytes);
int set_self_save(fermata_saver function, void* argument);

/// Null unless the program was started to continue from what it has saved itself.
const char* self_state();

int request();

}  // namespace fermata::mpi
