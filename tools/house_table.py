#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/evidence/house.md: the house in figures, before its restructuring and now.

    tools/house_table.py [--before COMMIT]    the table; every figure is counted by the tools of
                                              the lint, in both trees by the same rules
    tools/house_table.py --picture            docs/img/readme-first-screen.png (headless Chromium,
                                              and Python's package markdown)
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import tidy
import tidy_complexity
import tidy_headers

HOME = pathlib.Path(__file__).resolve().parents[1]
PAGE, PICTURE = "docs/evidence/house.md", "docs/img/readme-first-screen.png"
BEFORE = "1711195a"  # the last one without rooms and with the words of old
BROWSER = ("chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,800",
           "--force-prefers-reduced-motion")  # the terminal as it stands at its end
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 850px; margin: 32px auto; }
img { max-width: 100%; } h1 { border-bottom: 1px solid #ccc; } pre { background: #f4f6f8;
padding: 12px; } td, th { border: 1px solid #ccc; padding: 4px 12px; }"""
FOLDERS = ("mpi", "launcher")
HEAD = """\
# The house in figures

Counted by `tools/house_table.py`, which writes this page, by the rules of `./x lint` as they are
now: in the tree of {before}, the last one before the restructuring, and in the present one. Code by
hand, generated files left out, but for headers.

| | before | now |
|---|---|---|
"""
ROOMS = """
Floors are counted along the longest chain of rooms, or of headers, that include each other; what
stands in no room is above them and not counted. An include is upward if it is of a room that its
own may not use; what the tree before had is judged by where files of the same name are now
({known} of {every} of its headers and sources in `mpi` and `launcher`), and the calls that it
declared by hand for another header are not counted. A circle of Rust is one of files of a crate
that name each other.

## Rooms

| room of `runtime` | headers | sources | lines | floor |
|---|---|---|---|---|
"""
SCREEN = """
## The first screen of the README

![The README as a browser shows it at 1280 by 800](../img/readme-first-screen.png)
"""


def texts_of(tree):
    for module in (tidy, tidy_complexity, tidy_headers):
        module.ROOT = tree
    return tidy_headers.sources()


def floors(edges):
    """{name: the length of the longest chain of edges down from it}, given {name: names}."""
    found = {}

    def visit(name):
        if name not in found:
            found[name] = 0  # while we are in it
            found[name] = 1 + max((visit(other) for other in edges.get(name, ())), default=0)
        return found[name]
    for name in edges:
        visit(name)
    return found


def edges_of(texts, folder, group):
    """What includes what within a folder; group: what a file counts as."""
    found = {}
    for name, text in texts.items():
        if name.startswith(f"{folder}/"):
            own = found.setdefault(group(name), set())
            own |= {group(other) for _line, other in tidy_headers.includes(name, text)
                    if other.startswith(f"{folder}/") and group(other) != group(name)}
    return found


def room(name):
    """mpi/p2p/wait.h -> mpi/p2p; launcher/config.h -> launcher/config; other files: the folder."""
    folder, found = tidy_headers.room_of(name)
    return f"{folder}/{found}" if found else folder


def top(name):
    """Where there are no rooms."""
    return name.split("/")[0]


def upward(texts, rooms):
    """How many includes go up, by where a file of that name is now."""
    place = {pathlib.PurePath(name).name: name for name in rooms if name.startswith(FOLDERS)}
    known, count = 0, 0
    for name, text in texts.items():
        now = place.get(pathlib.PurePath(name).name)
        if not name.startswith(FOLDERS) or not now:
            continue
        known += 1
        own = tidy_headers.room_of(now)
        used = (place.get(pathlib.PurePath(other).name) for _line, other in
                tidy_headers.includes(name, text) if other.startswith(FOLDERS))
        count += sum(not tidy_headers.may_use(own, tidy_headers.room_of(other))
                     for other in used if other)
    return count, known


def rust_circles(tree):
    """Crates with files that name each other in a circle, as "crate (files)"."""
    found = []
    for crate in sorted(tree.glob("control/*/src")):
        names = {path.stem: path for path in crate.glob("*.rs")
                 if path.stem not in ("lib", "main") and not path.stem.endswith("_tests")}
        uses = {}
        for name, path in names.items():
            code = path.read_text().split("#[cfg(test)]")[0]
            code = re.sub(r"//[^\n]*", "", code)
            groups = re.findall(r"crate::(\w+|\{[^;]*?\};)", code)
            words = {word for group in groups for word in re.findall(r"\w+", group)}
            uses[name] = words & set(names) - {name}
        reach = {name: reachable(uses, name) for name in names}
        members = [name for name in names if name in reach[name]]
        if members:
            found.append(f"{crate.parent.name} ({len(members)})")
    return found


def reachable(uses, start):
    found, queue = set(), [start]
    while queue:
        new = uses[queue.pop()] - found
        found |= new
        queue += new
    return found


def words_of_old():
    return sum(bool(tidy.BANNED.search(line)) for path in tidy.tracked_files()
               if path.endswith((*tidy.SOURCES, ".md")) and
               path not in ("tools/tidy.py", "CHANGELOG.md")
               for line in (tidy.ROOT / path).read_text(errors="replace").split("\n"))


def too_long():
    return sum(length > tidy.MAX_FUNCTION for path in tidy.tracked_files()
               if path.endswith((".h", ".cpp", ".c")) and not tidy.is_generated(path)
               for _line, length, _name in
               tidy.functions(tidy.strip_comments((tidy.ROOT / path).read_text()).split("\n")))


def count(texts, pattern):
    return sum(len(re.findall(pattern, text, re.M)) for text in texts.values())


def figures(tree, rooms):
    """(name, figure) of each row."""
    texts = texts_of(tree)
    headers = [f"runtime/{name}" for name in texts if name.endswith(".h") and
               name.split("/")[0] in tidy_headers.FOLDERS]
    alone = len(headers) - len({line.split(":")[0] for line in tidy_headers.check_alone(headers)})
    circles = rust_circles(tree)
    for folder in FOLDERS:
        has_rooms = any(name.startswith(f"{folder}/") and name.count("/") > 1 for name in texts)
        by_room = floors(edges_of(texts, folder, room if has_rooms else top))
        by_header = floors({name: used for name, used in edges_of(texts, folder, str).items()
                            if name.endswith(".h")})
        yield (f"`runtime/{folder}`: rooms, on floors",
               f"{len(by_room) - has_rooms}, on {max(by_room.values()) - has_rooms}")
        yield f"`runtime/{folder}`: longest chain of headers", max(by_header.values())
    yield "headers that compile alone", f"{alone} of {len(headers)}"
    yield "circles of headers", len(list(tidy_headers.check_circles(texts)))
    yield "circles of Rust files, by crate", ", ".join(circles) or 0
    yield "includes upward", upward(texts, rooms)[0]
    yield "invariants checked in release (`FERMATA_CHECK`)", count(
        texts, r"^(?!#define).*\bFERMATA_CHECK\(")
    yield "`static_assert`", count(texts, r"\bstatic_assert\(")
    yield "lines with a banned word", words_of_old()
    yield f"functions of C and C++ above {tidy.MAX_FUNCTION} lines", too_long()
    yield f"functions of a complexity above {tidy_complexity.LIMIT}", sum(
        found[0] > tidy_complexity.LIMIT for found in tidy_complexity.measured())
    yield "tracked files", len(tidy.tracked_files())


def rooms_table(texts):
    for folder in FOLDERS:
        by_room = floors(edges_of(texts, folder, room))
        for name, floor in sorted(by_room.items(), key=lambda entry: entry[1]):
            files = {path: text for path, text in texts.items()
                     if path.startswith(f"{folder}/") and room(path) == name}
            lines = sum(text.count("\n") for path, text in files.items()
                        if not tidy.is_generated(path))
            headers = sum(path.endswith(".h") for path in files)
            yield f"| `{name}` | {headers} | {len(files) - headers} | {lines} | {floor} |"


def page(before):
    with tempfile.TemporaryDirectory() as place:
        old = pathlib.Path(place) / "tree"
        git = ["git", "-C", HOME, "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", old, before], check=True, timeout=120)
        try:
            rooms = texts_of(HOME)
            rows = dict(figures(old, rooms))
            texts = texts_of(old)
        finally:
            subprocess.run([*git, "remove", "--force", old], check=True, timeout=120)
    known = upward(texts, rooms)[1]
    every = sum(name.startswith(FOLDERS) for name in texts)
    text = HEAD.format(before=before)
    text += "".join(f"| {name} | {rows[name]} | {now} |\n" for name, now in figures(HOME, rooms))
    text += ROOMS.format(known=known, every=every) + "\n".join(rooms_table(rooms)) + "\n"
    return text + (SCREEN if (HOME / PICTURE).exists() else "")


def picture():
    import markdown  # pylint: disable=import-outside-toplevel
    body = markdown.markdown((HOME / "README.md").read_text(), extensions=["tables"])
    shown = HOME / "build/readme.html"
    shown.write_text(f'<base href="{HOME.as_uri()}/"><style>{STYLE}</style>{body}')
    subprocess.run([*BROWSER, f"--screenshot={HOME / PICTURE}", shown.as_uri()], check=True,
                   timeout=60, capture_output=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", metavar="COMMIT", default=BEFORE)
    parser.add_argument("--picture", action="store_true", help="of the README's first screen")
    arguments = parser.parse_args()
    if arguments.picture:
        picture()
    else:
        (HOME / PAGE).write_text(page(arguments.before))
    return 0


if __name__ == "__main__":
    sys.exit(main())
