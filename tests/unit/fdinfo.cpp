// SPDX-License-Identifier: Apache-2.0
// Lines of /proc/PID/fdinfo as kernels print them, and what the parsers make of them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/fdinfo.cpp"

using namespace fermata;
using namespace fermata::files;

#define EXPECT(condition)                                                    \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);        \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

static void locks() {
  LockLine lock;
  EXPECT(parse_lock("lock:\t1: FLOCK  ADVISORY  WRITE 4711 fe:00:652 0 EOF\n", lock));
  EXPECT(lock.member_kind == kFlock && lock.exclusive && lock.first == 0 && lock.bytes == 0);
  EXPECT(parse_lock("lock:\t12: POSIX  ADVISORY  READ  99 00:2d:18446744073709551615 100 199\n",
                    lock));
  EXPECT(lock.member_kind == kPosixLock && !lock.exclusive);
  EXPECT(lock.first == 100 && lock.bytes == 100);
  EXPECT(parse_lock("lock:\t2: OFDLCK ADVISORY  WRITE -1 fe:00:652 5 5\n", lock));
  EXPECT(lock.member_kind == kDescriptionLock && lock.first == 5 && lock.bytes == 1);
  EXPECT(parse_lock("lock:\t1: LEASE  ACTIVE    READ  7 fe:00:652 0 EOF\n", lock));
  EXPECT(lock.member_kind == 0);
  EXPECT(!parse_lock("pos:\t0\n", lock) && !parse_lock("", lock));
  EXPECT(parse_lock("lock:", lock) == false);
}

static void members() {
  MemberLine member;
  EXPECT(parse_member(
      "tfd:        5 events:       1d data: ffffffffffffffff  pos:0 ino:61af sdev:7\n", member));
  EXPECT(member.fd == 5 && member.events == 0x1d && member.data == ~u64(0));
  EXPECT(member.inode == 0x61af);
  EXPECT(parse_member("tfd:       12 events: 80000019 data:                c\n", member));
  EXPECT(member.fd == 12 && member.events == 0x80000019 && member.data == 12);
  EXPECT(member.inode == 0);  // older kernels do not say
  EXPECT(!parse_member("flags:\t02\n", member));
  WatchLine watch;
  EXPECT(parse_watch("inotify wd:a ino:7ef82a sdev:800001 mask:800afff ignored_mask:0 "
                     "fhandle-bytes:8 fhandle-type:1 f_handle:2a80ef7e00000000\n",
                     watch));
  EXPECT(watch.number == 10 && watch.inode == 0x7ef82a && watch.device == 0x800001);
  EXPECT(watch.mask == 0x800afff);
  EXPECT(!parse_watch("inotify wd:", watch));
}

static void timers() {
  const char* text =
      "pos:\t0\nflags:\t02004002\nmnt_id:\t15\nino:\t1061\nclockid: 1\nticks: 3\n"
      "settime flags: 01\nit_value: (4999, 49406829)\nit_interval: (7, 5)\n";
  TimerLines timer;
  EXPECT(parse_timer(text, timer));
  EXPECT(timer.clock == 1 && timer.ticks == 3 && timer.absolute);
  EXPECT(timer.value_ns == 4999'049'406'829 && timer.interval_ns == 7'000'000'005);
  EXPECT(!parse_timer("pos:\t0\n", timer));
  EXPECT(find_field(text, "ticks:") && *find_field(text, "ticks:") == '3');
  EXPECT(!find_field(text, "it_nothing:"));
}

static void whole_file() {
  char text[4096];
  EXPECT(read_fdinfo(0, 0, text, sizeof text) && find_field(text, "flags:"));
  EXPECT(!read_fdinfo(0, 0, text, 8));  // does not fit
  EXPECT(!read_fdinfo(0, 100000, text, sizeof text));
}

int main() {
  locks();
  members();
  timers();
  whole_file();
  puts("fdinfo: ok");
}
