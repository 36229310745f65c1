// SPDX-License-Identifier: Apache-2.0
// A program of the upper half becomes another one: env, numactl, a shell's exec, the child that a
// shell forks for a command. Outside the windows nothing traps, so the new program would leave
// Fermata for good; instead the launcher is started again in its place, with the same options, and
// loads it. Which of these programs is the rank turns out by itself: the one that asks for MPI.
//
// What an MPI program starts is none of ours: its helpers run as they would natively.
//
// Runs in children of vfork(2), too: only the thread's own stack may be written to.
#include "launcher/process/exec.h"

#include <elf.h>

#include "base/text.h"
#include "halves/crossing.h"
#include "launcher/config.h"
#include "launcher/load/address_space.h"
#include "launcher/load/program.h"
#include "launcher/process/descriptors.h"
#include "launcher/process/limits.h"
#include "launcher/process/settings.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr u32 kScriptDepth = 5;   // as many scripts of scripts as the kernel follows
constexpr u64 kLineBytes = 256;   // of a script's first line, as the kernel reads it
constexpr u64 kLeadCapacity = 2 * kScriptDepth + 1;
constexpr u64 kOnStack = 512;     // pointers; longer argument lists are mapped

/// The program to load, and what goes before the caller's own arguments.
struct Target {
  const char* path;
  const char* lead[kLeadCapacity];  // argv[0] and on
  u32 lead_count = 0;
  Path buffer;
  char lines[kScriptDepth][kLineBytes];

  void put_first(const char* word) {
    for (u32 i = lead_count; i > 0; i--) lead[i] = lead[i - 1];
    lead[0] = word;
    lead_count++;
  }
};

bool may_execute(const char* path) {
  sys::KernelStat info;
  return sys::call(SYS_faccessat, u64(i64(sys::kAtCwd)), sys::arg(path), sys::kXOk) &&
         sys::stat(path, &info) && (info.mode & sys::kTypeMask) == sys::kTypeRegular;
}

