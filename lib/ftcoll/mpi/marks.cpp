// SPDX-License-Identifier: Apache-2.0
#include "marks.h"

#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "addresses.h"
#include "fermata.h"
#include "reunion.h"

namespace ftcoll {
namespace {

constexpr int kAddressBytes = 64;
constexpr int kSeekings = 2000;  // a millisecond each
constexpr uint32_t kDeadlineMs = 600'000;  // ftcoll.h
constexpr int kLongestMs = 24 * 3600 * 1000;

// The connections of a set of processes.
struct World {
  ftc_world* world;
  MPI_Group group;
  uint64_t id;  // drawn by one of them
  Reunion* reunion;  // null: none of them is ever saved
};

// What the first process of a new world tells the others.
struct Invitation {
  uint64_t id;
  uint8_t key[32];
  int32_t is_good;
};

std::mutex preparing;  // of keyval and error_codes
std::mutex lock;       // of worlds and marks
std::mutex closing;    // before it: held, no world is closed
std::vector<World> worlds;
std::vector<Mark*> marks;
std::array<int, FTC_JOIN + 1> error_codes;  // of the codes that no MPI has
std::atomic<int> keyval = MPI_KEYVAL_INVALID;

void say(const char* what, const char* why) { std::fprintf(stderr, "ftcoll: %s: %s\n", what, why); }

int forget(MPI_Comm, int, void* value, void*) {
  const std::lock_guard guard(lock);
  Mark* const mark = static_cast<Mark*>(value);
  for (Mark*& other : marks) {
    if (other != mark) continue;
    other = marks.back();
    marks.pop_back();
    ftc_comm_free(mark->comm);
    delete mark;
    break;
  }
  return MPI_SUCCESS;
}

// Makes the key of the attribute and the errors, once.
int prepare() {
  const std::lock_guard guard(preparing);
  if (keyval != MPI_KEYVAL_INVALID) return MPI_SUCCESS;
  int made = MPI_KEYVAL_INVALID;
  int error = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &made, nullptr);
  const struct {
    int code;
    const char* text;
  } errors[] = {
      {FTC_ROOT_DIED, "ftcoll: the root has died, and no living process has a result"},
      {FTC_FORGOTTEN, "ftcoll: others took this process for dead and are far ahead"},
      {FTC_DEADLINE, "ftcoll: a living process has not entered the call by the deadline"},
      {FTC_BUSY, "ftcoll: another thread is in a call of the communicator, or it has begun"},
      {FTC_JOIN, "ftcoll: the processes of the communicator cannot connect to each other"},
  };
  int error_class = MPI_ERR_OTHER;
  if (error == MPI_SUCCESS) error = PMPI_Add_error_class(&error_class);
  for (const auto& [code, text] : errors) {
    if (error == MPI_SUCCESS) error = PMPI_Add_error_code(error_class, &error_codes[code]);
    if (error == MPI_SUCCESS) error = PMPI_Add_error_string(error_codes[code], text);
  }
  if (error == MPI_SUCCESS) keyval = made;
  return error;
}

// MPICH's process manager tells those who live of a death by SIGUSR1, which would end them.
void outlive_news() {
#ifdef MPICH_VERSION
  struct sigaction action = {};
  if (sigaction(SIGUSR1, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  sigaction(SIGUSR1, &action, nullptr);
#endif
}

// A number of milliseconds from the environment; 0: not set.
uint32_t milliseconds(const char* name) {
  const char* const text = std::getenv(name);
  if (!text) return 0;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*text && !*end && value > 0 && value <= kLongestMs) return static_cast<uint32_t>(value);
  say(name, "is no number of milliseconds up to a day, and is not heeded");
  return 0;
}

// What is to carry the messages.
uint32_t transport() {
  const char* const text = std::getenv("FTCOLL_TRANSPORT");
  if (!text || std::strcmp(text, "tcp") == 0) return FTC_TCP;
  if (std::strcmp(text, "ucx") == 0) return FTC_UCX;
  say("FTCOLL_TRANSPORT", "is neither tcp nor ucx, and is not heeded");
  return FTC_TCP;
}

// Whether all are on this host. Collective.
int ask_for_hosts(MPI_Comm comm, int size, bool& is_only_host) {
  const uint64_t mine = number_of_this_host();
  std::vector<uint64_t> all(static_cast<size_t>(size));
  const int error = PMPI_Allgather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, comm);
  is_only_host = std::all_of(all.begin(), all.end(), [&](uint64_t one) { return one == mine; });
  return error;
}

ftc_options options_with(const std::string& address) {
  ftc_options options = {};
  options.address = address.empty() ? nullptr : address.c_str();
  options.meeting_ms = milliseconds("FTCOLL_MEETING_MS");
  options.timeout_ms = milliseconds("FTCOLL_TIMEOUT_MS");
  options.deadline_ms = milliseconds("FTCOLL_DEADLINE_MS");
  const char* const only_silence = std::getenv("FTCOLL_ONLY_SILENCE");
  options.only_silence = only_silence && std::strcmp(only_silence, "1") == 0;
  options.may_part = may_be_saved();
  options.transport = transport();
  return options;
}

// Listens, and tells where. Nothing is an error here: who does not listen has port 0.
ftc_door* open_door(const Invitation& invitation, const std::string& listen_at, Place& place) {
  ftc_door* door = nullptr;
  char text[kAddressBytes] = {};
  const ftc_options options = options_with(listen_at);
  if (!place.addresses[0]) {
    say("FTCOLL_ADDRESS", kNoAddress);
  } else if (ftc_listen(invitation.key, &options, &door, text, sizeof text) != FTC_OK) {
    say("listening", ftc_error());
  } else {
    place.port = port_in(text);
  }
  return door;
}

// While a thread waits in a call of the library. MPICH makes none in a call that looks for messages
// in MPI_COMM_SELF.
void progress_of_the_mpi(void*) {
  constexpr int kTag = 32767;  // the largest of every MPI
  static const int rank = [] {
    int own = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &own);
    return own;
  }();
  int has_come = 0;
  PMPI_Iprobe(rank, kTag, MPI_COMM_WORLD, &has_come, MPI_STATUS_IGNORE);
}

