// SPDX-License-Identifier: Apache-2.0
#include "agent/wrappers.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

namespace fermata::agent {

namespace {

constexpr int kDepthMax = 32;

// Field 4 of /proc/PID/stat, counted behind the command's name, which may hold anything.
u32 parent_of(u32 pid) {
  char path[64], text[512];
  snprintf(path, sizeof(path), "/proc/%u/stat", pid);
  FILE* const file = fopen(path, "re");
  if (file == nullptr) return 0;
  text[fread(text, 1, sizeof(text) - 1, file)] = 0;
  fclose(file);
  const char* const name_end = strrchr(text, ')');
  u32 parent = 0;
  if (name_end == nullptr || sscanf(name_end, ") %*c %u", &parent) != 1) return 0;
  return parent;
}

}  // namespace

void end_wrappers(u32 first) {
  u32 chain[kDepthMax];
  int count = 0;
  for (u32 pid = parent_of(static_cast<u32>(getpid())); pid > 1; pid = parent_of(pid)) {
    if (count == kDepthMax) return;
    chain[count++] = pid;
    if (pid == first) break;
  }
  if (count == 0 || chain[count - 1] != first) return;
  while (count > 0) kill(static_cast<pid_t>(chain[--count]), SIGKILL);
}

}  // namespace fermata::agent
