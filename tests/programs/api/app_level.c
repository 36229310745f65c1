// SPDX-License-Identifier: Apache-2.0
// A program that saves itself (fermata_self_save): every third step all ranks ask for a checkpoint,
// write their values into one file by MPI-IO and the step into one each. --mode says how:
//   fine       as it should be
//   fails      rank 1's function returns 7 from the second checkpoint on
//   incapable  rank 1 has no such function
//   link       rank 1 leaves a symbolic link
//   slow       rank 1's function waits until there is $CHECK_HOLD.leave
#include <fermata.h>

#include "../check.h"

struct program {
  double *values;
  int size, step;
};
static const char *mode = "fine";
static int saves;

static int is_mode(const char *name) { return rank == 1 && !strcmp(mode, name); }

static void path_of(char *path, size_t bytes, const char *directory, const char *name) {
  snprintf(path, bytes, "%s/%s", directory, name);
}

// The values of all ranks, in one file.
static int move_values(const char *directory, struct program *p, int saving) {
  char path[4096];
  MPI_File file;
  MPI_Status status;
  int count = 0;
  path_of(path, sizeof path, directory, "values");
  const int access = saving ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY;
  if (MPI_File_open(MPI_COMM_WORLD, path, access, MPI_INFO_NULL, &file)) return -1;
  const MPI_Offset at = (MPI_Offset)sizeof(double) * p->size * rank;
  if (saving) {
    MPI_File_write_at_all(file, at, p->values, p->size, MPI_DOUBLE, &status);
  } else {
    MPI_File_read_at_all(file, at, p->values, p->size, MPI_DOUBLE, &status);
  }
  MPI_Get_count(&status, MPI_DOUBLE, &count);
  return MPI_File_close(&file) || count != p->size;
}

static int save(const char *directory, void *argument) {
  struct program *const p = argument;
  char path[4096], name[32], hold[4096];
  snprintf(hold, sizeof hold, "%s.leave", hold_file ? hold_file : "");
  if (is_mode("slow")) {
    printf("rank 1 saves\n");
    fflush(stdout);
    while (hold_file && access(hold, F_OK)) pause_ms(1);
  }
  if (move_values(directory, p, 1)) return -1;
  snprintf(name, sizeof name, "step-%d", rank);
  path_of(path, sizeof path, directory, name);
  FILE *const file = fopen(path, "wx");
  if (!file) return -1;
  fprintf(file, "%d\n", p->step);
  if (fclose(file)) return -1;
  path_of(path, sizeof path, directory, "link");
  if (is_mode("link") && symlink("/dev/null", path)) return -1;
  return is_mode("fails") && ++saves > 1 ? 7 : 0;
}

static void load(const char *directory, struct program *p) {
  char path[4096], name[32];
  CHECK(!move_values(directory, p, 0));
  snprintf(name, sizeof name, "step-%d", rank);
  path_of(path, sizeof path, directory, name);
  FILE *const file = fopen(path, "r");
  CHECK(file && fscanf(file, "%d", &p->step) == 1);
  fclose(file);
  printf("rank %d continues after step %d\n", rank, p->step);
  fflush(stdout);
}

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 10, 1000);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--mode")) mode = argv[i + 1];
  const char *const state = fermata_self_state();
  start(&argc, &argv);
  struct program p = {malloc(sizeof(double) * (size_t)o.size), o.size, 0};
  for (int i = 0; i < o.size; i++) p.values[i] = rank + i;
  if (state) load(state, &p);
  const int there = fermata_version() ? 0 : FERMATA_ABSENT;
  if (!is_mode("incapable")) CHECK(fermata_self_save(save, &p) == there);
  while (p.step < o.steps) {
    p.step++;
    MPI_Allreduce(MPI_IN_PLACE, p.values, o.size, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < o.size; i++) p.values[i] += rank + p.step;
    char why[300] = "";
    const int result = p.step % 3 ? there : fermata_checkpoint(why, sizeof why);
    if (p.step % 3 == 0) {
      printf("rank %d: %s in step %d: %s\n", rank,
             result == FERMATA_COMMITTED   ? "committed"
             : result == FERMATA_RESTARTED ? "restarted"
                                           : "not saved",
             p.step, why);
      fflush(stdout);
    }
    report_step(p.step, o.step_ms);
  }
  mix(p.values, sizeof(double) * (size_t)o.size);
  finish();
  return 0;
}
