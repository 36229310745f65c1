// SPDX-License-Identifier: Apache-2.0
// Children that live as long as the program and only serve it: a resource tracker of Python's
// multiprocessing, a `cat` at the other end of two pipes. Such a helper is not saved: a restart
// starts its program again, with the same arguments, environment, directory and descriptors.
//
// That is sound for a program whose state is what it was started with and what is in its pipes. So
// a helper is a program that is known to be one, or that the user names (FERMATA_HELPERS); it has
// one thread and no children, waits for input, and has read all there is; and it holds nothing but
// the rank's own descriptors, other ends of the rank's pipes and stateless devices (decision 0058).
//
// At `checkpoint --stop` helpers are killed: a resource tracker that sees the end of its pipe
// removes the shared memory that the program is to find again.
#include "launcher/image/helpers.h"

#include "files/contents.h"
#include "files/fdinfo.h"
#include "files/kinds.h"
#include "launcher/boundary/guest.h"
#include "launcher/config.h"
#include "launcher/ids/process_ids.h"
#include "launcher/ids/senders.h"
#include "launcher/image/children.h"
#include "launcher/process/descriptors.h"
#include "launcher/process/limits.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

using image::MemberKind;
constexpr u32 kCapacity = kHelperCapacity;
constexpr u64 kWordsCapacity = 512;  // arguments, or variables
enum Source : u64 { kSame = 0, kOtherEnd = 1, kByPath = 2 };  // values[1] of a descriptor, low byte

u32 found[kCapacity];
u32 found_count;
char text[files::kTextBytes + 1];

constexpr const char* kTrackerCall = "from multiprocessing.resource_tracker import main;main(";
// One that is started anew has not heard what the program registered before, and would complain
// when that is taken back.
constexpr const char* kTrackerAgain =
    "import multiprocessing.resource_tracker as t\nclass S(set):\n remove=set.discard\nt.set=S\n"
    "t.main(";

/// What is in /proc/PID and `name`, which begins with a slash, comes to `text`. Returns its size; 0
/// if it cannot be read, or does not fit.
u64 read_of(u32 pid, const char* name) {
  Text<64> path;
  path << "/proc/" << pid << name;
  const Result<u64> got = sys::read_text(path.data, text, sizeof text);
  return got && got.value + 1 < sizeof text ? got.value : 0;
}

/// Whether the user has named a program of this name: FERMATA_HELPERS=NAME:NAME.
bool is_named_by_user(const char* name) {
  const u64 bytes = text_length(name);
  for (const char* at = environment("FERMATA_HELPERS"); *at;) {
    u64 size = 0;
    while (at[size] && at[size] != ':') size++;
    if (size == bytes && __builtin_memcmp(at, name, bytes) == 0) return true;
    at += size + (at[size] == ':');
  }
  return false;
}

/// By its arguments. What fork(2) alone has made is another copy of the rank, and no helper.
bool is_helper(u32 pid) {
  Text<64> link;
  link << "/proc/" << pid << "/exe";
  sys::KernelStat own, its;
  if (!sys::stat("/proc/self/exe", &own) || !sys::stat(link.data, &its)) return false;
  if (own.ino == its.ino && own.dev == its.dev) return false;
  const u64 size = read_of(pid, "/cmdline");
  if (size == 0) return false;
  const char* const name = base_name(text);
  const u64 first = text_length(text) + 1;
  if (text_equal(name, "cat") && first >= size) return true;
  if (is_named_by_user(name)) return true;
  for (u64 at = first; at < size; at += text_length(text + at) + 1)
    if (text_starts(text + at, kTrackerCall) || text_starts(text + at, kTrackerAgain)) return true;
  return false;
}

u64 number_after(const char* field, bool hexadecimal) {
  const char* at = files::find_field(text, field);
  if (!at) return 0;
  return hexadecimal ? parse_hex(at) : parse_decimal(at);
}

/// Whether it has stopped to wait for input. /proc tells the number of the call it sits in.
bool waits_for_input(u32 pid) {
  constexpr u64 kCalls[] = {SYS_read,   SYS_readv,      SYS_poll,        SYS_ppoll,
                            SYS_select, SYS_pselect6,   SYS_epoll_wait,  SYS_epoll_pwait,
                            SYS_recvfrom, SYS_recvmsg};
  if (read_of(pid, "/syscall") == 0 || text[0] < '0' || text[0] > '9') return false;
  const char* at = text;
  const u64 number = parse_decimal(at);
  bool waits = false;
  for (const u64 call : kCalls) waits = waits || call == number;
  return waits;
}

Message& refuse(u32 pid, Message& why) {
  return why << "the helper " << pid << " cannot be started again: ";
}

