// SPDX-License-Identifier: Apache-2.0
// A program that begins with a session: its communicators come from process sets. MPI_Init is
// called in the tenth step, or at the end, while the session continues; others are opened and
// finalized in every step. Beyond what the real MPIs do, the first session outlives MPI_Finalize,
// and another one is opened after it. With headers of MPI-3, MPI_COMM_WORLD alone.
#include "../check.h"

static int sum_on(MPI_Comm comm, int value) {
  int sum = -1;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

static int begun(void) {
  int flag = -1;
  MPI_Initialized(&flag);
  return flag;
}

#if MPI_VERSION >= 4
static MPI_Session session;
static int handled;

static void handler(MPI_Session *failed, int *code, ...) {
  CHECK(*failed != MPI_SESSION_NULL && *code != MPI_SUCCESS);
  handled++;
}

static MPI_Comm comm_of(MPI_Session from, const char *set) {
  MPI_Group group;
  MPI_Comm made;
  CHECK(MPI_Group_from_session_pset(from, set, &group) == MPI_SUCCESS);
  MPI_Comm_create_from_group(group, set, MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
  MPI_Group_free(&group);
  return made;
}

static void open_session(MPI_Session *opened) {
  CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, opened) == MPI_SUCCESS);
}

static void ask(MPI_Session of) {
  int sets = 0, found = 0;
  char name[64], value[64];
  MPI_Info info;
  MPI_Session_get_num_psets(of, MPI_INFO_NULL, &sets);
  for (int i = 0; i < sets; i++) {
    int length = 0;
    MPI_Session_get_nth_pset(of, MPI_INFO_NULL, i, &length, NULL);
    CHECK(length > 0 && length < 64);
    MPI_Session_get_nth_pset(of, MPI_INFO_NULL, i, &length, name);
    const int world = !strcmp(name, "mpi://WORLD"), self = !strcmp(name, "mpi://SELF");
    if (!world && !self) continue;
    MPI_Session_get_pset_info(of, name, &info);
    MPI_Info_get(info, "mpi_size", 63, value, &found);
    CHECK(found && atoi(value) == (world ? ranks : 1));
    MPI_Info_free(&info);
    mix_int(world);
  }
  MPI_Session_get_info(of, &info);
  MPI_Info_get(info, "thread_level", 63, value, &found);
  CHECK(found && !strncmp(value, "MPI_THREAD_", 11));
  MPI_Info_free(&info);
}

static MPI_Comm begin(void) {
  open_session(&session);
  return comm_of(session, "mpi://WORLD");
}

static void one_more(void) {
  MPI_Session other;
  open_session(&other);
  ask(other);
  MPI_Comm self = comm_of(other, "mpi://self");
  mix_int(sum_on(self, rank));
  MPI_Comm_free(&self);
  MPI_Session_finalize(&other);
  CHECK(other == MPI_SESSION_NULL);
}

static void wrong_names(void) {
  MPI_Errhandler made;
  MPI_Group group;
  const int before = handled;
  MPI_Session_create_errhandler(handler, &made);
  MPI_Session_set_errhandler(session, made);
  MPI_Errhandler_free(&made);
  CHECK(MPI_Group_from_session_pset(session, "mpi://NOWHERE", &group) != MPI_SUCCESS);
  MPI_Session_call_errhandler(session, MPI_ERR_OTHER);
  CHECK(handled == before + 2);
}

static void outlive(MPI_Comm comm) {
  int flag = 0;
  MPI_Finalized(&flag);
  CHECK(flag);
  CHECK(sum_on(comm, 1) == ranks);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
  MPI_Session last;
  open_session(&last);
  MPI_Comm again = comm_of(last, "mpi://WORLD");
  CHECK(sum_on(again, 2) == 2 * ranks);
  MPI_Comm_free(&again);
  MPI_Session_finalize(&last);
}
#else
static MPI_Comm begin(void) {
  MPI_Comm made;
  MPI_Init(NULL, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  return made;
}
static void one_more(void) {
  mix_int(1);  // a process set,
  mix_int(0);  // and the other one
  mix_int(rank);
}
#endif

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 12, 0);
  const int beyond = has_option(argc, argv, "--beyond");
  const int before = begun();
  MPI_Comm comm = begin();
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  CHECK(!before && begun() == (MPI_VERSION < 4));
  for (int step = 1; step <= o.steps; step++) {
    if (step == 10 && !begun()) MPI_Init(&argc, &argv);
    mix_int(sum_on(comm, rank * step));
    one_more();
    report_step(step, o.step_ms);
  }
  if (!begun()) MPI_Init(&argc, &argv);
  mix_int(sum_on(MPI_COMM_WORLD, rank));
#if MPI_VERSION >= 4
  if (beyond) {
    wrong_names();
  } else {
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
  }
  finish();
  if (beyond) outlive(comm);
#else
  (void)beyond;
  MPI_Comm_free(&comm);
  finish();
#endif
  return 0;
}
