// SPDX-License-Identifier: Apache-2.0
// /proc/self/cmdline, environ and auxv show what lies at addresses that the kernel remembers of the
// exec, which was the launcher's. Programs look there for their own (a runtime that starts itself
// again, crash reporters), and so do people, with ps. prctl(2) lets a process change them, without
// a privilege where the kernel has checkpoint support.
#include "launcher/load/program.h"

#include "base/text.h"
#include "launcher/config.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

struct MemoryMap {  // struct prctl_mm_map
  u64 start_code, end_code, start_data, end_data, start_brk, brk, start_stack;
  u64 arguments, arguments_end, environment, environment_end;
  u64 auxv;
  u32 auxv_bytes;
  i32 program;
};

Shown current;
Path executable_path;

}  // namespace

void name_process(const char* path, const char* name) {
  executable_path = Path();
  const Result<u64> file = sys::open_regular(path);
  Text<64> link;
  if (file) link << "/proc/self/fd/" << file.value;
  if (!file || !sys::readlink(link.data, executable_path.data, sizeof executable_path.data))
    executable_path << path;
  if (file) (void)sys::close(int(file.value));
  (void)sys::call(SYS_prctl, sys::kPrSetName, sys::arg(name));
}

const char* executable() { return executable_path.data; }

void read_stat(const char* path, u32 first, u64* out, u32 count) {
  char text[1024];
  if (!sys::read_text(path, text, sizeof text)) text[0] = 0;
  const char* at = text;
  for (const char* p = text; *p; p++)
    if (*p == ')') at = p;
  u32 number = 2;  // the name, which ends here
  for (; *at && number < first; at++)
    if (*at == ' ') number++;
  for (u32 i = 0; i < count; i++) {
    out[i] = parse_decimal(at);
    if (*at == ' ') at++;
  }
}

void show_program(const Shown& shown) {
  __builtin_memcpy(current, shown, sizeof current);
  u64 code[3], data[3];
  read_stat("/proc/self/stat", 26, code, 3);
  read_stat("/proc/self/stat", 45, data, 3);
  const u64 brk = sys::call(SYS_brk, 0).value;
  const MemoryMap map{code[0],  code[1],  data[0],  data[1],  data[2], brk, code[2], shown[0],
                      shown[1], shown[2], shown[3], shown[4], u32(shown[5] - shown[4]), -1};
  (void)sys::call(SYS_prctl, sys::kPrSetMm, sys::kPrSetMmMap, sys::arg(&map), sizeof map, 0);
}

void save_shown(Shown& out) { __builtin_memcpy(out, current, sizeof current); }

}  // namespace fermata::launch
