// SPDX-License-Identifier: Apache-2.0
// MPI files: opened, viewed, closed. Reading and writing is the lower half's work.
//
// A file's recipe is what it is, not how it came to be so: name, mode, view, hints, the individual
// and the shared file pointer, atomicity. The bytes are in the file system; a restarted program
// finds what the file holds then, and writes again what it wrote after the checkpoint, at the same
// places, because its pointers are those of the checkpoint.
//
// Like a window, a file has a communicator of its own: its group, its id, its collective clock.
//
// Invariant: Slot::clock of a file's slot is the clock of its communicator. Checked where ranks
//            drain (files_note_positions).
// Invariant: the view's datatypes are referenced as long as it is set. Not checked: a program that
//            frees one twice would be blamed on us.
#pragma once

#include "mpi/handles/objects.h"

namespace fermata::mpi {

/// Remembers what only the lower half knows: where its file pointers stand. All are parked.
bool files_note_positions();

/// Why an image would lose something of an open file, or null.
const char* reason_not_to_save_files();

/// Puts the shared pointer where it was, if any member has used it: its calls are local, setting it
/// is not. Collective over the file's communicator.
int file_seek_shared(File* file);

/// Opens a file again, as it was. Collective over its communicator, whose real one exists.
int file_reopen(File* file);

}  // namespace fermata::mpi
