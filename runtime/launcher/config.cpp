// SPDX-License-Identifier: Apache-2.0
// The launcher's command line. `fermata exec` writes it, so it is plain: pairs of --key value, then
// "--" and the application's own argv.
#include "launcher/config.h"

#include "base/rank.gen.h"
#include "halves/layout.h"
#include "sys/sys.h"

namespace fermata::launch {

Config config;
Text<16> saved_thread_level;

namespace {

constexpr int kLowerEnvCapacity = 64;
const char* lower_env[kLowerEnvCapacity];
constexpr u32 kMoveCapacity = 128;
image::Move moves[kMoveCapacity];

struct Option {
  const char* flag;
  const char* Config::*field;
};
constexpr Option kOptions[] = {
    {"--lower", &Config::lower},     {"--fronts", &Config::fronts},
    {"--sites-tool", &Config::sites_tool}, {"--sites-cache", &Config::sites_cache},
    {"--sites-shared", &Config::sites_shared},
    {"--socket", &Config::socket},   {"--job", &Config::job},
    {"--rank", &Config::rank},       {"--restore", &Config::restore},
    {"--program", &Config::program}, {"--probe", &Config::probe},
    {"--fermata", &Config::fermata}, {"--first", &Config::first},
    {"--limits", &Config::limits},   {"--ranks", &Config::ranks},
    {"--collectives", &Config::collectives}, {"--state", &Config::state},
    {"--save-files", &Config::save_files}, {"--key", &Config::key},
    {"--encrypt", &Config::encrypt}, {"--image-mac", &Config::image_mac},
    {"--stack-limit", &Config::stack_limit}, {"--save-on", &Config::save_on},
};

bool take_option(const char* flag, const char* value) {
  for (const Option& option : kOptions) {
    if (!text_equal(flag, option.flag)) continue;
    config.*option.field = value;
    return true;
  }
  if (text_equal(flag, "--map-from") && config.move_count < kMoveCapacity) {
    moves[config.move_count] = {value, ""};
    return true;
  }
  if (text_equal(flag, "--map-to") && config.move_count < kMoveCapacity) {
    moves[config.move_count++].to = value;
    return true;
  }
  if (!text_equal(flag, "--lower-env") || config.lower_env_count == kLowerEnvCapacity) return false;
  lower_env[config.lower_env_count++] = value;
  return true;
}

}  // namespace

void parse_command_line(u64* initial_stack) {
  const u64 argc = initial_stack[0];
  char** argv = reinterpret_cast<char**>(initial_stack + 1);
  config.options = argv;
  config.envp = argv + argc + 1;
  char** end = config.envp;
  while (*end) end++;
  config.auxv = reinterpret_cast<const u64*>(end + 1);
  config.lower_env = lower_env;
  config.moves = moves;
  lower_env[config.lower_env_count++] = kLowerMark;
  u64 i = 1;
  for (; i + 1 < argc && !text_equal(argv[i], "--"); i += 2)
    if (!take_option(argv[i], argv[i + 1]))
      die("unknown or repeated option", argv[i], 0, "start programs with `fermata exec`");
  config.option_count = int(i);
  config.argc = int(argc - i) - 1;
  config.argv = argv + i + 1;
  if (config.probe[0]) return;
  if (config.lower[0] == 0) die("no back end given", "--lower", 0, "use `fermata exec`");
  if (config.argc < 1 && config.restore[0] == 0)
    die("no program given", "after --", 0, "use `fermata exec PROGRAM ARGS`");
}

const char* config_value(const char* key) {
  if (text_equal(key, "thread_level")) return saved_thread_level.data;
  if (text_equal(key, "front")) return config.front;
  if (text_equal(key, "faults")) return environment("FERMATA_FAULT");
  for (const Option& option : kOptions)
    if (text_equal(option.flag + 2, key)) return config.*option.field;
  return "";
}

const char* program_path() {
  return config.program[0] || config.argc < 1 ? config.program : config.argv[0];
}

u64 auxv_value(u64 type) {
  for (const u64* pair = config.auxv; pair[0]; pair += 2)
    if (pair[0] == type) return pair[1];
  return 0;
}

const char* environment(const char* name) {
  const u64 length = text_length(name);
  for (char** entry = config.envp; *entry; entry++)
    if (text_starts(*entry, name) && (*entry)[length] == '=') return *entry + length + 1;
  return "";
}

void die(const char* what, const char* where, i32 error, const char* advice) {
  Message message;
  message << "fermata: " << what << ": " << where;
  if (error) message << " (errno " << error << ")";
  message << "\n  hint: " << advice << "\n";
  take_out_control(message.data);
  sys::say(message.data);
  sys::exit_group(kExitLauncher);
}

}  // namespace fermata::launch
