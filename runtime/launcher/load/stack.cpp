// SPDX-License-Identifier: Apache-2.0
// A program's first stack: argc, argv, envp, auxv, and below the top the strings they point to.
// Source: System V ABI x86-64, 3.4.1; AT_* of include/uapi/linux/auxvec.h.
#include "launcher/load/stack.h"

#include <elf.h>

#include "base/text.h"
#include "halves/layout.h"
#include "launcher/config.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {


/// Grows down from the top of the new stack.
struct Writer {
  u64 at;

  u64 bytes(const void* from, u64 size) {
    at -= size;
    __builtin_memcpy(reinterpret_cast<void*>(at), from, size);
    return at;
  }
  u64 text(const char* string) { return bytes(string, text_length(string) + 1); }
};

bool same_name(const char* a, const char* b) {
  while (*a && *a == *b && *a != '=') a++, b++;
  return *a == '=' && *b == '=';
}

/// Calls take(entry) for every variable: the inherited ones that extra does not override, then
/// extra.
template <typename Take>
void each_variable(char** envp, const char* const* extra, int extra_count, Take take) {
  for (char** entry = envp; *entry; entry++) {
    bool overridden = false;
    for (int i = 0; i < extra_count; i++) overridden = overridden || same_name(*entry, extra[i]);
    if (!overridden) take(*entry);
  }
  for (int i = 0; i < extra_count; i++) take(extra[i]);
}

}  // namespace

u64 build_stack(u64 top, const Program& program, const char* path, int argc, char** argv,
                char** envp, const char* const* extra_env, int extra_count, u64 vdso,
                Shown& shown) {
  Writer strings{top - 64};
  u8 random[16];
  (void)sys::call(SYS_getrandom, sys::arg(random), sizeof random, 0);
  const u64 random_at = strings.bytes(random, sizeof random);
  const u64 platform_at = strings.text("x86_64");
  const u64 path_at = strings.text(path);

  u64 variable_count = 0;
  each_variable(envp, extra_env, extra_count, [&](const char*) { variable_count++; });
  u64 auxv_pairs = 1;
  for (const u64* pair = config.auxv; pair[0]; pair += 2) auxv_pairs++;
  // Arguments and environment lie one behind the other, as the kernel would have them: programs
  // that rename themselves write over both, and /proc shows what lies there.
  const u64 words = 1 + u64(argc) + 1 + variable_count + 1 + 2 * (auxv_pairs + 3);
  u64 text_bytes = 0;
  for (int i = 0; i < argc; i++) text_bytes += text_length(argv[i]) + 1;
  each_variable(envp, extra_env, extra_count,
                [&](const char* entry) { text_bytes += text_length(entry) + 1; });
  u64 at = strings.at - text_bytes;
  const u64 stack = (at - words * 8) & ~u64(63);

  u64* out = reinterpret_cast<u64*>(stack);
  const auto put = [&](const char* string) {
    const u64 bytes = text_length(string) + 1;
    __builtin_memcpy(reinterpret_cast<void*>(at), string, bytes);
    *out++ = at;
    at += bytes;
  };
  *out++ = u64(argc);
  shown[0] = at;
  for (int i = 0; i < argc; i++) put(argv[i]);
  *out++ = 0;
  shown[1] = shown[2] = at;
  each_variable(envp, extra_env, extra_count, put);
  *out++ = 0;
  shown[3] = at;
  shown[4] = sys::arg(out);
  for (const u64* pair = config.auxv; pair[0]; pair += 2) {
    u64 value = pair[1];
    switch (pair[0]) {
      case AT_PHDR: value = program.headers; break;
      case AT_PHNUM: value = program.header_count; break;
      case AT_PHENT: value = sizeof(Elf64_Phdr); break;
      case AT_BASE: value = program.interpreter_base; break;
      case AT_ENTRY: value = program.entry; break;
      case AT_EXECFN: value = path_at; break;
      case AT_RANDOM: value = random_at; break;
      case AT_PLATFORM: value = platform_at; break;
      case AT_SYSINFO_EHDR: value = vdso; break;
      case sys::kAtRseqFeatureSize:
      // Neither half may register rseq: they share kernel threads.
      case sys::kAtRseqAlign: continue;
      default: break;
    }
    if (pair[0] == AT_SYSINFO_EHDR && vdso == 0) continue;
    *out++ = pair[0];
    *out++ = value;
  }
  if (top == kUpperStackEnd) {
    *out++ = kAtFermata;
    *out++ = kInterface;
  }
  *out++ = AT_NULL;
  *out++ = 0;
  shown[5] = sys::arg(out);
  return stack;
}

}  // namespace fermata::launch
