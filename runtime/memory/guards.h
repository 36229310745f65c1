// SPDX-License-Identifier: Apache-2.0
// Guard pages by MADV_GUARD_INSTALL (Linux 6.13): no protection of a mapping, but marks in its page
// tables. In an image they are regions of their own, without pages.
#pragma once

#include "memory/attributes.h"
#include "memory/maps.h"

namespace fermata::memory {

/// The first part of a mapping that is all guard pages (kGuarded is set then), or has none.
/// Kernels before 6.15 do not tell; there it is the whole mapping.
Mapping first_guard_part(int pagemap_fd, const Mapping& mapping);

}  // namespace fermata::memory
