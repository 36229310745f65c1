#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the crossing to its promise: a launcher serves the front ends of older images.

What the halves and the launcher know of each other is taken from the sources as text: structures
with their members, enumerations, fixed addresses, the frame that hold() leaves on the stack, the
shape of the table of MPI calls and the version of the image. It has to be what is written down for
its version (spec/crossing/NUMBER.txt), and to be an older one's that is served with more at the
ends. `--write` writes the description of a new version down, once.
"""
import argparse
import pathlib
import re
import sys
import tomllib
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
DESCRIPTIONS = ROOT / "spec/crossing"
HALVES = ROOT / "runtime/halves"
LAYOUT, CROSSING, CALLS = "layout.h", "crossing.h", "mpi_calls.gen.h"
RANK = "../base/rank.gen.h"  # enumerations, from spec/rank.toml
HINT = "spec/crossing.toml says what to do"
# Each of these is reached by an address of its own and may grow at its end. The size of any other
# decides where the next element of an array lies, or the next member of a structure.
MAY_GROW = {f"struct {name}" for name in (
    "Gate", "Mailbox", "LowerCalls", "UpperCalls", "Crossing", "Excluded", "SaveRequest",
    "SaveOutcome", "LauncherCalls")}


def plain(text):
    """Without comments, and with single spaces."""
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", text))


def body(text, start):
    """What is between the brace at `start` and its partner."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1:at]
    raise ValueError(f"no end of {text[start - 40:start]}")


def structures(text):
    for match in re.finditer(r"\bstruct (\w+) \{", text):
        members = body(text, match.end() - 1)
        members = re.sub(r"[^;{}]*\)(?: const)? \{[^{}]*\}", "", members)  # functions
        yield f"struct {match[1]}", [member.strip() for member in members.split(";")
                                     if member.strip()]


def enumerations(text):
    for match in re.finditer(r"\benum (?:class )?(\w+) : \w+ \{", text):
        values = body(text, match.end() - 1).split(",")
        yield match[0][:-2], [value.strip() for value in values if value.strip()]


def constants(text):
    pattern = r"inline constexpr ([\w ]+?) (k\w+) = ([^;\"]+);"
    return sorted(f"{kind} {name} = {value}" for kind, name, value in re.findall(pattern, text))


def digest(lines):
    return f"{zlib.crc32(chr(10).join(lines).encode()):#x}"


def hold_frame():
    assembly = (ROOT / "runtime/arch/x86_64/launcher.S").read_text()
    code = assembly.split("\nfermata_hold_entry:\n")[1].split("\n        ret\n")[0]
    lines = (line.split("//")[0].split() for line in code.split("\n"))
    return [" ".join(words) for words in lines if words and not words[0].startswith(".cfi")]


def present():
    """The crossing of these sources: (title, lines) by parts, and the calls of MPI one by one."""
    layout, crossing, calls, rank = (plain((HALVES / name).read_text())
                                     for name in (LAYOUT, CROSSING, CALLS, RANK))
    image = tomllib.loads((ROOT / "spec/image.toml").read_text())
    of_calls = dict(structures(calls))
    read = f"{image['oldest']} to {image['version']}"
    parts = {"image": [read], "constants": constants(layout) + constants(crossing),
             **dict(enumerations(rank + crossing)), **dict(structures(crossing)),
             "struct CanonStatus": of_calls["struct CanonStatus"], "hold": hold_frame()}
    # Whatever its kind, a real handle is one word.
    return parts, [re.sub(r"\bReal[A-Z]\w+", "u64", call) for call in of_calls["struct MpiCalls"]]


def text_of(number, parts, calls):
    out = ["# SPDX-License-Identifier: Apache-2.0",
           f"# Crossing {number}, as tools/crossing.py has found it. Never changed."]
    for title, lines in parts.items():
        out += ["", f"[{title}]", *lines]
    return "\n".join([*out, "", "[calls]", str(len(calls)), digest(calls), ""])


def parse(text):
    parts, title = {}, ""
    for line in text.split("\n"):
        if line.startswith("[") and line.endswith("]"):
            title = line[1:-1]
            parts[title] = []
        elif line and title:
            parts[title].append(line)
    return parts


def extends(title, old, new):
    """Whether a structure is an older one, with more at its end if it may grow; what was reserved
    may have got a meaning."""
    def same(one, other):
        is_free = re.fullmatch(r"\w+ reserved\w*", one)
        return one == other or (is_free and one.split()[0] == other.split()[0])
    fits = len(new) == len(old) or (len(new) > len(old) and title in MAY_GROW)
    return fits and all(map(same, old, new))


def differences(old, parts, calls):
    """What of an older crossing is no longer so."""
    for title, lines in old.items():
        if title == "calls":
            count, crc = int(lines[0]), lines[1]
            if digest(calls[:count]) != crc:
                yield f"the first {count} calls of struct MpiCalls"
        elif title not in parts:
            yield title
        elif title.startswith("enum") or title == "constants":
            yield from (f"{title}: {line}" for line in lines if line not in parts[title])
        elif title == "image":
            if int(lines[0].split()[-1]) < int(parts[title][0].split()[0]):
                yield "its images are not read"
        elif title == "hold":
            if lines != parts[title]:
                yield title
        elif not extends(title, lines, parts[title]):
            yield title


def problems():
    spec = tomllib.loads((ROOT / "spec/crossing.toml").read_text())
    parts, calls = present()
    number = spec["version"]
    file = DESCRIPTIONS / f"{number}.txt"
    if not file.exists():
        yield f"{file.relative_to(ROOT)} is missing: tools/crossing.py --write"
    elif file.read_text() != text_of(number, parts, calls):
        yield f"the crossing is no longer {file.relative_to(ROOT)}; {HINT}"
    for older in range(spec["oldest"], number):
        file = DESCRIPTIONS / f"{older}.txt"
        if not file.exists():
            yield f"{file.relative_to(ROOT)} is missing: it is that of the commit before"
            continue
        for what in differences(parse(file.read_text()), parts, calls):
            yield f"front ends of crossing {older} would not be served: {what}; {HINT}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="describe a new version")
    if parser.parse_args().write:
        number = tomllib.loads((ROOT / "spec/crossing.toml").read_text())["version"]
        DESCRIPTIONS.mkdir(exist_ok=True)
        try:
            with open(DESCRIPTIONS / f"{number}.txt", "x") as file:
                file.write(text_of(number, *present()))
        except FileExistsError:
            sys.exit(f"crossing.py: version {number} has been written down; raise it first: {HINT}")
    found = list(problems())
    for text in found:
        print(f"spec/crossing.toml: {text}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
