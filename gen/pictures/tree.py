# SPDX-License-Identifier: Apache-2.0
"""tree.svg: what is in which folder, from the tree of ARCHITECTURE.md and control/README.md.

Every folder of runtime/ and every crate of control/ that is there is drawn, or the picture fails.
"""
import re

import sources
from svg import Picture, text_width, wrap

LEFT, MIDDLE, WIDTH, TOP, LINE = 24, 408, 368, 178, 15
KINDS = {"upper half": "upper", "lower half": "lower", "freestanding": "launcher"}


def block():
    """The lines of the tree in ARCHITECTURE.md."""
    return sources.find("ARCHITECTURE.md",
                        r"^## The tree\n\n(?:!\[.*\n\n)?((?:    .*\n|\n)+)")[1].split("\n")


def rooms():
    """[(folders, words, where it lives)] of runtime/."""
    out, inside = [], False
    for line in block():
        if re.match(r"    \w", line):
            inside = line.startswith("    runtime/")
        match = re.match(r"      ((?:\w+/ ?)+)\s*(.*)$", line)
        if inside and match:
            lives = next((place for place in KINDS if match[2].endswith(place)), "")
            words = re.sub(r"\s+a tool of its own$", "", match[2].removesuffix(lives).strip())
            out.append((match[1].split(), words, lives))
    check("runtime", [name.strip("/") for folders, _, _ in out for name in folders])
    return out


def crates():
    """[(crate, words)] of control/."""
    text = sources.find("control/README.md", r"^((?:    \w.*\n|    {4,}\S.*\n)+)")[1]
    out = []
    for line in text.split("\n"):
        if match := re.match(r"    (\w+) {2,}(.*)$", line):
            out.append([match[1], match[2]])
        elif line.strip():
            out[-1][1] += " " + line.strip()
    check("control", [name for name, _ in out])
    return [(name, re.split(r"[;:]|\.$| {3,}", words)[0].replace("`", "")) for name, words in out]


def check(folder, drawn):
    there = {path.name for path in (sources.ROOT / folder).iterdir()
             if path.is_dir() and path.name[0] != "." and path.name != "target"}
    if there != set(drawn):
        raise sources.SourceError(f"{folder}/: {sorted(there ^ set(drawn))}: there but not in the "
                                  "documents that tree.py reads, or the other way round")


def others():
    """{folder: words} of the rest of the tree."""
    text = "\n".join(block())
    out = {}
    for name in ("tests", "bench", "tools"):
        match = re.search(rf"^    {name}/ +(.*(?:\n {{12,}}.*)*)", text, re.M)
        if not match:
            raise sources.SourceError(f"ARCHITECTURE.md: the tree has no {name}/: tree.py")
        out[name] = re.sub(r"\s+", " ", match[1])
    return out


def draw():
    left = [(" ".join(folders), words, KINDS.get(lives, "plain"))
            for folders, words, lives in rooms()]
    right = [(f"{name}/", words, "plain") for name, words in crates()]
    bottom = TOP + 44 + max(height(left), height(right))
    picture = Picture(
        "What is in which folder",
        "runtime is C++ and lives in the rank, control is Rust and lives outside; they share "
        "nothing but spec, from which gen writes both.", 800, bottom + 142)
    picture.text(24, 38, "What is in which folder", 20, bold=True)
    picture.text(24, 62, "Two programs, one contract: what both sides know is in spec, and "
                 "generated into both.", 13, "quiet")
    picture.box(214, 82, 372, 50, "good")
    picture.text(400, 104, "spec/", 15, "good-text", "middle", mono=True, bold=True)
    picture.text(400, 122, "MPI functions, image, protocol, faults", 12, anchor="middle")
    for x, middle in ((LEFT + WIDTH / 2, 300), (MIDDLE + WIDTH / 2, 500)):
        picture.arrow([(middle, 132), (middle, 152), (x, 152), (x, TOP - 1)], "good", thick=2)
    picture.text(400, 157, "gen/", 13, "good-text", "middle", mono=True, bold=True)
    column(picture, LEFT, "runtime/", "C++20, lives in the rank", left, bottom)
    column(picture, MIDDLE, "control/", "Rust, lives outside", right, bottom)
    legend(picture, bottom + 24)
    for index, (name, words) in enumerate(others().items()):
        x = 24 + 254 * index
        picture.box(x, bottom + 40, 244, 84, "plain")
        picture.text(x + 12, bottom + 60, f"{name}/", 13, mono=True, bold=True)
        picture.paragraph(x + 12, bottom + 78, first_words(words), 224, 12, 1.25, kind="quiet")
    return picture.svg("ARCHITECTURE.md and control/README.md")


def first_words(words):
    """As many of them as three lines hold, up to a comma."""
    parts = re.split(r"(?<=[,;])\s", re.sub(r"\([^)]*\)", "", words).replace(" ,", ","))
    text = parts[0]
    for part in parts[1:]:
        if len(wrap(f"{text} {part}", 224, 12)) > 3:
            break
        text += f" {part}"
    return text.rstrip(",;")


def entry_lines(entry):
    """The words of an entry, beside its name, or below a name that is long."""
    name, words, _ = entry
    return wrap(words, WIDTH - 24 - offset(name), 12) or [""]


def offset(name):
    return max(104, text_width(name, 12, mono=True) + 14)


def height(entries):
    return sum(LINE * len(entry_lines(entry)) + 10 for entry in entries)


def column(picture, x, title, where, entries, bottom):
    picture.box(x, TOP, WIDTH, bottom - TOP, "card", radius=8)
    end = picture.text(x + 12, TOP + 24, title, 15, mono=True, bold=True)
    picture.text(end + 12, TOP + 24, where, 13, "quiet")
    y = TOP + 36
    for entry in entries:
        name, _, kind = entry
        lines = entry_lines(entry)
        picture.box(x + 6, y, WIDTH - 12, LINE * len(lines) + 7, kind, radius=4)
        colour = "ink" if kind == "plain" else f"{kind}-text"
        picture.text(x + 14, y + 15, name, 12, colour, mono=True, bold=True)
        for row, line in enumerate(filter(None, lines)):
            picture.text(x + 14 + offset(name), y + 15 + LINE * row, line, 12)
        y += LINE * len(lines) + 10


def legend(picture, y):
    x = 24
    for title, kind in KINDS.items():
        picture.box(x, y - 11, 12, 12, kind, radius=3)
        x = picture.text(x + 20, y, title, 12, "quiet") + 20
