#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rooms of runtime/mpi: which may use which, and that each header is a contract of its own.

    floors     no room includes a header of a room that is not in its line of ROOMS, nor calls an
               MPI function (core::X) that such a room defines; what the rooms below ask of those
               above is declared in gate/hooks.h, and is all that they may
    circles    no header of the rooms includes itself by way of others
    unused     of every header of the rooms that a file includes it names something
    alone      every header compiles by itself (the front ends' compiler, -fsyntax-only)

./x lint runs it; exit code 1 and a line for every breach.
"""
import concurrent.futures
import os
import re
import subprocess
import sys

from tidy import ROOT, is_generated, strip_comments

HOME = ROOT / "runtime/mpi"
HOOKS = "gate/hooks.h"
_OBJECTS = "handles gate p2p objects"
ROOMS = {  # room -> rooms that it may use, beside itself
    "handles": "",
    "gate": "handles",
    "p2p": "handles gate",
    "objects": "handles gate p2p",
    "comms": _OBJECTS,
    "rma": f"{_OBJECTS} comms",
    "io": f"{_OBJECTS} comms",
    "safepoint": f"{_OBJECTS} comms rma io",
    "world": f"{_OBJECTS} comms rma io safepoint",
    "user_api": f"{_OBJECTS} comms rma io safepoint",
}
INCLUDE = re.compile(r'^#include "mpi/([^"]+)"', re.M)
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


def read(path):
    return STRINGS.sub(lambda m: m[0] if m[0].startswith('"mpi/') else '""',
                       strip_comments(path.read_text()))


def sources():
    """Text of each file of the rooms, by its path from runtime/mpi."""
    return {str(path.relative_to(HOME)): read(path)
            for path in sorted(HOME.glob("*/*")) if path.suffix in (".h", ".cpp")}


def room_of(name):
    return name.split("/")[0]


def may_use(room, other):
    return other == room or other in ROOMS.get(room, "").split()


def check_floors(texts):
    by_hand = {name: text for name, text in texts.items() if not is_generated(name)}
    home = {function: room_of(name) for name, text in by_hand.items()
            for function in DEFINED.findall(text)}
    for name, text in by_hand.items():
        room = room_of(name)
        if room not in ROOMS:
            yield f"{name}: floors: {room} is not in the table of tools/tidy_rooms.py"
        for other in INCLUDE.findall(text):
            if not may_use(room, room_of(other)):
                yield f"{name}: floors: {room} may not use {other}"
        for function in sorted(set(CALLED.findall(text)) & set(home)):
            if not may_use(room, home[function]):
                yield f"{name}: floors: {room} may not call {function} of {home[function]}"


def check_circles(texts):
    def visit(name, path):
        if name in path:
            yield f"{name}: circles: {' -> '.join(path[path.index(name):] + [name])}"
        elif name not in done:
            for other in INCLUDE.findall(texts.get(name, "")):
                yield from visit(other, path + [name])
            done.add(name)
    done = set()
    for name in texts:
        if name.endswith(".h"):
            yield from visit(name, [])


def declared(text):
    names = {m["type"] or m["name"] for m in DECLARED.finditer(text)}
    for body in ENUMERATORS.findall(text):
        names.update(re.findall(r"\w+", body))
    return names


def check_unused(texts):
    names = {name: declared(text) for name, text in texts.items() if name.endswith(".h")}
    for name, text in texts.items():
        used = set(re.findall(r"\w+", INCLUDE.sub("", text)))
        for other in INCLUDE.findall(text):
            own = other.rsplit(".", 1)[0] == name.rsplit(".", 1)[0]
            if not own and other in names and not names[other] & used:
                yield f"{name}: unused: it names nothing of {other}"


def compile_alone(header):
    told = subprocess.run(
        ["gcc", "-x", "c++", "-std=c++20", "-fsyntax-only", "-fno-exceptions", "-fno-rtti",
         "-Wall", "-Wextra", "-Werror", "-Iruntime", "-include", f"mpi/{header}", "/dev/null"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    first = next((line for line in told.stderr.split("\n") if "error" in line), "")
    return f"{header}: alone: {first}" if told.returncode else None


def check_alone(texts):
    headers = [name for name in texts if name.endswith(".h")]
    headers += [path.name for path in HOME.glob("*.h")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from filter(None, pool.map(compile_alone, headers))


def main():
    texts = sources()
    breaches = [line for check in (check_floors, check_circles, check_unused, check_alone)
                for line in check(texts)]
    for line in breaches:
        print(f"runtime/mpi/{line}")
    print(f"tidy_rooms: {len(breaches)} breaches" if breaches else "tidy_rooms: clean")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
