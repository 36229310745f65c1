// SPDX-License-Identifier: Apache-2.0
// What stands behind fermata.h: the table that programs find by their auxiliary vector.
#pragma once

#include "halves/layout.h"
#include "interface/fermata.h"

namespace fermata::mpi {

static_assert(kInterface + sizeof(fermata_table) <= kExcluded);
static_assert(kAtFermata == FERMATA_AUXV);

/// Called by the front end's constructor, before any code of the application.
void fill_interface(const char* version);

}  // namespace fermata::mpi
