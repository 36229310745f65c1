// SPDX-License-Identifier: Apache-2.0
// This program's functions come before the libraries' of the same names: those that make and end
// UCX's workers tell which there are, and read(2) is the C library's but in MPI_Finalize, on the
// descriptor of the process manager. There it alternates between a short poll(2) and the workers,
// which are MPI_Finalize's own to use: it is in its thread, and no other call of MPI is under way.
// MPICH ends its workers before it takes its last leave of the process manager, so that wait has
// none. Workers of other libraries (a provider of libfabric) are theirs alone.
// Source: the PMI-1 wire protocol: the launcher hands over a socket, and its number as PMI_FD.
#include "backend/ucx.h"

#include <dlfcn.h>
#include <mpi.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/mpi_library.h"

#ifdef MPICH

namespace fermata::backend {
namespace {

using Worker = void*;
using Create = int (*)(void* context, const void* parameters, Worker* worker);
using Destroy = void (*)(Worker worker);
using Progress = unsigned (*)(Worker worker);
using Read = ssize_t (*)(int fd, void* to, size_t bytes);

// MPICH makes and ends them in MPI_Init and MPI_Finalize. It has one per virtual interface, at most
// 64; of a program that asks for more, the others make no progress.
constexpr int kRoom = 64;
Worker g_workers[kRoom];
int g_manager = -1;  // the process manager's descriptor, during MPI_Finalize

/// A library that was opened for itself alone finds UCX among its own libraries.
void* find_for(void* caller, const char* name) {
  void* const next = dlsym(RTLD_NEXT, name);
  Dl_info at;
  if (next || dladdr(caller, &at) == 0) return next;
  void* const library = dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return library ? dlsym(library, name) : nullptr;
}

void exchange_worker(Worker before, Worker now) {
  for (Worker& worker : g_workers) {
    if (worker != before) continue;
    worker = now;
    return;
  }
}

/// Returns how much has happened.
unsigned progress_workers() {
  static const auto progress = reinterpret_cast<Progress>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  unsigned events = 0;
  for (const Worker worker : g_workers)
    if (worker && progress) events += progress(worker);
  return events;
}

/// Returns when there is something to read, or nothing to wait for. As long as read(2) would wait.
void await_manager(int fd) {
  constexpr int kLookAgainMs = 1;
  for (bool busy = false;; busy = progress_workers() != 0) {
    pollfd look{fd, POLLIN, 0};
    if (poll(&look, 1, busy ? 0 : kLookAgainMs) > 0) return;
  }
}

}  // namespace

UcxProgress::UcxProgress() {
  const char* const manager = getenv("PMI_FD");
  if (manager && g_workers[0]) g_manager = int(strtol(manager, nullptr, 10));
}
UcxProgress::~UcxProgress() { g_manager = -1; }

}  // namespace fermata::backend

extern "C" int ucp_worker_create(void* context, const void* parameters, void** worker) {
  using namespace fermata::backend;
  constexpr int kUnsupported = -22;  // UCS_ERR_UNSUPPORTED
  void* const caller = __builtin_return_address(0);
  const auto real = reinterpret_cast<Create>(find_for(caller, "ucp_worker_create"));
  const int status = real ? real(context, parameters, worker) : kUnsupported;
  if (status == 0 && is_of_mpi(caller)) exchange_worker(nullptr, *worker);
  return status;
}

extern "C" void ucp_worker_destroy(void* worker) {
  using namespace fermata::backend;
  void* const caller = __builtin_return_address(0);
  const auto real = reinterpret_cast<Destroy>(find_for(caller, "ucp_worker_destroy"));
  exchange_worker(worker, nullptr);
  if (real) real(worker);
}

extern "C" ssize_t read(int fd, void* to, size_t bytes) {
  using namespace fermata::backend;
  static const auto real = reinterpret_cast<Read>(dlsym(RTLD_NEXT, "read"));
  if (fd == g_manager && fd >= 0) await_manager(fd);
  return real(fd, to, bytes);
}

#else

namespace fermata::backend {

UcxProgress::UcxProgress() {}
UcxProgress::~UcxProgress() {}

}  // namespace fermata::backend

#endif  // MPICH
