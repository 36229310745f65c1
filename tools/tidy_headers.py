#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each header is a contract: it compiles alone, so that who includes it needs nothing before it.
And runtime/sys/linux.h says what the kernel's headers say, as far as this system's have it; a
number that is named after the kernel's stands nowhere else in these folders.

    tools/tidy_headers.py [HEADER...]    without names: all of the folders below
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from tidy import ROOT, tracked_files

FOLDERS = ("arch", "base", "halves", "sys", "image", "memory", "files", "launcher", "agent")
COMPILER = os.environ.get("CXX", "g++")
FLAGS = ("-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-fno-exceptions", "-fno-rtti",
         "-mno-red-zone", "-Iruntime", "-x", "c++")
NUMBERS = "runtime/sys/linux.h"
# Where a libc and the kernel have them.
KERNEL_HEADERS = """
arpa/inet.h elf.h fcntl.h linux/btrfs.h linux/capability.h linux/f2fs.h linux/fs.h linux/futex.h
linux/in6.h linux/ioprio.h linux/ipv6.h linux/kcmp.h linux/keyctl.h linux/magic.h
linux/membarrier.h linux/mempolicy.h linux/prctl.h linux/sched.h linux/userfaultfd.h netinet/in.h
netinet/tcp.h poll.h asm/prctl.h signal.h sys/epoll.h sys/file.h sys/inotify.h sys/ioctl.h
sys/ipc.h sys/mman.h sys/personality.h sys/resource.h sys/shm.h sys/socket.h sys/stat.h
sys/syscall.h sys/timerfd.h sys/wait.h time.h unistd.h""".split()


def in_folders(path):
    return re.match(rf"runtime/(?:{'|'.join(FOLDERS)})/", path) is not None


def compile_alone(header):
    run = subprocess.run([COMPILER, *FLAGS, header], cwd=ROOT, capture_output=True, text=True,
                         timeout=120, check=False)
    said = [line for line in run.stderr.split("\n")
            if re.search(r"error|warning", line) and "#pragma once in main file" not in line]
    return [f"{header}:1: header: does not compile alone: {said[0]}"] if said else []


def macros():
    """{name without underscores, in capitals: name} of the system's headers."""
    lines = "".join(f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n"
                    for name in KERNEL_HEADERS)
    run = subprocess.run([COMPILER, "-x", "c++", "-dM", "-E", "-D_GNU_SOURCE", "-"], input=lines,
                         capture_output=True, text=True, timeout=120, check=True)
    # Enumerators are no macros; those of one header have their names in its text.
    plain = subprocess.run([COMPILER, "-x", "c++", "-E", "-P", "-D_GNU_SOURCE", "-"], input=lines,
                           capture_output=True, text=True, timeout=120, check=True).stdout
    names = re.findall(r"^#define (\w+) ", run.stdout, re.M)
    names += re.findall(r"^\s*([A-Z][A-Z0-9_]+)\s*(?:=|,)", plain, re.M)
    found = {}
    for name in sorted(names, key=lambda name: name.startswith("_")):
        found.setdefault(name.replace("_", "").upper(), name)
    return lines, found, set(names)


def numbers(text):
    """[(line, ours, the kernel's name or "")] of linux.h."""
    entry = re.compile(r"    (k\w+) = [^;,]+[;,](?:  // (.+))?$")
    return [(number, match[1], (match[2] or "").partition(" ")[0])
            for number, line in enumerate(text.split("\n"), 1) if (match := entry.match(line))]


def stray_numbers(names):
    """A number with the kernel's name behind it: `9 /* SIGKILL */`, `constexpr ... 9;  // SIG...`.
    But halves/ names the two signals that are ours."""
    beside = re.compile(r"\d\s*/\* ?(\w+)|\bconstexpr\b[^;]*= *\w+;\s*// ?(\w+)")
    for path in tracked_files():
        if path == NUMBERS or not in_folders(path) or path.startswith("runtime/halves/"):
            continue
        for number, line in enumerate((ROOT / path).read_text().split("\n"), 1):
            for match in beside.finditer(line):
                name = match[1] or match[2]
                if name in names:
                    yield f"{path}:{number}: number: {name} belongs to {NUMBERS}"


def check_numbers(text):
    """(breaches in the text of linux.h, how many numbers were compared)"""
    lines, found, names = macros()
    compared, by_line = [], {}
    for number, ours, theirs in numbers(text):
        name = theirs if theirs in names else "" if theirs else found.get(ours[1:].upper(), "")
        if name and name != "SIG_IGN":  # a pointer
            by_line[len(compared)] = number, ours, name
            compared.append(f"static_assert((unsigned long)(long)({name}) == "
                            f"(unsigned long)(long)fermata::sys::{ours}, \"@{len(compared)}\");\n")
    source = f"#undef linux\n{text}\n{lines}{''.join(compared)}"
    run = subprocess.run([COMPILER, *FLAGS, "-D_GNU_SOURCE", "-"], input=source, cwd=ROOT,
                         capture_output=True, text=True, timeout=120, check=False)
    wrong = [by_line[int(at)] for at in re.findall(r"static assertion failed: @(\d+)", run.stderr)]
    breaches = [f"{NUMBERS}:{number}: number: {ours} is not {name} of this system's headers"
                for number, ours, name in wrong]
    other = [line for line in run.stderr.split("\n")
             if "error" in line and "static assertion" not in line]
    if other:
        print(f"tidy_headers: this system's headers do not go together: {other[0]}")
        return [], 0
    return breaches + list(stray_numbers(names)), len(compared)


def main():
    wanted = sys.argv[1:] or [path for path in tracked_files() if path.endswith(".h") and
                              in_folders(path)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        breaches = [line for lines in pool.map(compile_alone, wanted) for line in lines]
    wrong, compared = check_numbers((ROOT / NUMBERS).read_text())
    breaches += wrong
    for line in breaches:
        print(line)
    print(f"tidy_headers: {len(breaches)} breaches" if breaches else
          f"tidy_headers: {len(wanted)} headers and {compared} numbers, clean")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
