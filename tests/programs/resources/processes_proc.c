// SPDX-License-Identifier: Apache-2.0
// Row: the program's own arguments, environment and auxiliary vector in /proc/self
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "../check.h"

extern char **environ;

static size_t read_all(const char *path, char *to, size_t capacity) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  size_t size = 0;
  for (ssize_t got; (got = read(file, to + size, capacity - size)) > 0;) size += (size_t)got;
  CHECK(close(file) == 0);
  return size;
}

static char text[1 << 20];

static void compare(const char *path, char *const *words) {
  const size_t size = read_all(path, text, sizeof text);
  size_t at = 0;
  for (; *words; words++) {
    const size_t length = strlen(*words) + 1;
    CHECK(at + length <= size && !memcmp(text + at, *words, length));
    at += length;
  }
  CHECK(at == size);
}

int main(int argc, char **argv) {
  char **const words = malloc((size_t)(argc + 1) * sizeof *words);
  memcpy(words, argv, (size_t)(argc + 1) * sizeof *words);
  size_t count = 0;
  while (environ[count]) count++;
  char **const variables = malloc((count + 1) * sizeof *variables);
  memcpy(variables, environ, (count + 1) * sizeof *variables);
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    compare("/proc/self/cmdline", words);
    compare("/proc/self/environ", variables);
    const size_t size = read_all("/proc/self/auxv", text, sizeof text);
    const Elf64_auxv_t *entry = (const Elf64_auxv_t *)text;
    CHECK(size >= sizeof *entry);
    int found = 0;
    for (; entry->a_type != AT_NULL; entry++) {
      const unsigned long type = entry->a_type;  // of others the C library may keep its own idea
      if (type != AT_PHDR && type != AT_ENTRY && type != AT_RANDOM && type != AT_EXECFN) continue;
      CHECK(getauxval(type) == entry->a_un.a_val);
      found++;
    }
    CHECK(found == 4);
    mix_int(step);
  }
  finish();
  return 0;
}