// Connects the processes of a communicator. Collective. An error of the MPI, or FTC_JOIN's.
int make_world(MPI_Comm comm, World& made) {
  int rank = 0, size = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  Invitation invitation = {};
  if (rank == 0) {
    uint8_t drawn[sizeof invitation.id + sizeof invitation.key];
    invitation.is_good = getrandom(drawn, sizeof drawn, 0) == sizeof drawn;
    std::memcpy(&invitation.id, drawn, sizeof invitation.id);
    std::memcpy(invitation.key, drawn + sizeof invitation.id, sizeof invitation.key);
  }
  int error = PMPI_Bcast(&invitation, sizeof invitation, MPI_BYTE, 0, comm);
  if (error != MPI_SUCCESS) return error;
  bool is_only_host = false;
  error = ask_for_hosts(comm, size, is_only_host);
  if (error != MPI_SUCCESS) return error;
  std::string listen_at;
  Place mine = choose_place(!is_only_host, listen_at);
  ftc_door* const door = open_door(invitation, listen_at, mine);
  std::vector<Place> places(static_cast<size_t>(size));
  error = PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, places.data(), sizeof mine, MPI_BYTE, comm);
  if (error != MPI_SUCCESS) return error;
  std::vector<std::string> ways;
  bool all_listen = invitation.is_good;
  for (const Place& place : places) {
    ways.push_back(ways_to(place, mine.host));
    all_listen &= place.port != 0;
  }
  if (!all_listen) return error_codes[FTC_JOIN];
  std::vector<const char*> addresses;
  for (const std::string& way : ways) addresses.push_back(way.c_str());
  made.id = invitation.id;
  error = PMPI_Comm_group(comm, &made.group);
  // No duplicate: that would call what the program has said is to be called for its attributes.
  MPI_Comm own = MPI_COMM_NULL;
  if (error == MPI_SUCCESS && may_be_saved()) error = PMPI_Comm_create(comm, made.group, &own);
  if (error != MPI_SUCCESS) return error;
  if (ftc_meet(door, rank, size, addresses.data(), &made.world) != FTC_OK) {
    say("connecting", ftc_error());
    return error_codes[FTC_JOIN];
  }
  ftc_progress_by(made.world, progress_of_the_mpi, nullptr);
  if (own != MPI_COMM_NULL) made.reunion = new Reunion(made.world, own);
  return MPI_SUCCESS;
}

