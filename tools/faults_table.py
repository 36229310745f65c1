# SPDX-License-Identifier: Apache-2.0
"""Writes docs/evidence/faults.md from what the suites `faults` and `cluster_level_faults` recorded
last; `./x faults --write` runs all three. Every other run of a suite takes the document for what is
to come of each case.

./x faults --check runs nothing: it fails if docs/evidence/faults.md is not what would be written
from spec/faults.toml and the results that it shows itself, or if it lacks a result or has one that
there cannot be.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.cases import Failed  # noqa: E402
from support.faults import ACTIONS, ON_HOSTS, POINTS, RECORDS, TABLE  # noqa: E402
from support.faults import allowed, cell_of, shown, wanted  # noqa: E402

HEAD = """\
# Faults

What each fault at each point of `spec/faults.toml` leaves. A job of two ranks had one good
snapshot, continued under the other MPI and met the fault in its next checkpoint (in a restart for
the points of a restart). The suite `faults` fails where anything else is left than is said here:
`./x faults` tries all, `./x faults --write` writes this table anew from what it sees.

**new** or **before**: the newest good snapshot, the one being taken or the one before; it verified
and was restarted to the right result. **new (untold)**: the new one, though the command failed: who
was to tell it was killed, or could not be sure that the snapshot would last. Everywhere else the
command succeeded if, and only if, there is a new snapshot. **damaged**: there is, `verify` says
that it is damaged, and the one before is good. Where two results are possible both are named, with
*or*, and the reason below the tables.

*ran on*: the job came to the right result undisturbed; *ended*: it was the one killed, or refused
to continue, and said so; *stopped*: as it was asked to. The job outlives its coordinator. An empty
cell is an action that makes no sense there.

`sleep` is a slow rank, and for a message a late one; `error` is a full or a read-only disk.
"""
PARTS = {"checkpoint": "A checkpoint", "abort": "A checkpoint that is given up",
         "stop": "A checkpoint that ends the job", "restart": "A restart",
         ON_HOSTS: "A level on hosts"}
LEVEL = """\
A job of four ranks on four hosts (`--levels local,xor`) had one snapshot with an XOR over the
hosts. One host's daemon met the fault in the next one. The job ran to its end; then another host
was lost with its disk, and the others gave a restart the newest snapshot that they could rebuild.
Tried by the suite `cluster_level_faults`, which needs root. Where `local` was complete and the XOR
was not, the checkpoint has succeeded, the log says that the level was given up, and the host that
was lost had what nobody else has: *before*.

"""


def recorded():
    """(point, action) -> the cell, as the suite saw it."""
    seen = [json.loads(path.read_text()) for path in RECORDS.glob("*.json")]
    results = {(r["point"], r["action"]): r["cell"] for r in seen}
    for point, action, varies in varying():
        left, _, run = results.get((point["name"], action), "").rpartition(", ")
        if left in varies["left"].split(" or "):
            results[point["name"], action] = cell_of(varies["left"], run)
    return results


def varying():
    """(point, action, what the specification says of them) where two results are possible."""
    return [(point, action, point["varies"][action]) for point in POINTS
            for action in wanted(point) if action in point.get("varies", {})]


def table(results):
    """The document, and what it lacks: POINT=ACTION."""
    text = HEAD
    missing = [f"{p['name']}: unknown part {p['part']}" for p in POINTS if p["part"] not in PARTS]
    for part, title in PARTS.items():
        text += f"\n## {title}\n\n{LEVEL if part == ON_HOSTS else ''}"
        text += f"| point | what has just happened | {' | '.join(ACTIONS)} |\n"
        text += "|---" * (2 + len(ACTIONS)) + "|\n"
        for point in (point for point in POINTS if point["part"] == part):
            cells = {action: results.get((point["name"], action), "") for action in wanted(point)}
            missing += [f"{point['name']}={action}" for action in cells if not cells[action]]
            row = " | ".join(cells.get(action, "") for action in ACTIONS)
            text += f"| `{point['name']}` | {point['after']} | {row} |\n"
    if varying():
        text += "\n## Where two results are possible\n\n"
    for point, action, varies in varying():
        text += f"- `{point['name']}={action}`: {varies['why']}\n"
    return text, missing


def strange(results):
    """Cells that say what cannot be, or, without a reason, more than one thing."""
    wrong = []
    cells = [(point, action, results.get((point["name"], action)))
             for point in POINTS for action in wanted(point)]
    for point, action, cell in cells:
        try:
            if cell:
                allowed(point, action, cell)
        except Failed as reason:
            wrong.append(str(reason))
    return wrong


def check(old):
    results = shown(old)
    text, missing = table(results)
    new, old = text.split("\n"), old.split("\n")
    wrong = [f"no result of {what}" for what in missing] + strange(results)
    wrong += [f"lacks: {line}" for line in new if line not in old]
    wrong += [f"not from spec/faults.toml: {line}" for line in old if line not in new]
    if wrong or new != old:
        sys.exit("docs/evidence/faults.md is stale: ./x faults --write\n  "
                 + "\n  ".join(wrong or ["its lines are in another order, or there twice"]))


def main():
    if "--check" in sys.argv[1:]:
        check(TABLE.read_text())
        return
    text, missing = table(recorded())
    wrong = [f"no result of {what}" for what in missing] + strange(shown(text))
    if wrong:
        sys.exit("faults: " + "\n  ".join(wrong))
    TABLE.write_text(text)
    print(f"wrote {TABLE.relative_to(ROOT)}")


main()
