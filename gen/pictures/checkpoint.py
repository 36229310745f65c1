# SPDX-License-Identifier: Apache-2.0
"""checkpoint.svg: the messages of a checkpoint as a sequence, from spec/protocol.toml."""
import sources
from svg import Picture, wrap

COMMAND, COORDINATOR, RANKS, WORDS = 92, 276, 456, 482
TOP, STEP = 142, 36
PHASES = "control/job/src/attempt.rs"
# A phase begins with this message, sent or received; its name is what `fermata checkpoint` shows
# (phase_name()).
BEGINS = {"REQUEST": "reading clocks", "TARGETS": "parking", "DRAIN": "completing collectives",
          "EXPECTED": "draining messages", "SAVE": "writing images", "SAVED": "committing"}


def rows():
    """[(name, direction, doc, repeated)], and the message that ends it otherwise with its doc."""
    known = sources.messages()
    steps, ending = sources.checkpoint_sequence()
    out = []
    for names, direction, whom in steps:
        repeated = whom in ("one", "some")
        if repeated and names == ["TARGETS"]:
            continue  # the answer within the loop: said with its question
        for name in names:
            sender = known[name]["from"]
            if sender != ("coordinator" if direction == ">" else "agent"):
                raise sources.SourceError(f"spec/protocol.toml: {name} comes from {sender}")
        out.append((" or ".join(names), direction, known[names[0]]["doc"], repeated))
    if not any(row[3] for row in out):
        raise sources.SourceError("spec/protocol.toml: no message is repeated: checkpoint.py")
    return out, (ending, known[ending]["doc"])


def draw():
    steps, ending = rows()
    shown = sources.rust_function(PHASES, "phase_name")
    for title in BEGINS.values():
        if f'"{title}"' not in shown:
            raise sources.SourceError(f"{PHASES}: no phase is called '{title}': checkpoint.py")
    bottom = TOP + STEP * len(steps) + 18
    picture = Picture(
        "A checkpoint",
        "The messages between a command, the coordinator and the agents of all ranks from REQUEST "
        "to COMMITTED. Ranks stand still from PARKED to RESUME; images are written while they run.",
        800, bottom + 54)
    picture.text(24, 38, "A checkpoint, message by message", 20, bold=True)
    picture.text(24, 62, "The job stands still only where the lane is grey. Images are written "
                 "while it runs.", 13, "quiet")
    for x, title, kind in ((COMMAND, "fermata checkpoint", "plain"),
                           (COORDINATOR, "coordinator", "launcher"), (RANKS, "all ranks", "upper")):
        picture.text(x, 98, title, 14, f"{kind}-text" if kind != "plain" else "ink", "middle",
                     bold=True)
        if x != RANKS:
            picture.line([(x, 110), (x, bottom)], kind, thick=2)
    lane(picture, [step[0] for step in steps], bottom)
    arrow(picture, TOP - 14, "CHECKPOINT", COMMAND, COORDINATOR, "plain")
    y = TOP + 12
    for name, direction, doc, repeated in steps:
        phase(picture, y, name)
        message(picture, y, name, direction, doc, repeated)
        if name == "COMMITTED":
            picture.text(COORDINATOR - 12, y - 18, "manifest, one rename", 12, "good-text", "end")
        y += STEP
    arrow(picture, y - 10, "ANSWER", COORDINATOR, COMMAND, "plain")
    picture.text(24, bottom + 30, f"{ending[0]}:", 12, "bad-text", mono=True, bold=True)
    picture.text(72, bottom + 30, f"until COMMITTED, at any time. {ending[1]} "
                 "The last snapshot stays.", 12, "quiet")
    return picture.svg("spec/protocol.toml")


def lane(picture, names, bottom):
    """The ranks' lane: wide and blue where the application runs, grey where it stands."""
    def place(name):
        return TOP + 12 + STEP * names.index(name)
    parts = [(110, place("PARKED"), "upper"), (place("PARKED"), place("RESUME"), "plain"),
             (place("RESUME"), bottom, "upper")]
    for top, end, kind in parts:
        picture.box(RANKS - 5, top, 10, end - top, kind, radius=2)


def arrow(picture, y, name, start, end, kind, dashed=False):
    step = 7 if end > start else -7
    picture.arrow([(start, y), (end - (step if end == RANKS else 0), y)], kind, dashed)
    picture.text((start + end) / 2, y - 5, name, 12, "ink", "middle", mono=True)


def message(picture, y, name, direction, doc, repeated):
    kind = "launcher" if direction == ">" else "upper"
    ends = (COORDINATOR, RANKS) if direction == ">" else (RANKS - 5, COORDINATOR)
    arrow(picture, y, name, *ends, kind, dashed=repeated)
    if repeated:
        doc = "Some must run on for others: new TARGETS to those, as often as it takes."
    room = 800 - WORDS - 16
    first = y + 4 if len(wrap(doc, room, 12)) == 1 else y - 4
    picture.paragraph(WORDS, first, doc, room, 12, 1.25, kind="quiet")


def phase(picture, y, name):
    if name in BEGINS:
        picture.text(COORDINATOR - 12, y + 4, BEGINS[name], 12, "launcher-text", "end")