Status check_quiet(u32 pid, Message& why) {
  (void)read_of(pid, "/status");
  u32 child = 0;
  if (number_after("Threads:", false) != 1 || list_children(pid, &child, 1)) {
    refuse(pid, why) << "it has threads or children";
    return failure(sys::kEperm);
  }
  if (waits_for_input(pid)) return success();
  refuse(pid, why) << "it is at work";
  return failure(sys::kEagain);
}

image::ImageMember* add(image::Writer& writer, u32 index, MemberKind kind) {
  image::ImageMember* const member = writer.members.add();
  if (!member) return nullptr;
  *member = {};
  member->fd = -1;
  member->kind = kind;
  member->target = i32(index);
  return member;
}

/// A descriptor of the rank that shares its open file description; -1: none.
int same_of_rank(const image::Writer& writer, u32 pid, int fd) {
  const u32 own = sys::getpid();
  for (u64 i = 0; i < writer.files.count; i++) {
    const int mine = writer.files.entries[i].fd;
    const Result<u64> order = sys::call(SYS_kcmp, own, pid, sys::kKcmpFile, u64(mine), u64(fd));
    if (order && order.value == 0) return mine;
  }
  return -1;
}

/// The rank's descriptor of the same pipe; -1: it has none.
int pipe_of_rank(const image::Writer& writer, u64 inode) {
  for (u64 i = 0; i < writer.files.count; i++)
    if (writer.files.entries[i].kind == files::kPipe && writer.files.entries[i].inode == inode)
      return writer.files.entries[i].fd;
  return -1;
}

Status add_descriptor(image::Writer& writer, u32 index, u32 pid, int fd, Message& why) {
  image::ImageMember* const member = add(writer, index, MemberKind::kHelperFile);
  if (!member) return failure(sys::kEnomem);
  member->flags = u32(fd);
  member->values[0] = u64(i64(same_of_rank(writer, pid, fd)));
  if (i64(member->values[0]) >= 0) return success();
  Text<64> link;
  link << "/proc/" << pid << "/fd/" << fd;
  Path path;
  sys::KernelStat info;
  if (!sys::stat(link.data, &info) || !sys::readlink(link.data, path.data, sizeof path.data))
    return failure(sys::kEagain);
  static char fdinfo[1 << 14];
  const bool known = bool(files::read_fdinfo(pid, fd, fdinfo, sizeof fdinfo));
  const char* octal = known ? files::find_field(fdinfo, "flags:") : nullptr;
  u64 flags = 0;
  for (; octal && *octal >= '0' && *octal <= '7'; octal++) flags = flags * 8 + u64(*octal - '0');
  const int pipe = text_starts(path.data, "pipe:") ? pipe_of_rank(writer, info.ino) : -1;
  if (pipe >= 0) {
    i32 unread = 0;
    (void)sys::call(SYS_ioctl, u64(pipe), sys::kFionread, sys::arg(&unread));
    if ((flags & sys::kAccessMode) == u64(sys::kReadOnly) && unread) {
      refuse(pid, why) << "it has not read what was written to its descriptor " << fd;
      return failure(sys::kEagain);
    }
    member->values[0] = u64(pipe);
    member->values[1] = kOtherEnd | (flags & u64(~sys::kCloseOnExec)) << 8;
    return success();
  }
  if (text_equal(path.data, "/dev/null") || text_equal(path.data, "/dev/urandom")) {
    member->path_string = writer.string(path.data);
    member->values[1] = kByPath | (flags & sys::kAccessMode) << 8;
    return success();
  }
  refuse(pid, why) << "its descriptor " << fd << " is not the program's: " << path.data;
  return failure(sys::kEperm);
}

Status add_descriptors(image::Writer& writer, u32 index, u32 pid, Message& why) {
  Text<64> path;
  path << "/proc/" << pid << "/fd";
  const Result<u64> listing =
      sys::open(path.data, sys::kReadOnly | sys::kDirectory | sys::kCloseOnExec);
  if (!listing) return failure(listing.error);
  static char names[1 << 14];
  Status done = success();
  for (;;) {
    const Result<u64> got =
        sys::call(SYS_getdents64, listing.value, sys::arg(names), sizeof names);
    if (!got || got.value == 0) break;
    for (u64 at = 0; done && at < got.value; at += *reinterpret_cast<u16*>(names + at + 16)) {
      const char* name = names + at + 19;  // struct linux_dirent64: d_reclen, d_type, d_name
      if (*name >= '0' && *name <= '9')
        done = add_descriptor(writer, index, pid, int(parse_decimal(name)), why);
    }
  }
  (void)sys::close(int(listing.value));
  return done;
}

