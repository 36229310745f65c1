# SPDX-License-Identifier: Apache-2.0
"""The points of spec/faults.toml and what is to be tried at each: the suite `faults` tries it, and
docs/faults.md (tools/faults_table.py) has a result for it. And the job that is tried."""
import time
import tomllib

from support import fermata, process
from support.cases import check, check_equal
from support.errors import DAMAGED, HealthyJob
from support.mpis import ROOT

SPEC = tomllib.loads((ROOT / "spec/faults.toml").read_text())
ACTIONS, POINTS = SPEC["actions"], SPEC["point"]
ENDS_S = 60
# A program of several threads.
WITH_THREADS = "items/signals_sleeps"


def wanted(point):
    """The actions that make sense at a point."""
    return [action for action in SPEC["kinds"][point["kind"]] if point.get(action, True)]


class FaultyJob(HealthyJob):
    def go_on(self, lower, faults, *options):
        self._launch("restart", self.name, "--mpi", lower, *options, env={"FERMATA_FAULT": faults})

    def wait_until_restarted(self):
        """A program that waits before its last step says nothing more; the coordinator does."""
        log = self.work / "fermata" / self.name / "coordinator.log"
        until = time.monotonic() + ENDS_S
        while log.read_text().count("ranks are ready") < self.runs and time.monotonic() < until:
            time.sleep(0.05)
        check_equal(log.read_text().count("ranks are ready"), self.runs, "times all were ready")

    def ends(self):
        """Waits until the run and all its ranks have ended, in whatever way."""
        self.release()
        self.running.process.wait(ENDS_S)
        until = time.monotonic() + ENDS_S
        while process.descendants() and time.monotonic() < until:
            process.reap()
            time.sleep(0.05)
        check(not process.descendants(), "all ranks have ended")

    def good_snapshot(self, may_be_damaged):
        """The newest, or the one before where the newest has been damaged, which verify says."""
        for snapshot in reversed(self.snapshots()):
            verified = fermata.fermata(self.work, "verify", snapshot)
            if verified.code == 0:
                return snapshot
            check_equal((verified.code, may_be_damaged), (DAMAGED, True), verified.err)
        check(False, "no snapshot is good")
