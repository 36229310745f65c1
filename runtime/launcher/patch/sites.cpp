// SPDX-License-Identifier: Apache-2.0
// The lower half runs on GS: every FS prefix (0x64) of its code becomes a GS prefix (0x65) when the
// code is mapped. Where the prefixes are, the sites tool has found by disassembly and kept under
// the file's identity, with the MPI or in the user's cache; a file that is in neither is looked at
// here and now, by that tool.
#include "launcher/patch/sites.h"

#include <elf.h>

#include "base/text.h"
#include "launcher/config.h"
#include "launcher/patch/site_cache.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

/// Has the sites tool look through a file and write what it has found to `list`. It keeps that in
/// the user's cache as well, if it can.
void run_sites_tool(const char* path, int list) {
  Text<24> number;
  number << list;
  const char* const argv[] = {config.sites_tool, "--output", number.data,
                              config.sites_cache[0] ? "--cache" : path,
                              config.sites_cache[0] ? config.sites_cache : nullptr, path, nullptr};
  // fork(2) without SIGCHLD: the application must not see this child.
  const i64 child = arch::raw_syscall(SYS_clone, 0);
  if (child == 0) {
    const u64 none = 0;
    (void)sys::sigprocmask(sys::kSigSetMask, &none, nullptr);
    (void)sys::dup3(2, 1, 0);  // what it prints belongs to stderr
    (void)sys::fcntl(list, sys::kSetFdFlags, 0);
    (void)sys::call(SYS_execve, sys::arg(config.sites_tool), sys::arg(argv),
                    sys::arg(config.envp));
    sys::exit_group(127);
  }
  if (child < 0) die("cannot start the sites tool", config.sites_tool, i32(-child), "");
  i32 status = 0;
  while (sys::call(SYS_wait4, u64(child), sys::arg(&status), sys::kWAll).error == sys::kEintr) {}
  if ((status >> 8 & 0xff) == 127 || (status & 0x7f))
    die("cannot run the sites tool", config.sites_tool, 0, "rebuild or reinstall Fermata");
}

/// Looks through a file of which no list is kept.
i32 find_sites(const char* path, SiteFile& sites) {
  const Result<u64> list = sys::call(SYS_memfd_create, sys::arg("sites"), sys::kMfdCloexec);
  if (!list) return list.error;
  run_sites_tool(path, int(list.value));
  const i32 error = map_sites(int(list.value), sites);
  (void)sys::close(int(list.value));
  return error;
}

}  // namespace

void rewrite_sites(int fd, u64 offset, u64 address, u64 bytes) {
  Path path;
  Text<64> link;
  link << "/proc/self/fd/" << fd;
  if (!sys::readlink(link.data, path.data, sizeof path.data)) path << "(unknown file)";
  const image::BuildId key = site_key(fd);
  SiteFile sites;
  i32 error = sys::kEnoent;
  const char* const directories[] = {config.sites_shared, config.sites_cache};
  for (const char* directory : directories)
    if (error && error != sys::kEperm) error = open_sites(key, directory, sites);
  if (error && error != sys::kEperm) error = find_sites(path.data, sites);
  if (error == sys::kEperm)
    die("this library's code cannot be rewritten for the lower half", path.data, 0, sites.reason);
  if (error)
    die("no usable list of thread-register sites", path.data, error,
        "its file or the sites tool cannot be read: reinstall Fermata");
  for (u64 i = 0; i < sites.count; i++) {
    const u64 site = sites.offsets[i];
    if (site < offset || site >= offset + bytes) continue;
    u8& prefix = *reinterpret_cast<u8*>(address + (site - offset));
    if (prefix != 0x64)
      die("a cached site is not an FS prefix", path.data, 0,
          "the library changed: remove the cache directory and run `fermata mpi add` again");
    prefix = 0x65;
  }
  close_sites(sites);
}

}  // namespace fermata::launch
