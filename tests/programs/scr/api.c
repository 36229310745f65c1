// SPDX-License-Identifier: Apache-2.0
// Calls of SCR in orders, and with values, that make no sense: each returns SCR_FAILURE on all
// ranks, and harms nothing. Then configuration, by what it answers; the last line is PASS.
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, failed;

static void expect(int is_so, const char *what) {
  int all = 0;
  MPI_Allreduce(&is_so, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all) return;
  failed = 1;
  if (rank == 0) printf("FAIL %s\n", what);
}

#define FAILS(call) expect((call) == SCR_FAILURE, #call)
#define WORKS(call) expect((call) == SCR_SUCCESS, #call)

static void expect_value(const char *key, const char *wanted) {
  const char *const found = SCR_Config(key);
  expect(wanted ? found && strcmp(found, wanted) == 0 : !found, key);
  free((void *)found);
}

static void write_file(const char *name) {
  char file[SCR_MAX_FILENAME];
  WORKS(SCR_Route_file(name, file));
  FILE *const stream = fopen(file, "w");
  if (stream) fprintf(stream, "rank %d", rank);
  expect(stream && fclose(stream) == 0, name);
}

static int flag = 7;
static char name[SCR_MAX_FILENAME], mine[64];

static void before(void) {
  FAILS(SCR_Need_checkpoint(&flag));
  FAILS(SCR_Start_output("early", SCR_FLAG_CHECKPOINT));
  FAILS(SCR_Route_file("early", name));
  FAILS(SCR_Finalize());

  expect(!SCR_Config("SCR_DEBUG=1"), "setting says nothing");
  expect_value("SCR_DEBUG", "1");
  expect(!SCR_Config("SCR_DEBUG="), "unsetting says nothing");
  expect_value("SCR_DEBUG", NULL);
  expect(!SCR_Configf("CKPT=%d TYPE=%s SET_SIZE=%d", 0, "XOR", 16), "a descriptor");
  expect_value("CKPT=0 TYPE", "XOR");
  expect_value("CKPT=0 SET_SIZE", "16");
  expect_value("CKPT=1 TYPE", NULL);
  SCR_Config("SCR_FLUSH=3");        // the user's file says 2
  SCR_Config("SCR_CACHE_SIZE=3");   // the environment says 2
  SCR_Config("SCR_SET_SIZE=3");     // the system's file says 4
  expect_value("SCR_FLUSH", "2");
  expect_value("SCR_CACHE_SIZE", "2");
  expect_value("SCR_SET_SIZE", "3");
  expect_value("SCR_SET_FAILURES", "4");  // only the system's file has it
}

static void between(void) {
  WORKS(SCR_Init());
  FAILS(SCR_Init());
  expect_value("SCR_FLUSH", "2");
  expect(!SCR_Config("SCR_FLUSH=9"), "it is too late");
  expect_value("SCR_FLUSH", "2");

  WORKS(SCR_Have_restart(&flag, name));
  expect(flag == 0, "nothing to restart");
  FAILS(SCR_Start_restart(name));
  FAILS(SCR_Complete_restart(1));
  FAILS(SCR_Complete_output(1));
  FAILS(SCR_Current("nothing"));
  FAILS(SCR_Drop("nothing"));
  FAILS(SCR_Delete("nothing"));
  FAILS(SCR_Have_restart(NULL, name));
  FAILS(SCR_Start_output("flags", 8));
  FAILS(SCR_Start_output(rank == 0 ? "one" : "two", SCR_FLAG_CHECKPOINT));
  WORKS(SCR_Route_file("as/it/is", name));
  expect(strcmp(name, "as/it/is") == 0, "outside of a phase");
}

static void outputs(void) {
  WORKS(SCR_Start_output("ours", SCR_FLAG_CHECKPOINT));
  FAILS(SCR_Start_output("again", SCR_FLAG_CHECKPOINT));
  FAILS(SCR_Should_exit(&flag));
  FAILS(SCR_Route_file("/elsewhere", name));
  FAILS(SCR_Route_file(NULL, name));
  FAILS(SCR_Finalize());
  snprintf(mine, sizeof mine, "ours/%d", rank);
  write_file(mine);
  WORKS(SCR_Complete_output(1));

  WORKS(SCR_Start_checkpoint());
  write_file(mine);
  FAILS(SCR_Complete_checkpoint(rank != 0));  // one rank's word is enough
}

static void restarts(void) {
  WORKS(SCR_Current("ours"));
  WORKS(SCR_Have_restart(&flag, name));
  expect(flag == 1 && strcmp(name, "ours") == 0, "ours is there");
  WORKS(SCR_Start_restart(NULL));
  FAILS(SCR_Route_file("nobody's", name));
  WORKS(SCR_Route_file(mine, name));
  WORKS(SCR_Complete_restart(1));
  WORKS(SCR_Delete("ours"));
  expect(strncmp(SCR_Get_version(), SCR_VERSION, strlen(SCR_VERSION)) == 0, "the version");
  WORKS(SCR_Should_exit(&flag));
  expect(flag == 0, "nothing ends the job");
  WORKS(SCR_Finalize());
  FAILS(SCR_Finalize());
  FAILS(SCR_Should_exit(&flag));
}

int main(int argc, char **argv) {
  if (SCR_Init() != SCR_FAILURE) return 1;  // before MPI_Init
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  before();
  between();
  outputs();
  restarts();
  if (rank == 0 && !failed) printf("PASS\n");
  MPI_Finalize();
  return failed;
}
