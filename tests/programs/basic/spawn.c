// SPDX-License-Identifier: Apache-2.0
// Processes that come and go: all ranks together spawn workers, talk to them across the
// intercommunicator and in the merged one, and disconnect. Between two such times the job can be
// saved, and the next workers run on the new MPI. Ranks of the job that connect through a port have
// an ordinary intercommunicator, which is saved as such.
//
// Where the MPI cannot do that (Debian's MPICH 4.0), its error is passed over: the lines `spawned`
// and `met` tell what was done. --held-step K: at step K the workers are kept for two seconds, and
// at step K + 1 a port is.
#include "../check.h"

enum { kWorkers = 2 };

// Everybody has given `value`; the sum of the other group's is known.
static void use_and_free(MPI_Comm inter, int value, int expected) {
  int sum = -1;
  CHECK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter) == MPI_SUCCESS);
  CHECK(sum == expected);
  MPI_Comm_free(&inter);
}

// Intercommunicators between the jobs, and between two groups that have members of both: with
// leaders of one job, of the other, and one of each.
static void connect_again(MPI_Comm all, int parents, int is_worker) {
  int place = -1, size = -1, expected = 0, last = 0;
  MPI_Comm part, inter;
  MPI_Comm_rank(all, &place);
  MPI_Comm_size(all, &size);
  CHECK(!MPI_Intercomm_create(MPI_COMM_WORLD, 0, all, is_worker ? 0 : parents, 20, &inter));
  use_and_free(inter, 1, is_worker ? parents : size - parents);
  const int odd = place % 2, last_other = size - 1 - ((size - 1) % 2 == odd);
  for (int other = !odd; other < size; other += 2) expected += other;
  MPI_Comm_split(all, odd, place, &part);
  MPI_Comm_size(part, &last);
  last--;
  CHECK(!MPI_Intercomm_create(part, 0, all, !odd, 21, &inter));
  use_and_free(inter, place, expected);
  CHECK(!MPI_Intercomm_create(part, last, all, last_other, 22, &inter));
  use_and_free(inter, place, expected);
  CHECK(!MPI_Intercomm_create(part, odd ? last : 0, all, odd ? 0 : last_other, 23, &inter));
  use_and_free(inter, place, expected);
  MPI_Comm_free(&part);
}

// A communicator of every second process of both jobs, by its group, and what the group says.
static void regroup(MPI_Comm all) {
  int size = -1, places[16], numbers[16], count = 0, sum = 0, result = -1, one = 1;
  MPI_Group group, half, same;
  MPI_Comm part;
  MPI_Comm_size(all, &size);
  CHECK(size <= 16);
  for (int place = size - 1; place >= 0; place -= 2) places[count++] = place;
  MPI_Comm_group(all, &group);
  MPI_Group_incl(group, count, places, &half);
  MPI_Group_translate_ranks(half, 1, &one, group, numbers);
  CHECK(numbers[0] == size - 3);
  MPI_Group_intersection(half, group, &same);
  MPI_Group_compare(half, same, &result);
  CHECK(result == MPI_IDENT);
  CHECK(MPI_Comm_create(all, half, &part) == MPI_SUCCESS);
  if (part != MPI_COMM_NULL) {
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, part);
    CHECK(sum == count);
    MPI_Comm_free(&part);
  }
  MPI_Group_free(&group);
  MPI_Group_free(&half);
  MPI_Group_free(&same);
}

static int worker(MPI_Comm parents) {
  int number = -1, sum = -1, size = -1, flag = 0;
  MPI_Comm all;
  MPI_Comm_remote_size(parents, &size);
  MPI_Comm_test_inter(parents, &flag);
  CHECK(flag && ranks == kWorkers);
  MPI_Bcast(&number, 1, MPI_INT, 0, parents);
  const int answer = 100 * number + rank;
  MPI_Send(&answer, 1, MPI_INT, rank % size, 5, parents);
  MPI_Intercomm_merge(parents, 1, &all);
  MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, all);
  CHECK(sum == number * (size + kWorkers));
  connect_again(all, size, 1);
  regroup(all);
  MPI_Barrier(parents);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&parents);
  MPI_Comm_get_parent(&parents);
  MPI_Finalize();
  return 0;
}

static void say(const char *what) {
  if (rank == 0) printf("%s\n", what);
  fflush(stdout);
}

static void spawn_and_talk(char *program, int step, int hold_ms) {
  char *arguments[] = {"one", "two words", NULL};
  int errors[kWorkers] = {-1, -1}, size = -1, number = step, sum = -1;
  MPI_Comm workers, all;
  const int ignores = step % 2, asked = rank == 0 ? kWorkers : -7;  // read at the root alone
  if (MPI_Comm_spawn(program, arguments, asked, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &workers,
                     ignores ? MPI_ERRCODES_IGNORE : errors) != MPI_SUCCESS)
    return say("not spawned");
  CHECK(ignores || (errors[0] == MPI_SUCCESS && errors[1] == MPI_SUCCESS));
  MPI_Comm_remote_size(workers, &size);
  CHECK(size == kWorkers);
  MPI_Bcast(&number, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, workers);
  for (int i = rank; i < kWorkers; i += ranks) {
    int answer = -1;
    MPI_Status status;
    MPI_Recv(&answer, 1, MPI_INT, MPI_ANY_SOURCE, 5, workers, &status);
    CHECK(answer == 100 * step + status.MPI_SOURCE);
  }
  if (hold_ms) say("held");
  pause_ms(hold_ms);
  MPI_Intercomm_merge(workers, 0, &all);
  MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, all);
  CHECK(sum == step * (ranks + kWorkers));
  connect_again(all, ranks, 0);
  regroup(all);
  MPI_Barrier(workers);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&workers);
  CHECK(workers == MPI_COMM_NULL);
  say("spawned");
}

// The lower half of the ranks offers a port, the others connect to it.
static MPI_Comm meet(MPI_Comm half, int offers) {
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm inter;
  int error = 0;
  if (rank == 0) error = MPI_Open_port(MPI_INFO_NULL, port);
  MPI_Bcast(&error, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (error) {
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, offers ? ranks / 2 : 0, 1, &inter);
    return inter;
  }
  if (offers) MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
  else MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
  if (rank == 0) MPI_Close_port(port);
  say("met");
  return inter;
}

static void hold_port(void) {
  char port[MPI_MAX_PORT_NAME];
  if (rank != 0 || MPI_Open_port(MPI_INFO_NULL, port)) return;
  say("port");
  pause_ms(2000);
  MPI_Close_port(port);
}

int main(int argc, char **argv) {
  MPI_Comm parents, half, inter;
  int held_step = 0;
  start(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_get_parent(&parents);
  if (parents != MPI_COMM_NULL) {
    CHECK(argc == 3 && !strcmp(argv[1], "one") && !strcmp(argv[2], "two words"));
    return worker(parents);
  }
  const struct options o = parse_options(argc, argv, 8, 0);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--held-step")) held_step = atoi(argv[i + 1]);
  const int offers = rank < ranks / 2;
  MPI_Comm_split(MPI_COMM_WORLD, offers, rank, &half);
  inter = meet(half, offers);
  for (int step = 1; step <= o.steps; step++) {
    int sum = 0;
    report_step(step, o.step_ms);
    if (step % 4 == 3) spawn_and_talk(argv[0], step, step == held_step ? 2000 : 0);
    if (held_step && step == held_step + 1) hold_port();
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    mix_int(sum);
  }
  MPI_Comm_disconnect(&inter);
  MPI_Comm_free(&half);
  finish();
  return 0;
}
