// SPDX-License-Identifier: Apache-2.0
// What the MPI library has asked to be done at exit(3). A rank ends when the application does, and
// the lower half's exit() is never called. MPICH from 4.2 on takes its leave of the process manager
// there: a rank that had not done so was a dead one, and the others were killed in whatever they
// did after MPI_Finalize.
#pragma once

namespace fermata::backend {

/// Calls the handlers, last one first, each once. To be called when MPI_Finalize has come back.
void run_exit_handlers();

}  // namespace fermata::backend
