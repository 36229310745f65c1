// SPDX-License-Identifier: Apache-2.0
// A program that can save itself, where nothing is begun and nothing made: all there is to remember
// is the step and the checksum.
#include "chaos.h"

#include <fermata.h>
#include <unistd.h>

static void path_of(char *path, size_t bytes, const char *folder) {
  snprintf(path, bytes, "%s/rank-%d", folder, self);
}

static int save(const char *folder, void *place) {
  char path[4096];
  path_of(path, sizeof path, folder);
  FILE *const file = fopen(path, "wbx");
  if (!file) return 1;
  const size_t written = fwrite(place, sizeof(struct place), 1, file);
  return fclose(file) || written != 1;
}

void start_saving(struct place *place) {
  const char *const folder = fermata_self_state();
  if (folder) {
    char path[4096];
    path_of(path, sizeof path, folder);
    FILE *const file = fopen(path, "rb");
    MUST(file && fread(place, sizeof *place, 1, file) == 1);
    fclose(file);
  }
  MUST(fermata_self_save(save, place) == (fermata_version() ? 0 : FERMATA_ABSENT));
}

// It may fail for a good reason, such as a deadline; the test knows which are good.
void ask_for_checkpoint(void) {
  char why[512] = "";
  const int result = fermata_checkpoint(why, sizeof why);
  MUST(result != FERMATA_MISUSE && (result == FERMATA_ABSENT) == !fermata_version());
  if (self != 0 || result == FERMATA_ABSENT) return;
  printf("asked: %s\n", result == FERMATA_FAILED ? why : "taken");
  fflush(stdout);
}

void rest_while_held(const char *hold_file) {
  for (int held = 1; held;) {
    held = hold_file && access(hold_file, F_OK) == 0;
    DO(MPI_Bcast(&held, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (held) ask_for_checkpoint();
    sleep_for_ms(held * 20);
  }
}
