// SPDX-License-Identifier: Apache-2.0
// The launcher: the third program of a rank. It loads the two guests, owns the system calls by
// which memory, signals and threads are made, and saves and restores the upper half.
//
// It is linked at kLauncherBase, uses no libc, no thread-local storage and no lock that a signal
// handler could wait for, and its code may run on any stack: the kernel's initial one, a guest's,
// or a guest's signal frame.
#pragma once

#include "arch/x86_64/context.h"
#include "base/result.h"
#include "base/text.h"
#include "base/types.h"
#include "halves/crossing.h"
#include "image/moved.h"
#include "sys/sys.h"

namespace fermata::image {
struct ImageHeader;
struct ImageThread;
class Writer;
struct Reader;
}  // namespace fermata::image

namespace fermata::launch {

using arch::UserContext;

enum class Half : u32 { kUpper = 1, kLower = 2 };  // the SECCOMP_RET_DATA of the boundary's traps

// --- config.cpp --------------------------------------------------------------------------------
struct Config {
  const char* lower = "";        // back-end program
  const char* fronts = "";       // directory of the front ends
  const char* front = "";        // the front-end library that the application has been given
  const char* sites_tool = "";
  const char* sites_shared = "";  // directory of the lists that came with the MPIs
  const char* sites_cache = "";   // the user's own; "" = there is none
  const char* socket = "";
  const char* job = "";
  const char* ranks = "";        // the file in which each living rank of the job locks its byte
  const char* program = "";      // path of the application; "" = argv[0]
  const char* rank = "";
  const char* restore = "";      // snapshot directory; "" = start the application
  const char* image_mac = "";    // the MAC of this rank's image in hexadecimal; "" = any may be
  const char* state = "";        // directory that the program has saved itself in; "" = it has not
  const char* fermata = "";      // the program that makes ranks of spawned processes
  const char *key = "", *encrypt = "";  // the file of the user's key; not "": images are encrypted
  const char* save_files = "";   // which files are saved with their contents (files/kept.cpp)
  const char* probe = "";        // not "": end, with status 0, where a rank would be started
  const char* collectives = "";  // "2pc": a barrier before each, to compare with
  // Not "": a program under this job's launcher has exec'ed this one. The pid of the first
  // launcher, and which resource limits, and settings from bit 16 on, have been changed since.
  const char *first = "", *limits = "0";
  const char* stack_limit = "";  // not "": what the limit was before address_space.cpp lowered it
  char** options = nullptr;      // this launcher's own argv up to the "--"
  int option_count = 0;
  const image::Move* moves = nullptr;  // directories that are elsewhere than in the image
  u32 move_count = 0;
  const char* const* lower_env = nullptr;  // NAME=VALUE for the lower half only
  int lower_env_count = 0;
  int argc = 0;                  // the application's
  char** argv = nullptr;
  char** envp = nullptr;
  const u64* auxv = nullptr;     // the kernel's, pairs
};
extern Config config;

void parse_command_line(u64* initial_stack);
const char* config_value(const char* key);
const char* program_path();  // of the application, also after a restart
u64 auxv_value(u64 type);  // 0 if absent
const char* environment(const char* name);  // "" if absent

/// Says what went wrong, where, and what to do, and ends the process. Exit status 70.
[[noreturn]] void die(const char* what, const char* where, i32 error, const char* advice);

// --- address_space.cpp -------------------------------------------------------------------------
/// Sees to it that the kernel places no memory in the windows: executes the launcher anew if it
/// would. To be called first, when the command line is known.
void settle_address_space(u64* initial_stack);
/// For what this process is about to execute without a launcher. Returns the personality to go back
/// to if it does not.
u64 lay_out_beside_windows();

// --- elf.cpp -----------------------------------------------------------------------------------
struct Program {
  u64 entry = 0;         // of the program itself
  u64 base = 0;          // load bias
  u64 start = 0, end = 0;
  u64 headers = 0;       // address of the program headers
  u64 header_count = 0;
  u64 jump = 0;          // where to start: the interpreter's entry, or entry
  u64 interpreter_base = 0;
};
/// Maps an ELF program and its interpreter into a half's window. Ends the process on error.
Program load_program(const char* path, Half half);

// --- stack.cpp ---------------------------------------------------------------------------------
/// Addresses: first and end of argv's strings, of the environment's, of the auxiliary vector.
using Shown = u64[6];
/// Builds a program's initial stack below `top` (System V ABI 3.4.1). Returns the stack pointer.
u64 build_stack(u64 top, const Program& program, const char* path, int argc, char** argv,
                char** envp, const char* const* extra_env, int extra_count, u64 vdso, Shown& shown);

// --- boundary.cpp ------------------------------------------------------------------------------
/// Installs the trap handler and the seccomp filter. From here on the windows are watched.
/// The filter may be there already, inherited.
void install_boundary(bool with_filter);
/// Performs a trapped call as the guest made it. Returns what the kernel returned.
u64 pass_on(u64 number, const u64 (&arguments)[6]);

// --- placement.cpp: whose memory is where ------------------------------------------------------
u64 trap_mmap(Half half, u64 address, u64 bytes, u64 prot, u64 flags, u64 fd, u64 offset);
u64 trap_mremap(u64 old_address, u64 old_bytes, u64 new_bytes, u64 flags, u64 new_address);
u64 trap_brk(u64 address);
u64 trap_shmget(u64 key, u64 bytes, u64 flags);
u64 trap_semget(u64 key, u64 count, u64 flags);
u64 trap_msgget(u64 key, u64 flags);
u64 trap_mlockall(u64 flags);
u64 trap_munlockall();
u64 trap_io_setup(u64 events, u64 context);
u64 trap_shmctl(u64 id, u64 command, u64 argument);
u64 trap_shmat(u64 id, u64 address, u64 flags);
u64 trap_fork_advice(u64 address, u64 bytes, u64 advice);
u64 place_lower(u64 bytes);  // a free range for code in the lower window
i32 share(u64 from, u64 to, u64 bytes);
i32 share_again(u64 from, u64 to, u64 bytes);
void unshare(u64 at, u64 bytes);
bool renew_lower(u64 at, u64 bytes, bool shared);
struct Placement {
  u64 brk_start, brk_end, mmap_cursor;
};
extern Placement placement;

// --- sites.cpp: the lower half runs on GS ------------------------------------------------------
/// Rewrites the FS prefixes of file bytes [offset, offset + bytes) mapped writable at `address`.
/// Ends the process if the file's sites are unknown or it was refused.
void rewrite_sites(int fd, u64 offset, u64 address, u64 bytes);

// --- descriptors.cpp: whose files are whose ----------------------------------------------------
/// Performs a descriptor-making call of the lower half, moves the result above the application's
/// range and remembers it. Returns what the kernel returned.
u64 trap_lower_descriptor(u64 number, const u64 (&arguments)[6]);
/// Decides where the lower half's descriptors begin: at 512, or half of what the process may have
/// (RLIMIT_NOFILE). To be called first.
void place_lower_descriptors();
int first_lower_descriptor();
void begin_lower_descriptors(u64 first);  // on a restart: there, since the image has its own
inline constexpr u64 kDescriptorsTold = 16384;  // all from there on are the application's
/// In a fork of the process: closes the lower half's, but not those that may_stay(fd), and not the
/// stream for messages.
void close_lower_descriptors(bool (*may_stay)(int fd));
void note_ambient_descriptors();
bool is_lower_descriptor(int fd);
/// Marks a descriptor of the launcher's own as not the application's, until it is closed.
void hide_descriptor(int fd, bool hidden);
/// The rank's own streams 0, 1, 2 as it was started, -1 where there was none: descriptors of ours
/// that stay what they are whatever the application does to its own.
const int* ambient_streams();
/// On a restart: where the file is now that the process was started with under this number, which
/// may be the program's; -1 if there was none.
int inherited_descriptor(int fd);
/// Calls of the upper half that are noted or corrected. Return what the kernel returned.
u64 trap_upper_socketpair(const u64 (&arguments)[6]);
u64 trap_upper_watch(const u64 (&arguments)[6]);
/// The process that the launcher began in (or adopted); forks and vforks of it are others.
u32 own_pid();
bool is_own_process();
/// A child that fork(2) made is to be a rank: it takes the place of its parent in our tables.
void adopt_process();
/// Nothing of the lower half goes into the program that this process becomes.
void close_lower_on_exec();

// --- exec.cpp: a program that becomes another one ------------------------------------------------
u64 trap_upper_exec(u64 number, const u64 (&arguments)[6], const UserContext* context);

// --- fronts.cpp: the MPI library that the application asks for -----------------------------------
u64 trap_loader_open(u64 number, const u64 (&arguments)[6]);

// --- identity.cpp: name, program, limits, children ----------------------------------------------
void note_identity();        // at the start: what this process was given
void note_first_children();  // before the application runs: they are not its own
/// In the lower half's environment, and so in that of every program it starts.
inline constexpr const char* kLowerMark = "FERMATA_HALF=lower";
/// Names the process and remembers the program's real path. name: what PR_SET_NAME takes.
void name_process(const char* path, const char* name);
const char* executable();  // real path of the application
void save_limits(u64 (&out)[32], u32& changed, u32 pid);  // pid 0: of the caller
u32 changed_for_exec();  // Config::limits of the program that this one becomes
u64 soft_descriptors();  // the soft limit now
u64 most_descriptors();  // the hard limit that this process was started with
/// The soft limit that restore_limits() will set, or the first one if that is higher.
u64 soft_descriptors(const u64 (&saved)[32], u32 changed);
/// Raises the soft limit so that descriptors below `count` can be had, until restore_limits().
void allow_descriptors(u64 count);
void restore_limits(const u64 (&saved)[32], u32 changed);
/// Fails with EPERM if a thread has other user or group ids, or capabilities, than the process was
/// started with: after a restart it would have those again.
Status refuse_other_identity(u32 pid, Message& why);
/// The children of process `pid`, as many as there is room for. Returns their number.
u32 list_children(u32 pid, u32* out, u32 capacity);
/// False for those that were there before the application, and those of the lower half.
bool is_own_child(u32 child);
/// Fails with EAGAIN if process `pid` has a child that the application made, named in `why`: it may
/// soon have ended.
Status refuse_children(u32 pid, u32 writer, Message& why);

// --- helpers.cpp: children that a restart starts again ------------------------------------------
/// Whether it is one; then it is remembered for add_helpers(). In the image writer.
bool note_helper(u32 pid);
bool helper_holds_pipe(u64 inode);
/// Preconditions: the descriptors are described. Errors: EAGAIN while a helper is at work; EPERM.
Status add_helpers(image::Writer& writer, Message& why);
/// Preconditions: the program's descriptors are back.
void start_helpers(const image::Reader& reader);
/// For a job that ends to be restarted: helpers must not tidy up behind it.
void end_helpers();

// --- cpu.cpp -----------------------------------------------------------------------------------
void cpu_features(u64 (&out)[4]);
u32 xsave_layout(u64 components);
/// Names the features that were there and are missing here. Returns whether there are any.
bool missing_features(const u64 (&saved)[4], Message& names);

// --- signals.cpp -------------------------------------------------------------------------------
u64 trap_sigaction(Half half, u64 signal, u64 action, u64 old, u64 set_bytes);
void add_actions(image::Writer& writer);
void restore_actions(const image::Reader& reader);
/// From now on handlers are told the process id `known` where the kernel says `real`.
void tell_senders(u32 real, u32 known);
/// The ids of helpers.cpp's children, to the kernel and to the application; vdso.S reads them. The
/// used ones come first, the next one is zero.
struct HelperId {
  u32 real, known;
};
inline constexpr u32 kHelperCapacity = 16;
HelperId* helper_ids();
u64 trap_sigprocmask(Half half, u64 how, u64 set, u64 old, u64 set_bytes, UserContext* context);
inline constexpr u64 kOurSignals = u64(1) << (kSignalTrap - 1) | u64(1) << (kSignalQuiesce - 1);

// --- threads.cpp -------------------------------------------------------------------------------
enum class ThreadState : u32 {
  kFree,
  kReserved,  // not begun yet
  kLive,
  kStopped,   // stands, and may think better of it
  kKept,      // stands until it is released: it has been counted
};
// What /proc/<pid>/task/<tid>/syscall said of a thread when it was last seen in a call.
struct CallSample {
  u64 number, arguments[6], stack, instruction;
};
struct Thread {
  ThreadState state;
  u32 round;       // while stopped: how many releases there had been before
  u32 tid;         // the kernel's
  u32 id;          // the application's: what `tid` was when the thread was made
  u64 clear_tid;   // address cleared when the thread ends; also where its libc keeps its id
  u64 frame;       // UserContext, while stopped
  u64 hold_stack;  // for the MPI thread in hold(): its stack pointer; 0 otherwise
  u64 fs_base;     // while stopped
  u64 robust_list, robust_bytes;  // while stopped: set_robust_list(2)
  u64 timer_slack_ns;             // while stopped; as only the thread itself can ask
  u32 death_signal;
  u32 changes;                    // while stopped: bits of undone.cpp
  CallSample sample;
  u64 asked;       // the checkpoint and release for which it was last asked to stop
  bool bound;      // by the program, to processors that it chose
  bool bare;       // made by clone(2) without thread-local storage of its own: never calls MPI
  u32 block;       // upper threads: index of the borrowed thread block; 0 = none
};
inline constexpr u32 kBareThread = 16;  // ImageThread::flags
inline constexpr u32 kThreadCapacity = 4096;
extern Thread threads[kThreadCapacity];
inline bool stands(const Thread& thread) {
  ThreadState state;
  __atomic_load(&thread.state, &state, __ATOMIC_ACQUIRE);
  return state >= ThreadState::kStopped;
}

i64 trap_clone(Half half, UserContext* context);
u64 trap_set_tid_address(Half half, u64 address);
void install_quiesce_handler();
void adopt_main_thread();
/// Stops every live upper thread but the one in hold(). Errors: kEbusy with *late = its tid.
Status quiesce(u64 deadline_ns, u32* late);
u32 stop_others();         // LauncherCalls::stop_others
Thread* find_thread(u32 tid);  // by the kernel's id
/// Gives back what the thread has borrowed of the lower half.
void return_block(Thread& thread);
i32 borrow();
/// The lower half's first thread block belongs to the main thread, whoever has had it loaded.
void leave_block_to_main_thread();
[[noreturn]] void lend();
void nudge(u32 id);        // LauncherCalls::nudge
void leave(void* frame);  // LauncherCalls::leave
/// Lets every stopped thread, and the one in hold(), continue.
void release();
void wake_stopped();  // they look around, and stay
/// Waits until the MPI thread has entered hold(). Errors: kEtimedout.
Status await_hold(u64 deadline_ns);

// --- scheduling.cpp: names, nice, policies, what prctl(2) sets -----------------------------------
void note_scheduling();                 // at the start: what this process was given
void note_own_traits(Thread& thread);   // by the thread, when it stops
u32 process_traits();                   // as the main thread has seen them
void thread_name(u32 pid, u32 tid, u8 (&out)[16]);
void save_scheduling(const Thread& thread, u32 pid, image::ImageThread& out);
void restore_traits(u32 saved);
void restore_scheduling(const image::ImageThread& saved);  // of the calling thread

// --- settings.cpp: what the process has told the kernel about itself -----------------------------
void note_settings(u32 chosen_before);  // at the start: what it was given
u32 changed_settings();                 // what an exec hands on as chosen_before
void note_own_settings(const Thread& thread);  // by the thread, when it stops
void volunteer();  // of a writer: the kernel is to take it, not the job, if memory runs out
/// Preconditions: header.traits has been filled; for threads: with this.
void save_settings(image::ImageHeader& out, u32 pid);
void save_thread_settings(const Thread& thread, image::Writer& writer, image::ImageThread& out);
void restore_settings(const image::ImageHeader& saved);
/// policy: the saved text. Preconditions of the second: the first; it is the calling thread's.
void prepare_thread_settings(const Thread& thread, const char* policy);
void restore_thread_settings(const Thread& thread, const image::ImageThread& saved);

// --- shown.cpp: what /proc/self shows of the program ---------------------------------------------
/// Has /proc/self/cmdline, environ and auxv show these. Where the kernel does not let programs do
/// so, they show the launcher's.
void show_program(const Shown& shown);
void save_shown(Shown& out);
/// `count` fields of /proc/PID/stat from number `first` on, as proc(5) counts them, behind the
/// name; 0 where there are none.
void read_stat(const char* path, u32 first, u64* out, u32 count);

// --- undone.cpp: what a restart would undo -------------------------------------------------------
inline constexpr u64 kLandlockRestrictSelf = 446;  // newer than the oldest headers
void note_first_state();            // at the start
void note_changes(Thread& thread);  // by a thread that stops
/// Fails with EPERM if there is anything of that sort.
Status refuse_undone(Message& why);
u64 trap_undone_call(u64 number, const u64 (&arguments)[6]);

// --- pending.cpp: signals that are pending while the job is saved -------------------------------
/// Has each stopped thread take what waits for it, or for the process, out of the kernel. Agent.
/// Errors: kEtimedout; kEperm if too many wait; with `why`.
Status take_signals(u64 deadline_ns, Message& why);
void take_own_signals(u32 tid);  // a stopped thread's part, if it has been asked
void forget_taken_signals();     // of an earlier checkpoint
bool signals_wait();             // whether any thread has signals to take
/// The calling thread queues again what was taken from it. Returns once the process's signals have
/// been queued again as well, and all timers' signals. Preconditions: all signals are blocked.
void return_signals();
void add_signals(image::Writer& writer);
void restore_signals(const image::Reader& reader);

// --- timers.cpp: setitimer(2), timer_create(2) --------------------------------------------------
u64 trap_timer_create(const u64 (&arguments)[6]);
/// Notes what is left of every timer. Errors: kEperm with `why`.
Status read_timers(Message& why);
bool any_timer();  // read_timers() has found one
void add_timers(image::Writer& writer);
/// Makes the saved timers again, not armed yet. Preconditions: all threads exist.
void restore_timers(const image::Reader& reader);
u64 clock_of_timer(i32 id);  // CLOCK_* of timer_create
void arm_restored_timers();  // once, after a restart
/// Has a timer send its signal, for `count` expiries up to now; after a restart, once it is armed.
/// Returns false if there is no such timer of timer_create.
bool expire_again(i32 id, u64 count);
bool expire_when_armed(i32 id, u64 count);

// --- clocks.cpp: clocks that never go back ------------------------------------------------------
/// On a restart, before the boundary is installed: decides on the offsets.
void plan_clocks(const image::ImageHeader& saved);
bool clocks_shifted();  // whether there are any
void begin_clocks();    // once upper memory is back
void save_clocks(image::ImageHeader& out);
bool is_boot_clock(u64 clock);
/// A deadline on the boot clock that an image's carried call waits for. After begin_clocks().
sys::TimeSpec to_new_boot_clock(const sys::TimeSpec& deadline);
u64 trap_clock_call(u64 number, const u64 (&arguments)[6]);
/// A call that waits until an absolute time, or for a clock that has an id in it. Returns what rax
/// must hold when `context` is returned to.
u64 trap_timed_wait(u64 number, UserContext* context);

// --- thread_ids.cpp: a thread keeps its id over a restart ---------------------------------------
/// From now on ids of threads may differ from the kernel's.
void adopt_saved_ids();
bool ids_differ();       // whether they may
bool is_forked_child();  // which has a copy of the table, but only the thread that forked
Thread* find_thread_by_id(u32 id);
/// The id for a thread that has been made with the kernel's id `tid`.
u32 choose_id(const Thread& thread, u32 tid);
/// The kernel's id for what the application calls `id`, and the other way round; what is no
/// thread's id stays as it is.
u32 kernel_tid(u32 id);
u32 known_thread(u32 tid);
u64 kernel_clock(u64 clock);  // likewise, of a clock id that may name a thread or process

// --- process_ids.cpp: so does the process -------------------------------------------------------
void note_process_ids();  // when the rank is saved, by the process itself
void save_process_ids(image::ImageHeader& out);
void restore_process_ids(const image::ImageHeader& saved);
u32 known_process(u32 pid);
u32 known_group(u32 id);
/// The kernel's id for what the application calls `id`: the process, its parent, a helper, a child,
/// a thread.
u32 kernel_process(u32 id);
u32 kernel_task(u32 id);  // likewise, but rather a thread than a child
/// A child that a restart has started again, and the id by which the application knows it.
void note_helper_id(u32 pid, u32 known_as);
void forget_ended_helpers();
/// What wait4(2) or waitid(2) of the application waits for, as its first two arguments tell.
void name_awaited(u64 number, u64& first, u64& second);
u32 kernel_group(u32 id);
/// A call of the upper half that takes or tells ids.
u64 trap_id_call(u64 number, const u64 (&arguments)[6]);
/// Likewise, one that may block. Returns what rax must hold when `context` is returned to.
u64 trap_waiting_call(u64 number, UserContext* context);

// --- proc_paths.cpp: ids in paths below /proc ---------------------------------------------------
u64 trap_upper_open(u64 number, const u64 (&arguments)[6]);
u64 trap_upper_readlink(u64 number, const u64 (&arguments)[6]);
/// Whether the application's memory can be read there, and the trap handler may.
bool is_readable(u64 address, u64 bytes);

// --- affinity.cpp: what threads are bound to ----------------------------------------------------
u64 trap_set_affinity(const u64 (&arguments)[6]);
void inherit_affinity(const Thread* creator, Thread& thread);
void save_affinity(const Thread& thread, image::ImageThread& out);
void save_given_processors(image::ImageHeader& out);
/// Preconditions: all threads exist.
void restore_affinity(const image::Reader& reader);

// --- thread_end.cpp ----------------------------------------------------------------------------
/// Returns, with what rax must hold, for the main thread only.
u64 trap_exit(u64 code, UserContext* context);

// --- calls.cpp: system calls that a checkpoint interrupts ---------------------------------------
/// Notes what call the thread is blocked in, for carry_call() in its signal handler.
void sample_call(Thread& thread);
/// In the quiesce handler: if the signal made a blocking call return EINTR, changes the frame so
/// that the call is carried on, with what is left of its timeout. `sample` may be null.
void carry_call(UserContext* frame, const CallSample* sample);
/// Arranges for the thread to sleep, once `context` is returned to, until a handler has run.
/// Returns what rax must hold then.
u64 carry_pause(UserContext* context);
/// A trapped call that may block is to be made once `context` is returned to, with the arguments
/// that it will have then; its caller gets back what it had before. Returns what rax must hold.
u64 carry_trapped_call(u64 number, UserContext* context);
/// Room for a changed timeout of that call.
sys::TimeSpec& carried_time(UserContext* context);
/// A call with a signal mask has trapped: arranges for it to be made without our signals in the
/// mask. Returns what rax must hold then.
u64 trap_masked_call(u64 number, UserContext* context);
/// Before the frame is returned to: a call that was to be carried on fails with EINTR after all if
/// a signal handler of the application will run first. Signal-safe: yes, all signals blocked.
void settle_carried_call(UserContext* frame);
/// After a restart: deadlines on the monotonic clock are moved to the new machine's.
void shift_carried_call(UserContext* frame);

// --- vdso.cpp ----------------------------------------------------------------------------------
inline constexpr u64 kVdsoTable = kUpperVdso + 0xe000;
inline constexpr u64 kTrampoline = kUpperVdso + 0xd000;
/// Moves the kernel's vdso to its place after so many restarts, before anybody knows where it is.
void place_vdso(u32 restarts);
u64 lower_vdso();  // AT_SYSINFO_EHDR for the lower half; 0: there is none
/// Maps our vdso image and the sigreturn trampoline. Returns AT_SYSINFO_EHDR for the upper half.
u64 install_vdso();
/// After a restart: points the (already mapped) table at the live vdso, at nothing where it lacks a
/// function, and makes the places of earlier ones a way to begin a call again.
void renew_vdso(u32 restarts);
// The code of vdso.S that carries a call on, that waits first, and that enters handlers which are
// told the sender.
extern u64 carry_address, carried_address, wait_address, waited_address, handler_address;

// --- start.cpp, save.cpp, restore.cpp ----------------------------------------------------------
[[noreturn]] void start_application();
[[noreturn]] void start_lower();  // on a restart
void load_lower();                // LauncherCalls::load_lower
[[noreturn]] void lower_ready(const LowerCalls* lower, u32 world_rank, u32 world_size);
/// Maps the image rank-<world_rank>.img of `directory`, recreates files, signals and threads, and
/// continues where the rank was saved, in hold(). Ends the process with a message if it cannot.
[[noreturn]] void restore_rank(const LowerCalls* lower, const char* directory, u32 world_rank,
                               u32 world_size);
/// Reads from the image what must be known before the lower half begins: the level of threads, and
/// the numbers of descriptors that the application will want back.
void look_at_image();
extern u32 saved_restarts;            // that the rank has had before; 0 without a restart
extern bool saved_with_helpers;       // the image has children that are started again
extern Text<16> saved_thread_level;  // MPI_THREAD_* as a decimal number; "" without a restart
i32 save(const SaveRequest* request, SaveOutcome* outcome);
u64 resume();
i32 save_described(i32 writer, u32 timeout_ms);
i32 save_finish(i32 writer, u32 timeout_ms, SaveOutcome* outcome);
bool is_old_writer(u32 pid);  // of a checkpoint that was given up; has been killed, and takes long

}  // namespace fermata::launch
