// SPDX-License-Identifier: Apache-2.0
// Hints of communicators and windows, as programs give them and look at them.
#ifndef HINTS_H
#define HINTS_H

#include "../check.h"

// An info object with one pair.
static inline MPI_Info one_hint(const char *key, const char *value) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, value);
  return info;
}

// Looks for a pair; expected: its value, or NULL where there is to be none. Frees the info object.
static inline void check_hint_in(MPI_Info info, const char *key, const char *expected) {
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int flag = -1;
  MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag);
  MPI_Info_free(&info);
  CHECK(flag == (expected != NULL));
  if (expected) CHECK(!strcmp(value, expected));
}

#endif
