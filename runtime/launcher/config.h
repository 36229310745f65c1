// SPDX-License-Identifier: Apache-2.0
// What the launcher has been told, and how it gives up. Every room may use this; it uses none.
#pragma once

#include "base/text.h"
#include "base/types.h"
#include "image/moved.h"

namespace fermata::launch {

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
  const char* save_on = "";      // numbers of the signals that are to save the job, with commas
  const char* save_files = "";   // which files are saved with their contents (files/kept.cpp)
  const char* probe = "";        // not "": end, with status 0, where a rank would be started
  const char* collectives = "";  // "2pc": a barrier before each, to compare with
  // Not "": a program under this job's launcher has exec'ed this one. The pid of the first
  // launcher, and which resource limits, and settings from bit 16 on, have been changed since.
  const char *first = "", *limits = "0";
  const char* stack_limit = "";  // not "": the limit before load/address_space.cpp lowered it
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
/// Of the image, not of the command line: MPI_THREAD_* as a decimal number; "" without a restart.
extern Text<16> saved_thread_level;

/// In the lower half's environment, and so in that of every program it starts.
inline constexpr const char* kLowerMark = "FERMATA_HALF=lower";

/// Fills `config`. Ends the process if the line is not one that `fermata exec` writes.
void parse_command_line(u64* initial_stack);
/// LauncherCalls::config_value: what the halves may ask for, by name; "" if there is no such thing.
const char* config_value(const char* key);
const char* program_path();  // of the application, also after a restart
u64 auxv_value(u64 type);    // 0 if absent
const char* environment(const char* name);  // "" if absent

/// Says what went wrong, where, and what to do, and ends the process. Exit status 70.
[[noreturn]] void die(const char* what, const char* where, i32 error, const char* advice);

}  // namespace fermata::launch