/// Whether this is a program that the launcher can load: 64-bit, x86, dynamically linked.
bool is_loadable(int fd) {
  Elf64_Ehdr header;
  const Result<u64> got = sys::pread_full(fd, &header, sizeof header, 0);
  if (!got || got.value != sizeof header || __builtin_memcmp(header.e_ident, ELFMAG, SELFMAG))
    return false;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) return false;
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  for (u32 i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    const u64 at = header.e_phoff + i * sizeof segment;
    const Result<u64> read = sys::pread_full(fd, &segment, sizeof segment, at);
    if (!read || read.value != sizeof segment) return false;
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// "#!interpreter argument": the argument is one, with blanks and all. Source: binfmt_script.c.
bool follow_script(Target& target, char* line) {
  char* at = line + 2;
  while (is_blank(*at)) at++;
  char* const interpreter = at;
  while (*at && *at != '\n' && !is_blank(*at)) at++;
  if (at == interpreter || *at == 0) return false;
  char* end = at;
  while (*end && *end != '\n') end++;
  while (end > at && is_blank(end[-1])) end--;
  char* argument = at;
  while (is_blank(*argument)) argument++;
  const bool has_argument = argument < end;
  *end = 0;
  *at = 0;
  if (target.lead_count) target.lead[0] = target.path;
  else target.put_first(target.path);
  if (has_argument) target.put_first(argument);
  target.put_first(interpreter);
  target.path = interpreter;
  return true;
}

/// Follows scripts to their interpreter. False: the kernel knows better what to do.
bool find_program(Target& target) {
  for (u32 depth = 0; depth <= kScriptDepth; depth++) {
    if (!may_execute(target.path)) return false;
    const Result<u64> file = sys::open_regular(target.path);
    if (!file) return false;
    const int fd = int(file.value);
    char two[2] = {};
    (void)sys::pread_full(fd, two, sizeof two, 0);
    const bool is_script = two[0] == '#' && two[1] == '!';
    bool found = false;
    if (!is_script) {
      found = is_loadable(fd);
    } else if (depth < kScriptDepth) {
      char* const line = target.lines[depth];
      const Result<u64> got = sys::pread_full(fd, line, kLineBytes - 1, 0);
      line[got ? got.value : 0] = 0;
      found = follow_script(target, line);
    }
    (void)sys::close(fd);
    if (!is_script || !found) return found;
  }
  return false;
}

/// What execve or execveat was given as the program's path; false where it is not one.
bool path_of(u64 number, const u64 (&a)[6], Target& target) {
  if (number == SYS_execve) {
    target.path = reinterpret_cast<const char*>(a[0]);
  } else {
    const char* const path = reinterpret_cast<const char*>(a[1]);
    target.path = path;
    const Result<u64> there = sys::call(SYS_faccessat, a[0], a[1], 0);
    if (!there && there.error != sys::kEnoent) return false;  // cannot be read, say
    if (path[0] != '/' && i32(a[0]) != sys::kAtCwd) {
      Text<64> link;
      link << "/proc/self/fd/" << u64(u32(a[0]));
      const Result<u64> got = sys::readlink(link.data, target.buffer.data, kPageBytes);
      if (!got) return false;
      target.buffer.size = got.value;
      if (path[0]) target.buffer << "/" << path;
      target.path = target.buffer.data;
    }
  }
  if (!sys::call(SYS_faccessat, u64(i64(sys::kAtCwd)), sys::arg(target.path), 0)) return false;
  if (text_equal(target.path, "/proc/self/exe")) target.path = executable();
  return true;
}

u64 count_words(const char* const* words) {
  u64 count = 0;
  while (words[count]) count++;
  return count;
}

/// This launcher's options for its successor, then the new program's arguments.
void write_arguments(const char** out, const Target& target, const char* const* words,
                     const char* first, const char* limits) {
  *out++ = config.options[0];
  for (int i = 1; i + 1 < config.option_count; i += 2) {
    const char* const flag = config.options[i];
    if (text_equal(flag, "--program") || text_equal(flag, "--first") ||
        text_equal(flag, "--limits") || text_equal(flag, "--stack-limit"))
      continue;
    *out++ = flag;
    *out++ = config.options[i + 1];
  }
  const char* const own[] = {"--program", target.path, "--first", first, "--limits", limits, "--"};
  for (const char* word : own) *out++ = word;
  for (u32 i = 0; i < target.lead_count; i++) *out++ = target.lead[i];
  for (words += target.lead_count ? 1 : 0; *words;) *out++ = *words++;
  *out = nullptr;
}

/// Config::limits of the program that this one becomes.
u32 changed_for_exec() {
  u64 unused[2 * kLimits];
  u32 changed = 0;
  save_limits(unused, changed, 0);
  return changed | changed_settings() << kLimits;
}

/// Returns only if the kernel did not start the launcher.
[[gnu::noinline]] void exec_through_launcher(u64 number, const u64 (&a)[6]) {
  Target target;
  const bool at = number == SYS_execveat;
  const char* const* words = reinterpret_cast<const char* const*>(a[1 + at]);
  if (!path_of(number, a, target) || !find_program(target) || !words || !words[0]) return;
  Text<24> first, limits;
  if (config.first[0]) first << config.first;
  else first << own_pid();
  limits << changed_for_exec();

  const char* small[kOnStack];
  const char** argv = small;
  const u64 room = u64(config.option_count) + kLeadCapacity + 8 + count_words(words);
  if (room > kOnStack) {
    const Result<u64> map = sys::mmap(0, page_ceil(room * 8), sys::kProtRead | sys::kProtWrite,
                                      sys::kMapPrivate | sys::kMapAnonymous);
    if (!map) return;
    argv = reinterpret_cast<const char**>(map.value);
  }
  write_arguments(argv, target, words, first.data, limits.data);
  (void)sys::call(SYS_execve, sys::arg(config.options[0]), sys::arg(argv), a[2 + at]);
  if (argv != small) (void)sys::munmap(sys::arg(argv), page_ceil(room * 8));
}

u64 refuse_to_leave(u64 number, const u64 (&a)[6]) {
  Message message;
  message << "fermata: rank " << crossing().world_rank << " wants to become another program ("
          << reinterpret_cast<const char*>(a[number == SYS_execveat])
          << ") between MPI_Init and MPI_Finalize: refused\n"
             "  hint: exec before MPI_Init or after MPI_Finalize, or start the other as a child\n";
  sys::say(message.data);
  return u64(-sys::kEperm);
}

}  // namespace

void note_given() {
  const char* inherited = config.limits;
  const u32 chosen = u32(parse_decimal(inherited));
  note_limits(chosen & ((1u << kLimits) - 1));
  note_settings(chosen >> kLimits);
}

u64 trap_upper_exec(u64 number, const u64 (&a)[6], u64 mask) {
  const bool has_mpi = crossing().lower != nullptr, own = is_own_process();
  if (has_mpi && own && crossing().state == RankState::kRunning) return refuse_to_leave(number, a);
  const bool leaves = has_mpi && (!own || crossing().state == RankState::kFinalizing);
  // The new program starts with the caller's signal mask, not with that of the trap.
  u64 handlers_mask = 0;
  (void)sys::sigprocmask(sys::kSigSetMask, &mask, &handlers_mask);
  if (leaves) close_lower_on_exec();
  else exec_through_launcher(number, a);
  const u64 own_layout = lay_out_beside_windows();
  const u64 result = pass_on(number, a);
  (void)sys::call(SYS_personality, own_layout);
  (void)sys::sigprocmask(sys::kSigSetMask, &handlers_mask, nullptr);
  return result;
}

}  // namespace fermata::launch
