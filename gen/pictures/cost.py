# SPDX-License-Identifier: Apache-2.0
"""cost.svg: what a call costs natively, under Fermata and under MANA.

Fermata's figures are the rows of docs/evidence/families.md, which `./x bench --families` writes;
those of MANA are a table of their own with where they come from, mana.toml.
"""
import pathlib
import tomllib

import sources
from svg import Picture

TABLE = pathlib.Path(__file__).with_name("mana.toml")
LEFT, UNIT, LIMIT = 214, 72, 5.9  # where 0 is, pixels per 1, the longest bar
TOP, STEP, BAR = 124, 96, 20


def rows(mana):
    known = sources.families(mana["mpi"])
    for entry in mana["call"]:
        row = known.get(entry["row"])
        if not row:
            raise sources.SourceError(f"docs/evidence/families.md: no row '{entry['row']}' of "
                                      f"{mana['mpi']}: mana.toml wants one")
        native = float(row["native"])
        theirs = entry["ratio"] if "ratio" in entry else 1 + entry["adds_ns"] / native
        low, high = (float(part) for part in row["quartiles"].split(" .. "))
        yield entry, native, float(row["ratio"]), (low, high), theirs


def draw():
    mana = tomllib.loads(TABLE.read_text())
    figures = list(rows(mana))
    said = "; ".join(f"{entry['title']}: Fermata {ours:.2f}, MANA {theirs:.2f}"
                     for entry, _, ours, _, theirs in figures)
    height = TOP + STEP * len(figures) + 62
    picture = Picture(
        "What a call costs",
        f"Time per call as a multiple of the native one, which is 1. {said}.", 800, height)
    picture.text(24, 38, "What a call costs: native, Fermata, MANA", 20, bold=True)
    picture.text(24, 62, "Time per call as a multiple of native; shorter is better. Two ranks of "
                 f"one machine, {mana['mpi_title']}.", 13, "quiet")
    legend(picture)
    bottom = TOP + STEP * len(figures) - 14
    picture.line([(LEFT + UNIT, TOP - 12), (LEFT + UNIT, bottom)], "plain", dashed=True)
    for index, figure in enumerate(figures):
        group(picture, TOP + STEP * index, *figure)
    for index, text in enumerate(mana["notes"]):
        picture.text(24, bottom + 26 + 18 * index, text, 12, "quiet")
    return picture.svg("docs/evidence/families.md and gen/pictures/mana.toml")


def legend(picture):
    x = LEFT
    for title, kind in (("native", "plain"), ("Fermata, with its quartiles", "upper"),
                        ("MANA", "lower")):
        picture.box(x, 80, 14, 14, f"{kind}-text", radius=3)
        x = picture.text(x + 22, 92, title, 13) + 24


def group(picture, y, entry, native, ours, quartiles, theirs):
    picture.text(24, y + 26, entry["title"], 14, bold=True)
    picture.text(24, y + 45, entry["what"], 12, "quiet")
    bars = (("plain", 1, f"{native:.3g} ns"), ("upper", ours, f"{ours:.2f}"),
            ("lower", theirs, entry.get("label", f"{theirs:.2f}")))
    for index, (kind, value, label) in enumerate(bars):
        top = y + (BAR + 4) * index
        shown = min(value, LIMIT)
        picture.box(LEFT, top, UNIT * shown, BAR, f"{kind}-text", radius=2)
        end = LEFT + UNIT * shown
        if value > LIMIT:  # cut off, and says so
            picture.line([(end - 26, top + BAR + 4), (end - 16, top - 4)], "cut", thick=5)
        if kind == "upper":
            middle = top + BAR / 2
            low, high = (LEFT + UNIT * quartile for quartile in quartiles)
            picture.line([(low, middle), (high, middle)], "ink", thick=3)
            end = max(end, high)
        picture.text(max(end, LEFT + UNIT) + 9, top + 15, label, 13,
                     "quiet" if kind == "plain" else "ink", bold=kind != "plain")
