// SPDX-License-Identifier: Apache-2.0
// MPICH's library has two names. A program linked with one of them loads a module that asks for the
// other, at its end: it must get the MPI that is there.
#include <dlfcn.h>

#include "../check.h"

#ifdef MPICH_VERSION
static const char *const names[] = {"libmpich.so.12", "libmpi.so.12"};
#else
static const char *const names[] = {"libmpi.so.40", "libmpi.so.40"};
#endif

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(step);
  }
  for (int i = 0; i < 2; i++) {
    void *const library = dlopen(names[i], RTLD_NOW);
    CHECK(library && dlsym(library, "MPI_Barrier") == dlsym(RTLD_DEFAULT, "MPI_Barrier"));
  }
  finish();
  return 0;
}
