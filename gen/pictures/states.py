# SPDX-License-Identifier: Apache-2.0
"""states.svg: the states of a checkpoint attempt, from control/job/src/attempt.rs.

States and their documentation are those of `enum Phase`. An edge names the function that takes it:
each is looked up there, and an assignment to the phase that no edge stands for is an error.
"""
import re

import sources
from svg import Picture, wrap

CODE = "control/job/src/attempt.rs"
WIDTH, HEIGHT = 164, 118
PLACES = {"Pause": (24, 90), "Gather": (220, 90), "Bookmarks": (416, 90), "Drain": (612, 90),
          "Ask": (24, 288), "Commit": (220, 288), "Save": (416, 288), "Prepare": (612, 288)}
EDGES = [  # from, to, function that sets the phase
    ("Pause", "Ask", "request"), ("Pause", "Gather", "request"),
    ("Gather", "Bookmarks", "on_safe"), ("Bookmarks", "Drain", "on_sent"),
    ("Drain", "Prepare", "on_drained"), ("Ask", "Prepare", "on_program_ready"),
    ("Prepare", "Save", "on_directory_done"), ("Save", "Commit", "on_saved"),
    ("Save", "Pause", "try_later"), ("Gather", "Pause", "on_tick"),
]


def check_edges(states):
    """Every edge is in its function, and every change of the phase is an edge."""
    change = r"self\.phase = Phase::(\w+)"
    for _, to, function in EDGES:
        if to not in re.findall(change, sources.rust_function(CODE, function)):
            raise sources.SourceError(f"{CODE}: {function} does not lead to {to}: states.py")
    found = sorted(re.findall(change, sources.read(CODE)))
    if found != sorted(to for _, to, _ in EDGES):
        raise sources.SourceError(f"{CODE}: changes of the phase are {found}: states.py")
    if set(states) != set(PLACES):
        raise sources.SourceError(f"{CODE}: Phase has {sorted(states)}: states.py draws others")


def titles():
    """{state: what `fermata checkpoint` shows meanwhile}, of phase_name(); the shortest if two."""
    out = {}
    for states, title in re.findall(r"((?:Phase::\w+(?:\([^)]*\))?(?: \| )?)+)[^=]*=> \"([^\"]+)\"",
                                    sources.rust_function(CODE, "phase_name")):
        for state in re.findall(r"Phase::(\w+)", states):
            out.setdefault(state, []).append(title)
    return out


def draw():
    states, shown = sources.rust_variants(CODE, "Phase"), titles()
    check_edges(states)
    picture = Picture(
        "The states of a checkpoint attempt",
        "From Gather through Bookmarks, Drain, Prepare and Save to Commit; back to Pause and a new "
        "attempt; from any state but Commit to failed, after which the job continues.",
        800, 532)
    picture.text(24, 38, "The states of a checkpoint attempt", 20, bold=True)
    picture.text(24, 62, "In blue what the command shows meanwhile. The coordinator moves on when "
                 "all ranks have reported.", 13, "quiet")
    for state, (x, y) in PLACES.items():
        kind = "plain" if state in ("Pause", "Ask") else "upper"
        picture.box(x, y, WIDTH, HEIGHT, kind)
        picture.text(x + 10, y + 22, state, 15, f"{'ink' if kind == 'plain' else 'upper-text'}",
                     bold=True)
        line = y + 40
        title = min(shown[state], key=len) if state != "Pause" else max(shown[state], key=len)
        for text in wrap(f"“{title}”", WIDTH - 16, 12):
            picture.text(x + 10, line, text, 12, "upper-text")
            line += 15
        doc = re.sub(r" \(\w+\.rs\)", "", states[state]).split(": ")[0].rstrip(".") + "."
        picture.paragraph(x + 10, line + 4, doc, WIDTH - 14, 11, 1.25, kind="quiet")
    edges(picture)
    ends(picture)
    return picture.svg(CODE)


def edges(picture):
    top, low, right = 146, 344, 694
    first, last = 90 + HEIGHT, 288 + HEIGHT
    picture.text(34, first - 10, "it starts here, too", 11, "quiet")
    for x in (188, 384, 580):
        y = top - 20 if x == 188 else top
        picture.arrow([(x, y), (x + 31, y)], "upper", thick=2)
    picture.arrow([(220, top + 24), (189, top + 24)], "bad", dashed=True)
    picture.arrow([(right, first), (right, 287)], "upper", thick=2)
    for x in (612, 416):
        picture.arrow([(x, low), (x - 31, low)], "upper", thick=2)
    picture.arrow([(498, 288), (498, 250), (150, 250), (150, first + 1)], "bad", dashed=True)
    picture.text(324, 244, "a rank cannot be saved just now: try again", 12, "bad-text", "middle")
    picture.arrow([(60, first), (60, 287)], "plain")
    picture.text(70, 278, "application-level", 12, "quiet")
    picture.arrow([(106, last), (106, last + 20), (right, last + 20), (right, last + 1)], "plain")


def ends(picture):
    picture.arrow([(302, 288 + HEIGHT), (302, 445)], "good", thick=2)
    picture.box(220, 446, WIDTH, 62, "good")
    picture.text(302, 470, "committed", 15, "good-text", "middle", bold=True)
    picture.text(302, 490, "one rename has done it", 12, anchor="middle")
    picture.box(416, 446, 360, 62, "bad")
    picture.text(430, 470, "failed", 15, "bad-text", bold=True)
    picture.text(430, 490, "from any state but Commit: ABORT, the job continues", 12)
