// SPDX-License-Identifier: Apache-2.0
// What an image consists of: a table of sections, each of which knows how one kind of thing is
// saved and how it is restored.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "files/describe.h"
#include "halves/crossing.h"
#include "image/reader.h"
#include "image/writer.h"

namespace fermata::launch {

/// When a section is saved.
enum class Stage {
  kShared,     // memory that others can change: before anybody continues
  kDescribed,  // what fork(2) has not copied, and all that is small: before this rank continues
  kPages,      // what the writer has as a copy of its own
};

struct Saving {
  image::Writer& writer;
  const SaveRequest& request;
  u32 job_pid;
  bool (*is_upper)(int fd);  // whether a descriptor is the application's
  Message& why;

  image::ImageHeader& header() const { return writer.header(); }
};

struct Restoring {
  image::Reader& reader;
  const LowerCalls* lower;
  const char* path;  // of the image, for messages
  u32 world_rank, world_size;

  const image::ImageHeader& header() const { return *reader.header; }
  const image::ImageThread& main_thread() const { return reader.threads[header().main_thread]; }
};

/// Saves all sections of a stage. Errors: errno with `why`; EPERM and EAGAIN: refused.
Status save_sections(Stage stage, const Saving& saving);
/// Restores all sections, in the order of the table. Ends the process with a message if it cannot.
void restore_sections(const Restoring& restoring);

}  // namespace fermata::launch
