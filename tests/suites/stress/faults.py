# SPDX-License-Identifier: Apache-2.0
"""Every fault of spec/faults.toml at every point: kill, sleep, a failing or short write, a flipped
bit, a message lost or sent twice. A job is saved under one MPI and stopped; it continues under the
other with the fault armed and meets it in its next checkpoint, or on its way there. Afterwards
either the new snapshot or the one before verifies and restarts to the right result, and the job, if
it was not the one killed, has run on to it. Nothing waits for ever.

Which of it, docs/evidence/faults.md says for each, and nothing else passes. `./x faults` runs all
of them; --quick runs a few, chosen by a seed that is printed (FERMATA_SEED repeats it)."""
import os
import random
import time

from support import fermata, mpis, process
from support.cases import check, check_equal, slow, timeout
from support.errors import FAILED, USAGE
from support.faults import (ENDED, ON_HOSTS, POINTS, RAN_ON, STOPPED, WITH_THREADS, FaultyJob,
                            record, wanted)
from support.mpis import MPIS

SAMPLE = 12
# Longer than the coordinator waits for the first word of a rank before it tries again.
SLEEP_MS = 2500
NO_SPACE, READ_ONLY = 28, 30
OF_RANKS = ("agent-", "save-", "restore-")
# The snapshot has its name, and who was to tell the command is killed, or cannot be sure that it
# would last. Everywhere else a checkpoint has succeeded if, and only if, there is a new snapshot.
UNTOLD = {("commit-renamed", "kill"), ("commit-renamed", "error"), ("commit-latest", "kill"),
          ("coordinator-sends-committed", "kill")}
# What is met by threads beside the MPI thread only.
OF_THREADS = ("save-leaving",)
# The first rank that ends makes its mpirun end the others, perhaps before they come there.
OF_THE_FIRST = ("agent-sends-bye",)
# What a fault needs beside itself to be met.
ABORT = "writer-begun@1=error:5"


def is_met_later(point):
    """Of what is done for each rank in turn the second is the more interesting one: the first has
    got it already."""
    return point["name"].startswith("coordinator-sends") or point["name"] in ("commit-check",
                                                                              "commit-flush")


class Case:
    """One point, one action."""

    def __init__(self, number, point, action):
        self.point, self.action, self.part = point, action, point["part"]
        self.name = f"{point['name']}_{action}".replace("-", "_")
        self.first, self.second = MPIS[number % 2], MPIS[(number + 1) % 2]
        self.victim = number // 2 % 2
        self.error = NO_SPACE if number % 2 else READ_ONLY
        self.program = WITH_THREADS if point["name"] in OF_THREADS else "selfcheck"

    @property
    def of_rank(self):
        return self.point["name"].startswith((*OF_RANKS, "writer-"))

    def kills(self, *owners):
        return self.action == "kill" and self.point["name"].startswith(owners)

    def armed(self):
        what = {"sleep": f"sleep:{SLEEP_MS}", "error": f"error:{self.error}"}
        one_rank = self.of_rank and self.point["name"] not in OF_THE_FIRST
        where = f"@{self.victim}" if one_rank else "#2" if is_met_later(self.point) else ""
        words = [f"{self.point['name']}{where}={what.get(self.action, self.action)}"]
        return ",".join(words + ([ABORT] if self.part == "abort" else []))


def cases():
    pairs = [(point, action) for point in POINTS for action in wanted(point)
             if point["part"] != ON_HOSTS]
    return [Case(number, *pair) for number, pair in enumerate(pairs)]


def met(job, case):
    said = f"fermata: fault: {case.point['name']}={case.action}\n"
    check(said in job.running.err, f"the fault was not met\n{process.tail(job.running.err)}")


def in_a_restart(job, case):
    """Returns what became of the run, and no answer of a checkpoint."""
    job.resume(case.second, case.armed())
    job.ends()
    met(job, case)
    if case.action in ("kill", "error"):
        check(job.running.process.poll() != 0, "the restart has failed and says so")
        return ENDED, FAILED
    check_equal(mpis.checksum(job.running.out), job.expected(), "checksum of the run")
    return RAN_ON, FAILED


def in_a_checkpoint(job, case):
    """Returns what became of the run, and the exit code of the checkpoint."""
    keep = ["--keep", "1"] if case.point["name"] == "commit-pruning" else []
    job.resume(case.second, case.armed(), *keep)
    job.wait_until_restarted()
    stop = ["--stop"] if case.part == "stop" else []
    result = job.try_checkpoint("--timeout", "20s", *stop)
    check(result.code in (0, FAILED), f"exit code {result.code}\n{result.err}")
    if case.part == "abort":
        check(result.code != 0, "the checkpoint fails, as it was to")
    if case.part == "stop" and result.code == 0:
        job.ends()
        met(job, case)
        check("\nPASS " not in "\n" + job.running.out, "the run is stopped, not through")
        return STOPPED, result.code
    if case.kills(*OF_RANKS):
        job.ends()
        met(job, case)
        check(job.running.process.poll() != 0, "the job has failed and says so")
        return ENDED, result.code
    if case.kills("coordinator-", "commit-", "discard-"):
        job.ends()
    else:
        job.finish()
    met(job, case)
    check_equal(mpis.checksum(job.running.out), job.expected(), "checksum of the run")
    return RAN_ON, result.code


def try_case(work, case):
    job = FaultyJob(work).begin(case.first, case.program)
    job.checkpoint_and_stop()
    before = job.snapshots()
    part = in_a_restart if case.part == "restart" else in_a_checkpoint
    run, code = part(job, case)
    left, good = job.left(before)
    check(left != "damaged" or case.action == "flip", "the new snapshot is damaged")
    if left == "new" and (case.point["name"], case.action) in UNTOLD:
        check_equal(code, FAILED, "exit code of the checkpoint that nobody could tell of")
        left = "new (untold)"
    else:
        check_equal(code == 0, left != "before", f"'{left}' is left; the checkpoint has succeeded")
    job.hold.touch()
    job._launch("restart", good, "--mpi", case.first)
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum after the restart")
    record(case.name, case.point, case.action, left, run)


def test_unknown_names_are_refused(work):
    """Before anything is started, and with the names that there are."""
    for word, least in (("commit-rename=explode", "kill, sleep"), ("nowhere=kill", "commit-rename"),
                        ("commit-rename", "POINT[@RANK][#NTH]=ACTION")):
        command = [fermata.FERMATA, "run", "--mpi", "openmpi", "--",
                   mpis.program("openmpi", "selfcheck")]
        result = process.run(command, 60, mpis.environment(
            FERMATA_DIR=str(work / "fermata"), FERMATA_FAULT=word), work)
        check_equal(result.code, USAGE, f"exit code with {word}\n{result.err}")
        check(least in result.err and not result.out, result.err)


def generate():
    seed = int(os.environ.get("FERMATA_SEED") or time.time_ns() % 1_000_000)
    all_cases = cases()
    sample = {case.name for case in random.Random(seed).sample(all_cases, SAMPLE)}

    def make(case):
        @timeout(240)
        def test(work):
            print(f"seed {seed}: {case.armed()}, {case.first} then {case.second}")
            try_case(work, case)
        return test if case.name in sample else slow(test)
    return {f"test_{case.name}": make(case) for case in all_cases}
