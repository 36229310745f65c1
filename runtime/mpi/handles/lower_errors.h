// SPDX-License-Identifier: Apache-2.0
// Errors of the lower half that nothing follows from. Every other error of a call to it is handed
// to the program, whose error handler has the say, or it fails the checkpoint, the start or the
// restart by name. The compiler does not see a result of MpiCalls that is dropped: tools/tidy.py
// does, and refuses it.
#pragma once

namespace fermata::mpi {

/// Of a call that ends an object of the lower half which nothing names any more. A failure is
/// harmless: at worst the object stays until the process ends, and a restart does not make it
/// again, for no slot has it. What else is wrong with the MPI library is told by the calls whose
/// objects are in use.
inline void may_leak(int) {}

/// Of a call that may fail, for this reason.
inline void may_fail(int, const char*) {}

}  // namespace fermata::mpi
