# SPDX-License-Identifier: Apache-2.0
"""The points of spec/faults.toml and what is to be tried at each: the suite `faults` tries it, and
docs/evidence/faults.md (tools/faults_table.py) says what is to come of it. And the job that is
tried."""
import json
import os
import time
import tomllib

from support import fermata, process
from support.cases import check, check_equal
from support.errors import DAMAGED, HealthyJob
from support.mpis import ROOT

SPEC = tomllib.loads((ROOT / "spec/faults.toml").read_text())
ACTIONS, POINTS = SPEC["actions"], SPEC["point"]
TABLE = ROOT / "docs/evidence/faults.md"
RECORDS = ROOT / "build/tests/faults"
# The part that needs several hosts, and is tried by the suite cluster_level_faults.
ON_HOSTS = "level"
# Set by `./x faults --write`: the table is made from what is seen now, and expects nothing.
WRITES = "FERMATA_FAULTS_WRITE"
# What is left, and what becomes of the run; a cell of the table is one of each.
LEFT = ("new", "new (untold)", "damaged", "before")
RAN_ON, ENDED, STOPPED = RUNS = ("ran on", "ended", "stopped")
ENDS_S = 60
# A program of several threads.
WITH_THREADS = "resources/signals_sleeps"


def wanted(point):
    """The actions that make sense at a point."""
    return [action for action in SPEC["kinds"][point["kind"]] if point.get(action, True)]


def shown(text):
    """(point, action) -> the cell of the table that `text` holds."""
    results, actions = {}, []
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.split("|")[1:-1]] or [""]
        if cells[0] == "point":
            actions = cells[2:]
        results |= {(cells[0].strip("`"), action): cell
                    for action, cell in zip(actions, cells[2:], strict=False) if cell}
    return results


def cell_of(left, run):
    return f"{left}, {run}"


def allowed(point, action, cell):
    """The (left, run) that a cell lets pass. It is one, unless the specification says why not."""
    left, _, run = cell.rpartition(", ")
    several = left.split(" or ")
    varies = point.get("varies", {}).get(action)
    check(left == varies["left"] if varies else len(several) == 1,
          f"docs/evidence/faults.md: {point['name']}={action}: '{cell}' is not as "
          "spec/faults.toml has it")
    check(run in RUNS and set(several) <= set(LEFT),
          f"docs/evidence/faults.md: {point['name']}={action}: '{cell}' is no result")
    return [(one, run) for one in several]


def record(name, point, action, left, run):
    """For the next table. Fails if the committed one expects another result."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    value = {"point": point["name"], "action": action, "cell": cell_of(left, run)}
    (RECORDS / f"{name}.json").write_text(json.dumps(value, indent=1))
    compare(point, action, left, run)


def compare(point, action, left, run):
    """Fails if the committed table expects another result."""
    if os.environ.get(WRITES):
        return
    name = f"{point['name']}={action}"
    cell = shown(TABLE.read_text()).get((point["name"], action))
    check(cell, f"docs/evidence/faults.md expects nothing of {name}: ./x faults --write")
    check((left, run) in allowed(point, action, cell),
          f"{name}: found '{cell_of(left, run)}', docs/evidence/faults.md expects '{cell}'")


class FaultyJob(HealthyJob):
    def resume(self, lower, faults, *options):
        self._launch("restart", self.name, "--mpi", lower, *options, env={"FERMATA_FAULT": faults})

    def wait_until_restarted(self):
        fermata.wait_until_restarted(self, ENDS_S)
        check_equal(self.log().count("ranks are ready"), self.runs, "times all were ready")

    def ends(self):
        """Waits until the run and all its ranks have ended, in whatever way."""
        self.release()
        self.running.process.wait(ENDS_S)
        until = time.monotonic() + ENDS_S
        while process.descendants() and time.monotonic() < until:
            process.reap()
            time.sleep(0.05)
        check(not process.descendants(), "all ranks have ended")

    def left(self, before):
        """What is there beside the snapshots `before`, "new", "damaged" or nothing ("before"), and
        the newest good snapshot."""
        new = [snapshot for snapshot in self.snapshots() if snapshot not in before]
        check(len(new) <= 1, f"new snapshots: {new}")
        for snapshot in new:
            verified = fermata.fermata(self.work, "verify", snapshot)
            if verified.code == 0:
                return "new", snapshot
            check_equal(verified.code, DAMAGED, f"exit code of verify\n{verified.err}")
        kept = [snapshot for snapshot in self.snapshots() if snapshot in before]
        check(kept, "no snapshot is good")
        fermata.fermata(self.work, "verify", kept[-1]).expect_success("verify of the one before")
        return "damaged" if new else "before", kept[-1]
