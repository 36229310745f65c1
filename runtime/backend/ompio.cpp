// SPDX-License-Identifier: Apache-2.0
// A guard for the files of Open MPI, whose pending reads and writes are advanced by every thread
// that looks whether something has finished, without a lock: two that see the same one end complete
// it twice, and the second takes the mark of the first for an address (mca_common_ompio_progress,
// seen in 4.1.4, the same in 5.0). Its blocking waits take turns among themselves, so programs that
// wait seldom meet it; but here most waits are MPI_Test, which asks nobody.
//
// The library registers that function by a call of another library's, and this program's function
// of the same name comes before it: what is registered is one that runs the real one in one thread
// at a time. A thread that finds another in it has nothing to do: the other does it.
#include <mpi.h>

#ifdef OPEN_MPI

#include <dlfcn.h>
#include <string.h>

namespace {

using Progress = int (*)();
using Registration = int (*)(Progress);

Progress g_files = nullptr;  // the real one, once it has been registered
bool g_is_taken = false;     // a thread is in it

int one_at_a_time() {
  if (__atomic_exchange_n(&g_is_taken, true, __ATOMIC_ACQUIRE)) return 0;
  const int completed = g_files();
  __atomic_store_n(&g_is_taken, false, __ATOMIC_RELEASE);
  return completed;
}

bool is_for_files(Progress progress) {
  Dl_info at;
  return dladdr(reinterpret_cast<void*>(progress), &at) != 0 && at.dli_sname != nullptr &&
         strcmp(at.dli_sname, "mca_common_ompio_progress") == 0;
}

/// Calls the library's function of this name with the guard in the place of what it guards.
int call_real(const char* name, Progress progress) {
  const auto real = reinterpret_cast<Registration>(dlsym(RTLD_NEXT, name));
  if (!real) return -1;  // OPAL_ERROR
  if (!is_for_files(progress)) return real(progress);
  g_files = progress;
  return real(one_at_a_time);
}

}  // namespace

extern "C" int opal_progress_register(Progress progress) {
  return call_real("opal_progress_register", progress);
}
extern "C" int opal_progress_unregister(Progress progress) {
  return call_real("opal_progress_unregister", progress);
}

#endif  // OPEN_MPI
