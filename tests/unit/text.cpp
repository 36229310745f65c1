// SPDX-License-Identifier: Apache-2.0
// A message that is too long for its place keeps its beginning and its end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static void expect(fermata::u64 capacity, const char* text) {
  char* const place = static_cast<char*>(malloc(capacity));  // the sanitizer notices one byte more
  fermata::shorten(place, capacity, "0123456789abcdefghij");
  if (strcmp(place, text)) {
    fprintf(stderr, "in %llu bytes: '%s', not '%s'\n", capacity, place, text);
    exit(1);
  }
  free(place);
}

int main() {
  expect(50, "0123456789abcdefghij");
  expect(21, "0123456789abcdefghij");
  expect(20, "0123456 ... defghij");
  expect(19, "012345 ... defghij");
  expect(7, " ... j");
}
