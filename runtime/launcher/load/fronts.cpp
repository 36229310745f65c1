// SPDX-License-Identifier: Apache-2.0
// The MPI library that the application asks for. Its ld.so opens libraries by name, at the start or
// when it loads MPI later (a Python module, a plug-in). ld.so has a place of its own in the upper
// window, so its calls of open(2), and nobody else's, trap here: where the name is that of an MPI
// library which a front end stands for, it is given the front end. RPATH, absolute paths, dlopen
// and LD_PRELOAD all come this way; the environment is the user's own, and a program that never
// asks for MPI has none.
#include "launcher/load/fronts.h"

#include "base/text.h"
#include "launcher/boundary/guest.h"
#include "launcher/config.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

struct Front {
  const char* soname;
  const char* folder;  // below config.fronts
  bool is_mpi;         // holds MPI itself, not another language's bindings
};
constexpr Front kFronts[] = {
    {"libmpi.so.40", "ompi", true},        {"libmpi_mpifh.so.40", "ompi", false},
    {"libmpi_cxx.so.40", "ompi", false},   {"libmpich.so.12", "mpich", true},
    {"libmpi.so.12", "mpich", true},
};

bool is_mpich(const Front& front) { return text_equal(front.folder, "mpich"); }

/// By soname or by the name of the file behind it: libmpi.so.40, libmpi.so.40.30.4.
const Front* find_front(const char* path) {
  const char* const name = base_name(path);
  for (const Front& front : kFronts) {
    const char end = text_starts(name, front.soname) ? name[text_length(front.soname)] : 'x';
    if (end == 0 || end == '.') return &front;
  }
  return nullptr;
}

}  // namespace

u64 trap_loader_open(u64 number, const u64 (&a)[6]) {
  const i64 opened = i64(pass_on(number, a));
  const char* const path = reinterpret_cast<const char*>(a[number == SYS_openat]);
  if (opened == -sys::kEfault || !config.fronts[0]) return u64(opened);
  if (!text_starts(base_name(path), "libmp")) return u64(opened);
  const Front* front = find_front(path);
  Path real;
  Text<64> link;
  link << "/proc/self/fd/" << u64(opened);
  if (!front && opened >= 0 && sys::readlink(link.data, real.data, sizeof real.data))
    front = find_front(real.data);  // libmpi.so, a name for those who link programs
  if (!front) return u64(opened);

  // MPICH's two sonames are one library: a program that needs both must not get two, nor after a
  // restart.
  if (const Front* const given = find_front(config.front); given && is_mpich(*given))
    if (is_mpich(*front)) front = given;
  static Path ours;
  Path library;
  library << config.fronts << "/" << front->folder << "/" << front->soname;
  const Result<u64> file = sys::open(library.data, sys::kReadOnly | sys::kCloseOnExec);
  if (!file) return u64(opened);
  if (opened >= 0) (void)sys::close(int(opened));
  if (front->is_mpi) {
    ours = library;
    config.front = ours.data;
  }
  return file.value;
}

}  // namespace fermata::launch
