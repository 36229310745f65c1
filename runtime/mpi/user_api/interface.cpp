// SPDX-License-Identifier: Apache-2.0
#include "mpi/user_api/interface.h"

#include "mpi/safepoint/callbacks.h"
#include "mpi/safepoint/sections.h"
#include "mpi/user_api/app_request.h"
#include "mpi/user_api/excluded.h"

namespace fermata::mpi {

void fill_interface(const char* version) {
  auto* const table = reinterpret_cast<fermata_table*>(kInterface);
  *table = {.abi = 1,
            .bytes = sizeof(fermata_table),
            .version = {},
            .critical_begin = critical_begin,
            .critical_end = critical_end,
            .checkpoint = checkpoint,
            .request = request,
            .callback = add_callback,
            .no_callback = remove_callback,
            .exclude = exclude,
            .include = include,
            .self_save = set_self_save,
            .self_state = self_state};
  copy_message(version, table->version, sizeof table->version);
}

}  // namespace fermata::mpi
