#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rooms and headers of the runtime: who may use whom within a folder, and that each header is a
contract. Prints every breach as file:line: rule: text; exit code 1.

    floors   no room includes a header of a room that is not in its line of ROOMS, nor calls an MPI
             function (core::X) that such a room defines; what rooms of mpi/ ask of those above is
             declared in gate/hooks.h, and is all that they may
    circles  no header includes itself again by way of others
    unused   of every header of mpi/ that a file there includes it names something
    alone    each header compiles by itself, so that who includes it needs nothing before it
    number   sys/linux.h says what the kernel's headers say, as far as this system's have it; a
             number that is named after the kernel's stands nowhere else in these folders

    tools/tidy_headers.py [HEADER...]    whether these compile alone; without names everything
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from tidy import ROOT, is_generated, strip_comments, tracked_files

FREESTANDING = "arch base halves sys image memory files launcher agent".split()
FOLDERS = (*FREESTANDING, "mpi")  # whose headers compile alone


def in_order(rooms):
    """Each may use those before it."""
    names = rooms.split()
    return {name: names[:at] for at, name in enumerate(names)}


_OBJECTS = "handles", "gate", "p2p", "objects"
# Folder -> room -> rooms that it may use, beside itself. A room is a folder, or a source and its
# header. What is in none is above all.
ROOMS = {
    "launcher": in_order("config patch boundary load ids process threads image"),
    "mpi": {
        "handles": [],
        "gate": ["handles"],
        "p2p": ["handles", "gate"],
        "objects": ["handles", "gate", "p2p"],
        "comms": [*_OBJECTS],
        "rma": [*_OBJECTS, "comms"],
        "io": [*_OBJECTS, "comms"],
        "safepoint": [*_OBJECTS, "comms", "rma", "io"],
        "world": [*_OBJECTS, "comms", "rma", "io", "safepoint"],
        "user_api": [*_OBJECTS, "comms", "rma", "io", "safepoint"],
    },
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
STRINGS = re.compile(r'"(?:\\.|[^"\\\n])*"')
# A function of MPI as the rooms define it, and where one is called; `lower().X(` is another matter.
DEFINED = re.compile(r"^(?:inline )?(?:int|double) ([A-Z]\w*)\(", re.M)
CALLED = re.compile(r"(?<![.>\w:])(?:core::)?([A-Z]\w*)\(")
# What a header declares at the level of its namespaces.
DECLARED = re.compile(
    r"^(?=\S)(?:\[\[[^]]*\]\] ?)*(?:template <[^\n]*>\n)?(?:extern |inline |constexpr |const )*"
    r"(?:(?:struct|class|enum class|enum|using) (?P<type>\w+)"
    r"|[\w:<>*& ,]*?[\w>*&] ?[*&]?(?P<name>\w+)(?=[(\[{;]| = ))", re.M)
ENUMERATORS = re.compile(r"^enum [^{;]*\{([^}]*)\}", re.M)
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


def is_freestanding(path):
    return re.match(rf"runtime/(?:{'|'.join(FREESTANDING)})/", path) is not None


def sources():
    """Text without comments of each file of the runtime, by its path below runtime/."""
    return {path.removeprefix("runtime/"): strip_comments((ROOT / path).read_text())
            for path in tracked_files()
            if path.startswith("runtime/") and path.endswith((".h", ".cpp", ".S"))}


def includes(name, text):
    """[(line, header below runtime/)]"""
    for match in INCLUDE.finditer(text):
        beside = pathlib.PurePosixPath(name).parent / match[1]
        is_beside = (ROOT / "runtime" / beside).is_file()
        yield line_of(text, match.start(1)), str(beside) if is_beside else match[1]


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def room_of(name):
    """(folder, room) of a path below runtime/; no room: above all. None: the folder has none."""
    folder, _, rest = name.partition("/")
    if folder not in ROOMS:
        return None
    room = rest.split("/")[0].split(".")[0]
    return folder, room if "/" in rest or room in ROOMS[folder] else ""


def may_use(own, other):
    """Whether a file of the one room may use what is in the other."""
    if own is None or other is None or own[0] != other[0] or not own[1] or own == other:
        return True
    return other[1] in ROOMS[own[0]].get(own[1], ())


def check_floors(texts):
    by_hand = {name: text for name, text in texts.items() if not is_generated(name)}
    home = {function: room_of(name) for name, text in by_hand.items() if name.startswith("mpi/")
            for function in DEFINED.findall(text)}
    for name, text in by_hand.items():
        own = room_of(name)
        if own and own[1] and own[1] not in ROOMS[own[0]]:
            yield f"runtime/{name}:1: floors: {own[1]} is not in the table of tools/tidy_headers.py"
        for line, other in includes(name, text):
            if not may_use(own, room_of(other)):
                yield f"runtime/{name}:{line}: floors: {own[1]} may not use {other}"
        called = CALLED.finditer(STRINGS.sub('""', text)) if name.startswith("mpi/") else ()
        for function in sorted({match[1] for match in called} & set(home)):
            if not may_use(own, home[function]):
                yield (f"runtime/{name}:1: floors: {own[1]} may not call {function} of "
                       f"{home[function][1]}")


def check_circles(texts):
    used_by = {name: list(includes(name, text)) for name, text in texts.items()
               if name.endswith(".h")}
    done, way = set(), []

    def visit(header):
        way.append(header)
        for line, used in used_by.get(header, ()):
            if used in way:
                circle = " -> ".join(way[way.index(used):] + [used])
                yield f"runtime/{header}:{line}: circles: {circle}"
            elif used not in done:
                yield from visit(used)
        done.add(way.pop())

    for header in sorted(used_by):
        if header not in done:
            yield from visit(header)


def declared(text):
    names = {m["type"] or m["name"] for m in DECLARED.finditer(text)}
    for body in ENUMERATORS.findall(text):
        names.update(re.findall(r"\w+", body))
    return names


def check_unused(texts):
    rooms = {name: text for name, text in texts.items() if re.match("mpi/.*/", name)}
    names = {name: declared(text) for name, text in rooms.items() if name.endswith(".h")}
    for name, text in rooms.items():
        used = set(re.findall(r"\w+", STRINGS.sub('""', INCLUDE.sub("", text))))
        for line, other in includes(name, text):
            own = other.rsplit(".", 1)[0] == name.rsplit(".", 1)[0]
            if not own and other in names and not names[other] & used:
                yield f"runtime/{name}:{line}: unused: it names nothing of {other}"


def compile_alone(header):
    run = subprocess.run([COMPILER, *FLAGS, header], cwd=ROOT, capture_output=True, text=True,
                         timeout=120, check=False)
    said = [line for line in run.stderr.split("\n")
            if re.search(r"error|warning", line) and "#pragma once in main file" not in line]
    return [f"{header}:1: alone: does not compile alone: {said[0]}"] if said else []


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
        if path == NUMBERS or not is_freestanding(path) or path.startswith("runtime/halves/"):
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


def check_alone(headers):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for lines in pool.map(compile_alone, headers):
            yield from lines


def main():
    texts = sources()
    headers = sys.argv[1:] or [f"runtime/{name}" for name in texts
                               if name.endswith(".h") and name.split("/")[0] in FOLDERS]
    breaches, compared = list(check_alone(headers)), 0
    if not sys.argv[1:]:
        for check in (check_floors, check_circles, check_unused):
            breaches += check(texts)
        wrong, compared = check_numbers((ROOT / NUMBERS).read_text())
        breaches += wrong
    for line in breaches:
        print(line)
    print(f"tidy_headers: {len(breaches)} breaches" if breaches else
          f"tidy_headers: {len(headers)} headers and {compared} numbers, clean")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
