// SPDX-License-Identifier: Apache-2.0
// Row: standard streams that the program has redirected and saved aside
#include <fcntl.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int aside = fcntl(1, F_DUPFD, 50);  // where the output goes for the time being
  CHECK(aside >= 50 && freopen(own_path("errors"), "w", stderr));
  CHECK(freopen(own_path("output"), "w", stdout));
  const int input = open(own_path("input"), O_RDWR | O_CREAT, 0644);
  for (char letter = 'a'; letter <= 'z'; letter++) CHECK(write(input, &letter, 1) == 1);
  CHECK(lseek(input, 0, SEEK_SET) == 0 && dup2(input, 0) == 0 && close(input) == 0);
  for (int step = 1; step <= o.steps; step++) {
    printf("out %d\n", step);
    fprintf(stderr, "err %d\n", step);
    if (step % 2) fflush(stdout);
    char text[32];
    const int bytes = snprintf(text, sizeof text, "step %d\n", step);
    if (rank == 0) CHECK(write(aside, text, (size_t)bytes) == bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    pause_ms(o.step_ms);
    CHECK(read(0, text, 1) == 1 && text[0] == "abcdefghijklmnopqrstuvwxyz"[(step - 1) % 26]);
  }
  CHECK(fflush(NULL) == 0);
  FILE *files[2] = {fopen(own_path("output"), "r"), fopen(own_path("errors"), "r")};
  for (int i = 0; i < 2; i++) {
    for (int step = 1; step <= o.steps; step++) {
      char word[8];
      int value = 0;
      CHECK(files[i] && fscanf(files[i], "%7s %d", word, &value) == 2 && value == step);
      mix_int(value);
    }
    char more[2];
    CHECK(fscanf(files[i], "%1s", more) == EOF);
  }
  fclose(files[0]);
  fclose(files[1]);
  CHECK(dup2(aside, 1) == 1);
  finish();
  return 0;
}
