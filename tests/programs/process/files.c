// SPDX-License-Identifier: Apache-2.0
// Files that stay open across checkpoints: appended to, written at an offset, read on, read by two
// descriptors that share one offset. The contents are checked at the end. Files are made in the
// directory --dir DIR (default: the working directory).
#include <fcntl.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const char *const directory = directory_option(argc, argv);
  char log_name[512], table_name[512], line[64];
  snprintf(log_name, sizeof log_name, "%s/files.log.%d", directory, rank);
  snprintf(table_name, sizeof table_name, "%s/files.table.%d", directory, rank);
  FILE *log = fopen(log_name, "w+");
  const int table = open(table_name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  const int twin = dup(table);
  const int appender = open(table_name, O_WRONLY | O_APPEND);
  CHECK(log && table >= 0 && twin >= 0 && appender >= 0);
  for (int step = 1; step <= o.steps; step++) {
    fprintf(log, "rank %d step %d\n", rank, step);  // stays in the stdio buffer for a while
    if (step % 3 == 0) fflush(log);
    const int record[2] = {step, step * step};
    CHECK(write(step % 2 ? table : twin, record, sizeof record) == (ssize_t)sizeof record);
    CHECK(lseek(table, 0, SEEK_CUR) == (off_t)(step * (int)sizeof record));
    CHECK(lseek(twin, 0, SEEK_CUR) == (off_t)(step * (int)sizeof record));
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  const int last[2] = {-1, -1};
  CHECK(write(appender, last, sizeof last) == (ssize_t)sizeof last);
  CHECK(lseek(table, 0, SEEK_SET) == 0);
  for (int step = 1; step <= o.steps + 1; step++) {
    int record[2];
    CHECK(read(twin, record, sizeof record) == (ssize_t)sizeof record);
    CHECK(step > o.steps ? record[0] == -1 : record[0] == step && record[1] == step * step);
    mix(record, sizeof record);
  }
  rewind(log);
  for (int step = 1; step <= o.steps; step++) {
    char expected[64];
    snprintf(expected, sizeof expected, "rank %d step %d\n", rank, step);
    CHECK(fgets(line, sizeof line, log) && !strcmp(line, expected));
    mix(line, strlen(line));
  }
  CHECK(!fgets(line, sizeof line, log));
  fclose(log);
  finish();
  return 0;
}