// Around a checkpoint, on a thread of Fermata's.
void at_checkpoint(int when, void*) {
  const auto all = [](const auto& of_one) {
    const std::lock_guard staying(closing);
    const std::vector<World> now = [] {
      const std::lock_guard guard(lock);
      return worlds;
    }();
    return std::all_of(now.begin(), now.end(), [&](const World& world) {
      return !world.reunion || of_one(*world.reunion);
    });
  };
  all([when](Reunion& reunion) {
    switch (when) {
      case FERMATA_BEFORE: reunion.hold(); break;
      case FERMATA_RESTART: reunion.part(); break;
      default: reunion.release();
    }
    return true;
  });
  const auto has_found = [](Reunion& reunion) { return reunion.seek_at_once(); };
  for (int i = 0; when == FERMATA_RESTART && i < kSeekings && !all(has_found); ++i) usleep(1000);
}

// The ranks in a world of the members of a group; empty if they are not all in it.
std::vector<int32_t> ranks_in(const World& world, MPI_Group group) {
  int size = 0;
  PMPI_Group_size(group, &size);
  std::vector<int> here(static_cast<size_t>(size)), there(here.size());
  for (int rank = 0; rank < size; ++rank) here[static_cast<size_t>(rank)] = rank;
  PMPI_Group_translate_ranks(group, size, here.data(), world.group, there.data());
  for (const int rank : there) {
    if (rank == MPI_UNDEFINED) return {};
  }
  return {there.begin(), there.end()};
}

// A communicator over connections that are there; FTC_ARGUMENT if no world holds the group.
int find_comm(MPI_Group group, ftc_comm** comm) {
  const std::lock_guard guard(lock);
  const World* chosen = nullptr;
  std::vector<int32_t> ranks;
  for (const World& world : worlds) {
    std::vector<int32_t> found = ranks_in(world, group);
    // All members choose the same one, in whatever order they have made them.
    if (found.empty() || (chosen && chosen->id <= world.id)) continue;
    chosen = &world;
    ranks = found;
  }
  if (!chosen) return FTC_ARGUMENT;
  return ftc_comm_of(chosen->world, ranks.data(), static_cast<int32_t>(ranks.size()), comm);
}

int mark(MPI_Comm comm) {
  int is_inter = 0, size = 0;
  int error = PMPI_Comm_test_inter(comm, &is_inter);
  if (error != MPI_SUCCESS) return error;
  if (is_inter) return raise_error(comm, MPI_ERR_COMM);
  error = prepare();
  if (error != MPI_SUCCESS) return raise_error(comm, error);
  if (mark_of(comm)) return MPI_SUCCESS;
  outlive_news();
  MPI_Group group;
  PMPI_Comm_size(comm, &size);
  PMPI_Comm_group(comm, &group);
  ftc_comm* made = nullptr;
  if (find_comm(group, &made) != FTC_OK) {
    World world = {};
    error = make_world(comm, world);
    if (error != MPI_SUCCESS) return raise_error(comm, error);
    const std::lock_guard guard(lock);
    if (world.reunion && worlds.empty()) {
      fermata_callback(FERMATA_ON_OWN_THREAD, at_checkpoint, nullptr);
    }
    worlds.push_back(world);
  }
  if (!made && find_comm(group, &made) != FTC_OK) {
    say("marking", ftc_error());
    return raise_error(comm, error_codes[FTC_JOIN]);
  }
  PMPI_Group_free(&group);
  Mark* const mark = new Mark{made, size, FTC_OK, {}, {}};
  mark->missing.resize(static_cast<size_t>(size));
  {
    const std::lock_guard guard(lock);
    marks.push_back(mark);
  }
  return PMPI_Comm_set_attr(comm, keyval, mark);
}

}  // namespace

