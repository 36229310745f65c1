// SPDX-License-Identifier: Apache-2.0
// Row: a directory that is being read, and another that files are opened relative to
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

#define FILES 200

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK(mkdir(own_path("many"), 0755) == 0);
  const int place = open(own_path("many"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(place >= 0);
  for (int i = 0; i < FILES; i++) {
    char name[16];
    snprintf(name, sizeof name, "file%d", i);
    close(openat(place, name, O_WRONLY | O_CREAT, 0644));
  }
  DIR *listing = opendir(own_path("many"));
  CHECK(listing);
  int seen[FILES] = {0}, found = 0;
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < FILES / 20; i++) {
      const struct dirent *entry = readdir(listing);
      int number;
      if (entry && sscanf(entry->d_name, "file%d", &number) == 1) found++, seen[number]++;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    char name[16];
    snprintf(name, sizeof name, "file%d", step);
    CHECK(faccessat(place, name, R_OK, 0) == 0);
  }
  for (const struct dirent *entry; (entry = readdir(listing));) {
    int number;
    if (sscanf(entry->d_name, "file%d", &number) == 1) found++, seen[number]++;
  }
  CHECK(found == FILES);
  for (int i = 0; i < FILES; i++) CHECK(seen[i] == 1);
  mix_int(found);
  finish();
  return 0;
}
