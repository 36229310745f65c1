// SPDX-License-Identifier: Apache-2.0
// Row: a library found by $ORIGIN, beside the program, loaded and unloaded in every step
#include <dlfcn.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int step = 1; step <= o.steps; step++) {
    void *library = dlopen("$ORIGIN/../plugin.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) printf("%s\n", dlerror());
    CHECK(library);
    int (*plugin_step)(int) = (int (*)(int))dlsym(library, "plugin_step");
    CHECK(plugin_step);
    mix_int(plugin_step(step));
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(plugin_step(step + 1));
    CHECK(dlclose(library) == 0);
  }
  finish();
  return 0;
}