Status add_helper(image::Writer& writer, u32 index, u32 pid, Message& why) {
  const Status quiet = check_quiet(pid, why);
  if (!quiet) return quiet;
  image::ImageMember* const program = add(writer, index, MemberKind::kHelper);
  image::ImageMember* const state = add(writer, index, MemberKind::kHelperState);
  if (!program || !state) return failure(sys::kEnomem);
  Text<64> link;
  Path path;
  link << "/proc/" << pid << "/exe";
  if (sys::readlink(link.data, path.data, sizeof path.data))
    program->path_string = writer.string(path.data);
  const u64 arguments = read_of(pid, "/cmdline");
  program->bytes = u32(arguments);
  program->values[0] = files::save_text(writer, reinterpret_cast<u8*>(text), arguments);
  const u64 environment_bytes = read_of(pid, "/environ");
  program->flags = u32(environment_bytes);
  program->values[1] = files::save_text(writer, reinterpret_cast<u8*>(text), environment_bytes);
  link = {};
  link << "/proc/" << pid << "/cwd";
  if (sys::readlink(link.data, path.data, sizeof path.data))
    state->path_string = writer.string(path.data);
  (void)read_of(pid, "/status");
  state->values[0] = number_after("SigIgn:", true);
  state->values[1] = number_after("SigBlk:", true) & ~kOurSignals;
  state->flags = known_process(pid);
  if (arguments && environment_bytes) return add_descriptors(writer, index, pid, why);
  refuse(pid, why) << "its arguments or its environment are too long";
  return failure(sys::kEperm);
}

/// Pointers to the strings that `bytes` bytes of `from` hold, one after the other.
void split(char* from, u64 bytes, char* (&words)[kWordsCapacity]) {
  u64 count = 0;
  for (u64 at = 0; at < bytes && count + 1 < kWordsCapacity; at += text_length(from + at) + 1)
    words[count++] = from + at;
  words[count] = nullptr;
}

/// A tracker's code is exchanged for one that does not know what was registered before.
void adapt_tracker(char* (&argv)[kWordsCapacity]) {
  static Text<512> code;
  for (char*& word : argv) {
    if (!word) return;
    if (!text_starts(word, kTrackerCall)) continue;
    code << kTrackerAgain << word + text_length(kTrackerCall);
    word = code.data;
  }
}

/// Descriptors as the helper had them: each is taken out of the way first, for its number may be
/// that of another one's source, and so is `report`. All others close when it is executed.
Status place_descriptors(const image::Reader& reader, i32 index, int& report) {
  constexpr u64 kAll = 0x7fffffff;
  constexpr u32 kMost = 64;
  struct {
    int from, to;
  } moves[kMost];
  u32 count = 0;
  int above = 3;
  for (u64 i = 0; i < reader.header->members.count; i++)
    if (reader.members[i].kind == MemberKind::kHelperFile && reader.members[i].target == index &&
        int(reader.members[i].flags) >= above)
      above = int(reader.members[i].flags) + 1;
  const Result<u64> higher = sys::fcntl(report, sys::kDupFdCloexec, u64(above));
  if (!higher) return failure(higher.error);
  report = int(higher.value);
  for (u64 i = 0; i < reader.header->members.count; i++) {
    const image::ImageMember& member = reader.members[i];
    if (member.kind != MemberKind::kHelperFile || member.target != index) continue;
    if (count == kMost) return failure(sys::kEmfile);
    const u64 how = member.values[1] & 0xff, flags = member.values[1] >> 8;
    Text<64> link;
    link << "/proc/self/fd/" << member.values[0];
    const char* const path = how == kByPath ? reader.string(member.path_string) : link.data;
    Result<u64> made = Result<u64>::ok(member.values[0]);
    if (how != kSame) made = sys::open(path, int(flags) | sys::kCloseOnExec);
    if (made) made = sys::fcntl(int(made.value), sys::kDupFdCloexec, u64(above));
    if (!made) return failure(made.error);
    moves[count++] = {int(made.value), int(member.flags)};
  }
  (void)sys::call(SYS_close_range, 0, kAll, sys::kCloseRangeCloexec);
  for (u32 i = 0; i < count; i++) {
    const Result<u64> placed = sys::dup3(moves[i].from, moves[i].to, 0);
    if (!placed) return failure(placed.error);
  }
  return success();
}

/// What a child that has not become its program says.
struct Failed {
  i32 step, error;
};
enum Step : i32 { kDirectory, kDescriptors, kExecute };

