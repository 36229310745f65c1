// SPDX-License-Identifier: Apache-2.0
// An invariant that does not hold ends the process with one line that says which, where and whose.
#include "sys/check.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

int evaluated;

bool holds(bool yes) {
  evaluated++;
  return yes;
}

// What a child says that checks something false.
bool dies_saying(const char* words) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    FERMATA_CHECK(holds(false), "a slot below `high` is free or live");
    _exit(0);
  }
  close(ends[1]);
  char said[1024] = "";
  for (size_t used = 0; used < sizeof(said) - 1;) {
    const ssize_t got = read(ends[0], said + used, sizeof(said) - 1 - used);
    if (got <= 0) break;
    used += size_t(got);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 70 && strstr(said, words) &&
                    strstr(said, "tests/unit/check.cpp:") &&
                    strstr(said, "it does not hold that a slot below `high` is free or live");
  if (!good) fprintf(stderr, "status %x: %s\n", status, said);
  return good;
}

}  // namespace

int main() {
  FERMATA_CHECK(holds(true), "a true thing is true");
  if (evaluated != 1) return 1;
  if (!dies_saying("fermata: internal error at ")) return 2;
  fermata::sys::checked_rank = 3;
  return dies_saying("fermata: rank 3: internal error at ") ? 0 : 3;
}
