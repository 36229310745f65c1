# SPDX-License-Identifier: Apache-2.0
"""crossing.svg: an MPI_Send from the application to the real MPI, with the statements it takes."""
import re

import sources
from svg import Picture, text_width, wrap

FRONT, CORE = "runtime/frontend/wrappers.gen.h", "runtime/mpi/p2p/p2p.h"
BACK = "runtime/backend/shim.gen.h"
LEFT, RIGHT, GAP = 24, 540, 22


def steps():
    """(title, what it does, file, statement, kind, form of the handle in it)"""
    sonames = re.findall(r"^front (\S+)", sources.read("runtime/frontend/build.sh"), re.M)
    front = sources.statement(FRONT, r"^  const int error = (core::Send\([^;]*;)")
    core = sources.statement(CORE, r"const int error = (lower\(\)\.Send\([^;]*;)")
    back = sources.statement(
        BACK, r"^inline int Send\([^{]*\{\n\s*return done\((MPI_Send\([^;]*)\);$")
    return [
        ("application", "knows one MPI's header: unchanged, not relinked", "",
         "MPI_Send(buf, count, MPI_LONG, dest, tag, comm);", "upper",
         "a handle of the ABI that it was built for"),
        ("front end", f"carries a soname: {', '.join(sonames)}", FRONT, front, "upper",
         "the slot that the handle names"),
        ("core", "counts the message; looks whether a checkpoint waits", CORE, core, "upper",
         "what the slot holds: the real handle"),
        ("back end", "compiled against the mpi.h of one installation", BACK, back + ";", "lower",
         "the real handle, in its own type"),
        ("real MPI", "any registered one; loaded anew at each start", "", "", "lower", ""),
    ]


def draw():
    picture = Picture(
        "An MPI call",
        "An MPI_Send goes from the application through the front end and the core, crosses by an "
        "indirect call into the lower half, and comes through the back end to the real MPI.",
        800, 556)
    picture.text(24, 38, "An MPI call crosses by a plain indirect call", 20, bold=True)
    picture.text(24, 62, "No thread register is switched, and no map is searched for a handle.", 13,
                 "quiet")
    picture.text(RIGHT + 18, 62, "The communicator is", 13, bold=True)
    y, above = 82, ""
    for title, does, file, code, kind, handle in steps():
        crosses = above not in ("", kind)
        gap = GAP + (14 if crosses else 0)
        if above:
            picture.arrow([(90, y), (90, y + gap - 1)], kind, thick=2.5 if crosses else 1.5)
            y += gap
        if crosses:
            boundary(picture, y - gap / 2 - 1)
        y = step(picture, y, title, does, file, code, kind)
        if handle:
            picture.paragraph(RIGHT + 18, y - 36, handle, 220, 13)
        above = kind
    return picture.svg(f"{FRONT}, {CORE}, {BACK} and runtime/frontend/build.sh")


def step(picture, y, title, does, file, code, kind):
    """One box; returns where it ends."""
    lines = wrap(code, RIGHT - LEFT - 20, 11, mono=True)
    height = 40 + 16 * len(lines) + (18 if file else 0)
    picture.box(LEFT, y, RIGHT - LEFT, height, kind)
    end = picture.text(LEFT + 14, y + 24, title, 15, f"{kind}-text", bold=True)
    picture.text(end + 12, y + 24, does, 12)
    if file:
        picture.text(LEFT + 14, y + 44, file, 11, "quiet", mono=True)
    for row, line in enumerate(lines):
        picture.text(LEFT + 14, y + (62 if file else 46) + 16 * row, line, 11, mono=True)
    return y + height


def boundary(picture, y):
    label = "lower().Send: a pointer in a table that both halves know"
    picture.line([(24, y), (70, y)], "lower", dashed=True)
    picture.text(112, y + 4, label, 12, "lower-text", bold=True)
    picture.line([(112 + text_width(label, 12, bold=True), y), (776, y)], "lower", dashed=True)
