// SPDX-License-Identifier: Apache-2.0
// The life of a launcher: read the command line, watch the boundary, then start the application or,
// for a restart, the lower half. The rest happens on the guests' stacks (start.cpp); traps and
// signals enter through traps.cpp and threads/stop.cpp.
#include <elf.h>

#include "arch/x86_64/context.h"
#include "base/text.h"
#include "files/describe.h"
#include "halves/crossing.h"
#include "launcher/config.h"
#include "launcher/ids/thread.h"
#include "launcher/image/children.h"
#include "launcher/image/helpers.h"
#include "launcher/image/restore.h"
#include "launcher/image/save.h"
#include "launcher/load/address_space.h"
#include "launcher/load/placement.h"
#include "launcher/patch/vdso.h"
#include "launcher/process/credentials.h"
#include "launcher/process/descriptors.h"
#include "launcher/process/exec.h"
#include "launcher/process/undone.h"
#include "launcher/start.h"
#include "launcher/threads/held_signals.h"
#include "launcher/threads/scheduling.h"
#include "launcher/threads/stop.h"
#include "launcher/threads/tls_pool.h"
#include "launcher/traps.h"
#include "sys/check.h"
#include "sys/faults.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

void register_upper(const UpperCalls* upper, i64 gate_offset) {
  crossing().gate_offset = gate_offset;
  crossing().upper = upper;
}

/// The application's descriptor numbers must be free after a restart; the one that MPICH's launcher
/// passes by number is moved up, and its name in the lower half's environment with it.
void move_process_manager_descriptor(int first) {
  const char* value = environment("PMI_FD");
  if (!value[0]) return;
  static Text<32> moved;
  const u64 fd = parse_decimal(value);
  const Result<u64> high = sys::fcntl(int(fd), sys::kDupFd, first);
  if (!high) return;
  (void)sys::close(int(fd));
  moved << "PMI_FD=" << high.value;
  for (char** entry = config.envp; *entry; entry++)
    if (text_starts(*entry, "PMI_FD=")) *entry = moved.data;
}

void note_rank() {
  const char* digits = config.rank;
  if (digits[0]) sys::checked_rank = u32(parse_decimal(digits));
}

}  // namespace

/// The table at kLauncherCallsAt; the build places this section at kLauncherBase + 0x1000.
[[gnu::section(".fermata_calls"), gnu::used]] extern const LauncherCalls kLauncherCalls = {
    kCrossingVersion, sizeof(LauncherCalls), lower_ready, register_upper,
    // Not wrapped: what hold() leaves on the upper stack must be the assembly's frame alone.
    reinterpret_cast<HoldResult (*)(void*)>(&arch::fermata_hold_entry),
    save,             save_finish,       save_described,
    nudge,            config_value,      leave,
    resume,           stop_others,       release,
    acquire_tls,      donate_tls,        load_lower,
    end_helpers,      share,             share_again,
    unshare,           renew_lower,       heard,
    stop_holding,
};

extern "C" void fermata_main(u64* initial_stack) {
  parse_command_line(initial_stack);
  settle_address_space(initial_stack);
  faults::arm(config_value("faults"), config.rank);
  note_rank();
  if (!(auxv_value(AT_HWCAP2) & 2))
    die("this kernel does not let programs write FS and GS", "FSGSBASE", 0,
        "needs a CPU since 2012, Linux 5.9, and no nofsgsbase on the kernel's command line");
  note_scheduling();
  note_credentials();
  note_given();
  place_lower_descriptors();
  if (config.restore[0]) look_at_image();
  place_vdso(config.restore[0] ? saved_restarts + 1 : 0);
  move_process_manager_descriptor(first_lower_descriptor());
  note_ambient_descriptors();
  adopt_main_thread();
  install_quiesce_handler();
  note_held_signals();
  // A program that execs another keeps the filter, and each one more would cost every call.
  install_boundary(config.first[0] == 0);
  note_first_state();
  // Everything that the machine can refuse has been asked for; `fermata doctor` wanted to know.
  if (config.probe[0]) {
    if (text_equal(config.probe, "saving") && !files::can_compare_files())
      die("ranks could not be saved here", "kcmp(2)", 0, "a container must allow it");
    sys::exit_group(0);
  }
  note_first_children();
  if (config.restore[0] == 0) start_application();
  start_lower();
}

}  // namespace fermata::launch