/// The child's way to its program. If it fails, `report` tells how; else that closes.
[[noreturn]] void become(const image::Reader& reader, const image::ImageMember& program,
                         const image::ImageMember* state, char** argv, char** envp, int report) {
  for (int signal = 1; state && signal <= 64; signal++) {
    const bool ignored = state->values[0] & sys::signal_bit(signal);
    const sys::KernelAction action{ignored ? u64(sys::kSigIgn) : 0, 0, 0, 0};
    (void)sys::sigaction(signal, &action, nullptr);
  }
  Failed failed{kDirectory, 0};
  const char* const directory = state ? reader.string(state->path_string) : "";
  if (directory[0]) failed.error = sys::call(SYS_chdir, sys::arg(directory)).error;
  if (failed.error == 0)
    failed = {kDescriptors, place_descriptors(reader, program.target, report).error};
  if (failed.error == 0) {
    undo_lift();
    if (state) (void)sys::sigprocmask(sys::kSigSetMask, &state->values[1], nullptr);
    failed = {kExecute, sys::call(SYS_execve, sys::arg(reader.string(program.path_string)),
                                  sys::arg(argv), sys::arg(envp)).error};
  }
  (void)sys::write(report, &failed, sizeof failed);
  sys::exit_group(127);
}

[[noreturn]] void give_up(const image::Reader& reader, const image::ImageMember& program,
                          const image::ImageMember* state, const Failed& failed) {
  const char* const path = reader.string(program.path_string);
  if (failed.step == kDirectory && state)
    die("cannot enter the directory of a helper of the program", reader.string(state->path_string),
        failed.error, "create it again");
  if (failed.step == kDescriptors)
    die("cannot give a helper of the program its descriptors again", path, failed.error,
        "check `ulimit -n`");
  die("cannot start a helper of the program again", path, failed.error,
      "it must be there under this name, and executable");
}

/// Returns when it is executed.
Status start_one(const image::Reader& reader, const image::ImageMember& program) {
  static char arguments[files::kTextBytes + 1], variables[files::kTextBytes + 1];
  static char *argv[kWordsCapacity], *envp[kWordsCapacity];
  const bool loaded = files::load_text(reader, u32(program.values[0]),
                                       reinterpret_cast<u8*>(arguments), program.bytes) &&
                      files::load_text(reader, u32(program.values[1]),
                                       reinterpret_cast<u8*>(variables), program.flags);
  if (!loaded) return failure(sys::kEio);
  arguments[program.bytes] = variables[program.flags] = 0;
  split(arguments, program.bytes, argv);
  split(variables, program.flags, envp);
  adapt_tracker(argv);
  const image::ImageMember* state = nullptr;
  for (u64 i = 0; i < reader.header->members.count; i++)
    if (reader.members[i].kind == MemberKind::kHelperState &&
        reader.members[i].target == program.target)
      state = &reader.members[i];
  int report[2];
  const Result<u64> piped = sys::call(SYS_pipe2, sys::arg(report), u64(sys::kCloseOnExec));
  if (!piped) return failure(piped.error);
  const Result<u64> child = sys::call(SYS_clone, sys::kSigChld);
  if (child && child.value == 0) become(reader, program, state, argv, envp, report[1]);
  (void)sys::close(report[1]);
  if (!child) return failure(child.error);
  Failed failed;
  const Result<u64> said = sys::read(report[0], &failed, sizeof failed);
  (void)sys::close(report[0]);
  if (said && said.value == sizeof failed) give_up(reader, program, state, failed);
  note_helper_id(u32(child.value), state ? state->flags : 0);
  return success();
}

}  // namespace

bool note_helper(u32 pid) {
  if (found_count == kCapacity || !is_helper(pid)) return false;
  found[found_count++] = pid;
  return true;
}

bool helper_holds_pipe(u64 inode) {
  Text<64> wanted;
  wanted << "pipe:[" << inode << "]";
  for (u32 i = 0; i < found_count; i++)
    for (int fd = 0; fd < 256; fd++) {
      Text<64> link;
      Path path;
      link << "/proc/" << found[i] << "/fd/" << fd;
      if (sys::readlink(link.data, path.data, sizeof path.data) &&
          text_equal(path.data, wanted.data))
        return true;
    }
  return false;
}

Status save_helpers(image::Writer& writer, Message& why) {
  for (u32 i = 0; i < found_count; i++) {
    const Status added = add_helper(writer, i, found[i], why);
    if (!added) return added;
  }
  return success();
}

void start_helpers(const image::Reader& reader) {
  for (u64 i = 0; i < reader.header->members.count; i++) {
    const image::ImageMember& member = reader.members[i];
    if (member.kind != MemberKind::kHelper) continue;
    const Status started = start_one(reader, member);
    if (!started)
      die("cannot start a helper of the program again", reader.string(member.path_string),
          started.error, "install it again, or check `ulimit -u`");
  }
}

void end_helpers() {
  u32 children[256];
  const u32 count = list_children(own_pid(), children, 256);
  for (u32 i = 0; i < count; i++)
    if (is_own_child(children[i]) && is_helper(children[i]))
      (void)sys::call(SYS_kill, children[i], sys::kSigKill);
}

}  // namespace fermata::launch
