// SPDX-License-Identifier: Apache-2.0
// This program's __cxa_atexit comes before the C library's. What the library registers that
// MPI_Finalize is in is kept here; all else goes where it went.
// Source: Linux Standard Base 5.0, 8.5 (__cxa_atexit, which atexit(3) is made of).
#include "backend/exit_handlers.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "backend/mpi_library.h"
#include "base/types.h"

namespace fermata::backend {
namespace {

using Registration = int (*)(void (*)(void*), void*, void*);

struct Handler {
  void (*function)(void*);
  void* argument;
};
constexpr u32 kRoom = 32;
Handler g_handlers[kRoom];
u32 g_count = 0;  // MPI_Init registers them, and MPI_Finalize is after it

}  // namespace

void run_exit_handlers() {
  while (g_count) {
    const Handler last = g_handlers[--g_count];
    last.function(last.argument);
  }
}

}  // namespace fermata::backend

extern "C" int __cxa_atexit(void (*function)(void*), void* argument, void* library) noexcept {
  using namespace fermata::backend;
  static const auto real = reinterpret_cast<Registration>(dlsym(RTLD_NEXT, "__cxa_atexit"));
  if (!is_of_mpi(library) || g_count == kRoom) return real ? real(function, argument, library) : -1;
  // Should exit(3) be called after all, as by MPI_Abort, they run there.
  if (g_count == 0 && real)
    (void)real([](void*) { run_exit_handlers(); }, nullptr, nullptr);
  g_handlers[g_count++] = {function, argument};
  return 0;
}
