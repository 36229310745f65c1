// SPDX-License-Identifier: Apache-2.0
// The interface of tools: whatever variables an MPI has, a program that looks through all of them
// finds what it was told, and names that nobody has are unknown. Over the pause of each step it
// keeps the interface, and a session of performance variables.
// Option: --beyond 1 (there are none, so that none is gone after a restart).
#include "../check.h"

static void look_at_control(int beyond) {
  int count = -1;
  CHECK(MPI_T_cvar_get_num(&count) == MPI_SUCCESS && count >= 0);
  if (beyond) CHECK(count == 0);
  for (int i = 0; i < count && i < 16; i++) {
    char name[128];
    int length = sizeof name, verbosity, bind, scope, found = -1;
    MPI_Datatype type;
    MPI_T_enum items;
    const int code = MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &items, NULL, NULL,
                                         &bind, &scope);
    // Open MPI counts some that it does not have any more.
    if (code == MPI_SUCCESS && length < (int)sizeof name)
      CHECK(MPI_T_cvar_get_index(name, &found) == MPI_SUCCESS);
  }
  if (beyond)  // the real ones read beyond their tables
    CHECK(MPI_T_cvar_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) ==
          MPI_T_ERR_INVALID_INDEX);
}

static void look_at_performance(int beyond, MPI_T_pvar_session session) {
  int count = -1, elements = 0;
  MPI_T_pvar_handle handle;
  CHECK(MPI_T_pvar_get_num(&count) == MPI_SUCCESS && count >= 0);
  if (beyond) CHECK(count == 0);
  if (beyond)
    CHECK(MPI_T_pvar_handle_alloc(session, 0, NULL, &handle, &elements) ==
          MPI_T_ERR_INVALID_INDEX);
  CHECK(MPI_T_category_get_num(&count) == MPI_SUCCESS && count >= 0);
  if (beyond) CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
  if (beyond) CHECK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
}

int main(int argc, char **argv) {
  int provided = -1, count = -1, index = -1;
  CHECK(MPI_T_cvar_get_num(&count) == MPI_T_ERR_NOT_INITIALIZED);
  CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
  CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int beyond = has_option(argc, argv, "--beyond");
  MPI_T_pvar_session session;
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  for (int step = 1; step <= o.steps; step++) {
    report_step(step, o.step_ms);
    look_at_control(beyond);
    look_at_performance(beyond, session);
    CHECK(MPI_T_cvar_get_index("no_such_variable", &index) == MPI_T_ERR_INVALID_NAME);
    mix_int(step);
  }
  CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
  CHECK(session == MPI_T_PVAR_SESSION_NULL);
  CHECK(MPI_T_finalize() == MPI_SUCCESS);
  finish();
  return 0;
}
