// SPDX-License-Identifier: Apache-2.0
// Info objects made before the checkpoint keep their pairs and the order of their keys.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Info info, copy;
  MPI_Info_create(&info);
  MPI_Info_set(info, "first", "1");
  MPI_Info_set(info, "second", "two words");
  MPI_Info_dup(info, &copy);
  for (int step = 1; step <= o.steps; step++) {
    char key[32], value[64], own[64];
    int keys = -1, flag = 0, length = 0;
    snprintf(key, sizeof key, "step%d", step);
    snprintf(own, sizeof own, "%d of %d", step, rank);
    MPI_Info_set(info, key, own);
    report_step(step, o.step_ms);
    MPI_Info_get_nkeys(info, &keys);
    CHECK(keys == 2 + step);
    for (int n = 0; n < keys; n++) {
      char name[MPI_MAX_INFO_KEY + 1];
      MPI_Info_get_nthkey(info, n, name);
      MPI_Info_get_valuelen(info, name, &length, &flag);
      CHECK(flag && length > 0 && length < 64);
      MPI_Info_get(info, name, sizeof value - 1, value, &flag);
      CHECK(flag && (int)strlen(value) == length);
      mix(value, (size_t)length);
    }
    CHECK(!strcmp(value, own));
    MPI_Info_get_nkeys(copy, &keys);
    MPI_Info_get(copy, "second", sizeof value - 1, value, &flag);
    CHECK(keys == 2 && flag && !strcmp(value, "two words"));
    MPI_Info_get(copy, key, sizeof value - 1, value, &flag);
    CHECK(!flag);
  }
  MPI_Info_free(&info);
  MPI_Info_free(&copy);
  CHECK(info == MPI_INFO_NULL);
  finish();
  return 0;
}
