// SPDX-License-Identifier: Apache-2.0
// As whom the process runs: user, groups, capabilities. Nothing here gives them to a restarted
// process; it has those of whoever restarts it.
#include "launcher/process/credentials.h"

#include "launcher/ids/thread.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

Text<2048> first_ids;  // who this process was started as

/// The lines of /proc/PID/task/TID/status that tell as whom a thread runs.
void read_ids(u32 pid, u32 tid, Text<2048>& out) {
  constexpr const char* kNames[] = {"Uid:",    "Gid:",    "Groups:", "CapInh:",
                                    "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
  static char text[1 << 16];
  Text<64> path;
  path << "/proc/" << pid << "/task/" << tid << "/status";
  out = {};
  (void)sys::read_text(path.data, text, sizeof text);
  const char* line = text;
  while (*line) {
    bool wanted = false;
    for (const char* name : kNames) wanted = wanted || text_starts(line, name);
    for (; *line && *line != '\n'; line++)
      if (wanted) out.put(*line);
    if (*line) line++;
    if (wanted) out.put('\n');
  }
}

}  // namespace

void note_credentials() { read_ids(sys::getpid(), sys::gettid(), first_ids); }

Status refuse_other_credentials(u32 pid, Message& why) {
  for (const Thread& thread : threads) {
    if (!stands(thread)) continue;
    static Text<2048> ids;
    read_ids(pid, thread.tid, ids);
    if (text_equal(ids.data, first_ids.data)) continue;
    why << "thread " << thread.id << " has changed who it runs as (user, group or capabilities): "
        << "a restart would undo that";
    return failure(sys::kEperm);
  }
  return success();
}

}  // namespace fermata::launch
