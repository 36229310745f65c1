// SPDX-License-Identifier: Apache-2.0
// What an image must be of to be restored here: this rank of this job, on such a processor, by a
// launcher that serves its front end.
#pragma once

#include "halves/crossing.h"
#include "image/format.gen.h"

namespace fermata::launch {

void save_identity(image::ImageHeader& out, const SaveRequest& request);
/// Ends the process if the image does not fit. path: for messages.
void check_identity(const image::ImageHeader& saved, const char* path, u32 world_rank,
                    u32 world_size);

}  // namespace fermata::launch
