// SPDX-License-Identifier: Apache-2.0
// Error classes, codes and texts that the program has added mean the same after a restart. They are
// removed (MPI-4.1, where the MPI has it) from the text to the class, and in no other order.
#define _GNU_SOURCE
#include "../check.h"

#include <dlfcn.h>

typedef int (*removal)(int);

static void check_removal(void) {
  const removal remove_class = (removal)dlsym(RTLD_DEFAULT, "MPI_Remove_error_class");
  const removal remove_code = (removal)dlsym(RTLD_DEFAULT, "MPI_Remove_error_code");
  const removal remove_text = (removal)dlsym(RTLD_DEFAULT, "MPI_Remove_error_string");
  if (!remove_class) return;
  int class, code;
  MPI_Add_error_class(&class);
  MPI_Add_error_code(class, &code);
  MPI_Add_error_string(class, "a class that goes");
  MPI_Add_error_string(code, "a code that goes");
  CHECK(remove_class(class) != MPI_SUCCESS && remove_code(code) != MPI_SUCCESS);
  CHECK(remove_text(code) == MPI_SUCCESS && remove_code(code) == MPI_SUCCESS);
  CHECK(remove_code(code) != MPI_SUCCESS && remove_class(class) != MPI_SUCCESS);
  CHECK(remove_text(class) == MPI_SUCCESS && remove_class(class) == MPI_SUCCESS);
  CHECK(remove_class(class) != MPI_SUCCESS && remove_class(MPI_ERR_IO) != MPI_SUCCESS);
  // A program that does so all the time is given the same numbers.
  for (int i = 0; i < 100000; i++) {
    int again, of_it;
    MPI_Add_error_class(&again);
    MPI_Add_error_code(again, &of_it);
    CHECK(again == class && of_it == code);
    CHECK(remove_code(of_it) == MPI_SUCCESS && remove_class(again) == MPI_SUCCESS);
  }
}

static int last_code;
static void handle(MPI_Comm *comm, int *code, ...) {
  (void)comm;
  last_code = *code;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  int class = 0, code = 0, other = 0, *last = NULL, flag = 0;
  MPI_Errhandler own;
  MPI_Comm_create_errhandler(handle, &own);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
  check_removal();
  MPI_Add_error_class(&class);
  MPI_Add_error_code(class, &code);
  MPI_Add_error_code(MPI_ERR_IO, &other);
  MPI_Add_error_string(class, "a class of ours");
  MPI_Add_error_string(code, "a code of ours");
  CHECK(class > MPI_ERR_LASTCODE && code > MPI_ERR_LASTCODE && code != class);
  for (int step = 1; step <= o.steps; step++) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0, found = 0;
    report_step(step, o.step_ms);
    MPI_Error_class(code, &found);
    CHECK(found == class);
    MPI_Error_class(other, &found);
    CHECK(found == MPI_ERR_IO);
    MPI_Error_string(code, text, &length);
    CHECK(!strcmp(text, "a code of ours") && length == 14);
    MPI_Error_string(class, text, &length);
    CHECK(!strcmp(text, "a class of ours"));
    MPI_Error_string(MPI_ERR_RANK, text, &length);
    CHECK(length > 0);
    MPI_Comm_call_errhandler(MPI_COMM_WORLD, code);
    CHECK(last_code == code);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag && *last >= other);
    mix_int(step);
  }
  MPI_Errhandler_free(&own);
  finish();
  return 0;
}
