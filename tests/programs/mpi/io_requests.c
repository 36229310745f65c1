// SPDX-License-Identifier: Apache-2.0
// Many requests of one file at once, beside messages, completed by every call that takes an array:
// individual ones (MPICH makes generalized requests with functions of its own of them) and
// collective ones, which exchange what they write, for the ranks' blocks take turns in the file.
// Options: --dir DIRECTORY, --beyond 1 (all but MPI_Waitall, where Debian's MPICH 4.0 waits for
// ever, or ends in an assertion, by itself).
#include "../check.h"

enum { kMany = 12, kInts = 4096, kBlock = 256, kAll = kMany + 2 };

static MPI_File file;
static int data[kMany][kInts], back[kMany][kInts], sent, got;
static MPI_Request requests[kAll];

// Begins to write, or read back, kMany pieces, and a message around the ring in front and behind.
static void begin(int step, int writes, int collective) {
  sent = 100 * step + rank;
  got = -1;
  MPI_Irecv(&got, 1, MPI_INT, (rank + ranks - 1) % ranks, step, MPI_COMM_WORLD, &requests[0]);
  for (int k = 0; k < kMany; k++) {
    const MPI_Offset at = (MPI_Offset)kInts * k;
    for (int i = 0; i < kInts; i++) {
      if (writes) data[k][i] = 1000000 * rank + 10000 * step + 10 * k + i;
      else back[k][i] = -1;
    }
    MPI_Request *const request = &requests[1 + k];
    if (writes && collective)
      MPI_File_iwrite_at_all(file, at, data[k], kInts, MPI_INT, request);
    else if (writes) MPI_File_iwrite_at(file, at, data[k], kInts, MPI_INT, request);
    else if (collective) MPI_File_iread_at_all(file, at, back[k], kInts, MPI_INT, request);
    else MPI_File_iread_at(file, at, back[k], kInts, MPI_INT, request);
  }
  MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % ranks, step, MPI_COMM_WORLD, &requests[kAll - 1]);
}

static void check_status(int i, MPI_Status *status) {
  int count = -1;
  MPI_Get_count(status, MPI_INT, &count);
  if (i != kAll - 1) CHECK(count == (i == 0 ? 1 : kInts));
}

static void complete(int how) {
  MPI_Status statuses[kAll];
  int places[kAll], found = 0, done = 0;
  switch (how) {
    case 0:
      CHECK(MPI_Waitall(kAll, requests, statuses) == MPI_SUCCESS);
      for (int i = 0; i < kAll; i++) check_status(i, &statuses[i]);
      break;
    case 1: CHECK(MPI_Waitall(kAll, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS); break;
    case 2:
      for (; done < kAll; done += found) {
        CHECK(MPI_Waitsome(kAll, requests, &found, places, statuses) == MPI_SUCCESS);
        for (int n = 0; n < found; n++) check_status(places[n], &statuses[n]);
      }
      break;
    case 3:
      for (; done < kAll; done++) {
        CHECK(MPI_Waitany(kAll, requests, places, statuses) == MPI_SUCCESS);
        check_status(places[0], statuses);
      }
      break;
    case 4:
      for (; done < kAll; done += found)
        CHECK(MPI_Testsome(kAll, requests, &found, places, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
      break;
    case 5:
      while (done < kAll) {
        CHECK(MPI_Testany(kAll, requests, places, &found, statuses) == MPI_SUCCESS);
        done += found;
      }
      break;
    default:
      while (!done) CHECK(MPI_Testall(kAll, requests, &done, statuses) == MPI_SUCCESS);
      for (int i = 0; i < kAll; i++) check_status(i, &statuses[i]);
  }
  for (int i = 0; i < kAll; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 14, 0);
  int beyond = 0;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--beyond")) beyond = atoi(argv[i + 1]);
  char name[4096];
  snprintf(name, sizeof name, "%s/requests.%d", directory_option(argc, argv), ranks);
  CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                      &file) == MPI_SUCCESS);
  MPI_Datatype block, mine;
  MPI_Type_contiguous(kBlock, MPI_INT, &block);
  MPI_Type_create_resized(block, 0, (MPI_Aint)sizeof(int) * kBlock * ranks, &mine);
  MPI_Type_commit(&mine);
  MPI_File_set_view(file, (MPI_Offset)sizeof(int) * kBlock * rank, MPI_INT, mine, "native",
                    MPI_INFO_NULL);
  MPI_Type_free(&block);
  MPI_Type_free(&mine);
  for (int step = 1; step <= o.steps; step++) {
    const int collective = step % 2, how = step % (beyond ? 7 : 2);
    begin(step, 1, collective);
    report_step(step, o.step_ms);
    complete(how);
    begin(step, 0, collective);
    complete(how);
    CHECK(got == 100 * step + (rank + ranks - 1) % ranks);
    CHECK(!memcmp(data, back, sizeof data));
    mix_int(back[step % kMany][step]);
  }
  MPI_File_close(&file);
  finish();
}
