// SPDX-License-Identifier: Apache-2.0
// Paths inside the directory --dir DIR, which a program has to itself.
#ifndef DIRECTORY_H
#define DIRECTORY_H

#include "../check.h"

static char directory[400] = ".";

static inline void parse_directory(int argc, char **argv) {
  snprintf(directory, sizeof directory, "%s", directory_option(argc, argv));
}

// DIR/name.RANK, or DIR/name for all ranks; the text stays until the next call but three.
static inline const char *own_path(const char *name) {
  static char text[4][512];
  static int turn;
  char *const out = text[turn++ % 4];
  snprintf(out, sizeof text[0], "%s/%s.%d", directory, name, rank);
  return out;
}
static inline const char *shared_path(const char *name) {
  static char text[512];
  snprintf(text, sizeof text, "%s/%s", directory, name);
  return text;
}

#endif
