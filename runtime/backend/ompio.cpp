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
//
// Non-blocking collective calls register and unregister theirs each time, and so do the calls that
// make communicators, windows and files by them: what a function is, is looked up once.
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

bool is_named_for_files(Progress progress) {
  Dl_info at;
  return dladdr(reinterpret_cast<void*>(progress), &at) != 0 && at.dli_sname != nullptr &&
         strcmp(at.dli_sname, "mca_common_ompio_progress") == 0;
}

/// Functions that are for something else, as far as there is room for them. They stay where they
/// are: a library that has registered one is not unloaded before MPI_Finalize.
bool is_for_files(Progress progress) {
  constexpr int kRoom = 16;
  static Progress others[kRoom];
  if (progress == __atomic_load_n(&g_files, __ATOMIC_RELAXED)) return true;
  for (Progress& other : others) {
    const Progress known = __atomic_load_n(&other, __ATOMIC_RELAXED);
    if (known == progress) return false;
    if (known != nullptr) continue;
    if (is_named_for_files(progress)) return true;
    Progress none = nullptr;
    (void)__atomic_compare_exchange_n(&other, &none, progress, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED);
    return false;
  }
  return is_named_for_files(progress);
}

Registration find_real(const char* name) {
  return reinterpret_cast<Registration>(dlsym(RTLD_NEXT, name));
}

/// Calls the library's function with the guard in the place of what it guards.
int call_real(Registration real, Progress progress) {
  if (!real) return -1;  // OPAL_ERROR
  if (!is_for_files(progress)) return real(progress);
  __atomic_store_n(&g_files, progress, __ATOMIC_RELAXED);
  return real(one_at_a_time);
}

}  // namespace

extern "C" int opal_progress_register(Progress progress) {
  static const Registration real = find_real("opal_progress_register");
  return call_real(real, progress);
}
extern "C" int opal_progress_unregister(Progress progress) {
  static const Registration real = find_real("opal_progress_unregister");
  return call_real(real, progress);
}

#endif  // OPEN_MPI