Mark* mark_of(MPI_Comm comm) {
  if (keyval == MPI_KEYVAL_INVALID || comm == MPI_COMM_NULL) return nullptr;
  void* value = nullptr;
  int is_there = 0;
  PMPI_Comm_get_attr(comm, keyval, &value, &is_there);
  return is_there ? static_cast<Mark*>(value) : nullptr;
}

int raise_error(MPI_Comm comm, int error) {
  PMPI_Comm_call_errhandler(comm, error);
  return error;
}

int finish(MPI_Comm comm, Mark& mark, int ftc_code, const char* name) {
  mark.code = ftc_code;
  switch (ftc_code) {
    case FTC_OK: return MPI_SUCCESS;
    case FTC_OPERATION: return raise_error(comm, MPI_ERR_OP);
    case FTC_MISMATCH: return raise_error(comm, MPI_ERR_TRUNCATE);
    case FTC_ARGUMENT: say(name, ftc_error()); return raise_error(comm, MPI_ERR_ARG);
    default: return raise_error(comm, error_codes[static_cast<size_t>(ftc_code)]);
  }
}

bool spans_world() {
  int all = 0, size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &all);
  const std::lock_guard guard(lock);
  for (const World& world : worlds) {
    PMPI_Group_size(world.group, &size);
    if (size == all) return true;
  }
  return false;
}

uint32_t deadline_ms() {
  const uint32_t chosen = milliseconds("FTCOLL_DEADLINE_MS");
  return chosen ? chosen : kDeadlineMs;
}

bool leave_all() {
  bool is_dead = false;
  for (const World& world : worlds) {
    ftc_comm* all = nullptr;
    ftc_ended ended = {};
    if (ftc_comm_all(world.world, &all) != FTC_OK) continue;
    // All living processes get the same verdict, and so do the same in MPI_Finalize. The second one
    // keeps everybody until all have the first one's.
    is_dead |= ftc_barrier(all, &ended) != FTC_OK || ended.contributions < ended.processes;
    ftc_barrier(all, nullptr);
    ftc_comm_free(all);
  }
  const std::lock_guard staying(closing);
  const std::lock_guard guard(lock);
  for (Mark* const mark : marks) ftc_comm_free(mark->comm);
  marks.clear();  // What the attributes point to is looked at no more.
  for (const World& world : worlds) ftc_close(world.world);
  if (!worlds.empty() && worlds[0].reunion) {
    fermata_no_callback(FERMATA_ON_OWN_THREAD, at_checkpoint, nullptr);
  }
  worlds.clear();
  return is_dead;
}

}  // namespace ftcoll

extern "C" {

int ftc_mark(MPI_Comm comm) { return ftcoll::mark(comm); }

int ftc_is_marked(MPI_Comm comm) { return ftcoll::mark_of(comm) != nullptr; }

int ftc_comm_behind(MPI_Comm comm, ftc_comm** behind) {
  const ftcoll::Mark* const mark = ftcoll::mark_of(comm);
  if (!mark || !behind) return FTC_ARGUMENT;
  *behind = mark->comm;
  return FTC_OK;
}

int ftc_last(MPI_Comm comm, ftc_ended* ended) {
  const ftcoll::Mark* const mark = ftcoll::mark_of(comm);
  if (!mark) return FTC_ARGUMENT;
  if (ended) {
    ended->processes = mark->size;
    ended->contributions = mark->ended.contributions;
    const int32_t missing = mark->size - mark->ended.contributions;
    for (int32_t i = 0; i < missing && i < ended->room; ++i) {
      ended->missing[i] = mark->missing[static_cast<size_t>(i)];
    }
  }
  return mark->code;
}

}  // extern "C"
