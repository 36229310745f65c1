// SPDX-License-Identifier: Apache-2.0
// Loads plugin.so (beside the program) at run time, some steps in, and lets it call MPI.
#include <dlfcn.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char path[1024];
  const char *slash = strrchr(argv[0], '/');
  snprintf(path, sizeof path, "%.*splugin.so", slash ? (int)(slash + 1 - argv[0]) : 2,
           slash ? argv[0] : "./");
  int (*plugin_step)(int) = NULL;
  for (int step = 1; step <= o.steps; step++) {
    if (step == 3) {
      void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (!library) printf("%s\n", dlerror());
      CHECK(library);
      plugin_step = (int (*)(int))dlsym(library, "plugin_step");
      CHECK(plugin_step);
    }
    if (plugin_step) mix_int(plugin_step(step));
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
