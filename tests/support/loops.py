# SPDX-License-Identifier: Apache-2.0
"""Tight loops (tests/programs/loops) that are saved at random moments, ended and restarted under
the other MPI, one such round after the other. Their checksum tells the loop only, so every run must
print the same."""
import dataclasses
import functools
import json
import pathlib
import random
import re
import time

from support import fermata, mpis, process
from support.cases import Failed, TestTimeout, check, check_equal

SOURCES = mpis.ROOT / "tests/programs/loops"
RECORDS = mpis.BUILD / "tests/loops"
LONGEST_WAIT_S = 0.12  # before a checkpoint, and before the death that comes after some of them
KILLED = 0.3           # this part of the rounds; the others are stopped by the checkpoint
EARLY = ("is not running", "is just being started", "returned from MPI_Init")
CHILDREN = "child process"  # a loop that starts them may have one at each attempt


@dataclasses.dataclass
class Chain:
    """A job that goes through a number of rounds: what follows from its seed."""
    loop: str
    front: str
    first: str
    rounds: int
    seed: str

    def name(self):
        return f"{self.loop}.{self.front}.{self.first}.{self.seed}".replace(" ", ".")

    def deadline_s(self):
        return 90 + 12 * self.rounds


def names():
    """The loops that the program has."""
    files = sorted(SOURCES.glob("*.c*"))
    return [name for file in files for name in re.findall(r'{"(\w+)", \w+, ', file.read_text())]


@functools.cache
def expected(loop):
    with mpis.scratch() as work:
        command = [mpis.program("openmpi", "loops"), "--loop", loop, "--steps", 2]
        result = mpis.native("openmpi", command, 2, work)
    return mpis.checksum(result.expect_success(f"{loop}, native").out)


def _checkpoint(job, stop):
    """As soon as the job can be saved."""
    words = ["checkpoint", job.name, *["--stop"] * stop]
    until = time.monotonic() + 40
    while True:
        result = fermata.fermata(job.work, *words)
        later = any(text in result.err for text in (*EARLY, CHILDREN))
        if not later or time.monotonic() > until:
            break
        time.sleep(0.01)
    result.expect_success("fermata checkpoint")


def _round(job, numbers):
    """Saves the job at a random moment, and ends it. Returns whether that was by a kill."""
    job.running.wait_for_number(fermata.STEP, 1)
    time.sleep(numbers.random() * LONGEST_WAIT_S)
    is_killed = numbers.random() < KILLED
    _checkpoint(job, not is_killed)
    if is_killed:
        time.sleep(numbers.random() * LONGEST_WAIT_S)
        process.kill_tree(job.running.process.pid)
    job.running.wait(120)
    check("PASS" not in job.running.out, "the run ended before it was stopped")
    check("FAIL" not in job.running.out, "the program has found something wrong")
    return is_killed


def run(chain, work):
    """All rounds of a chain; its record tells how many there were."""
    numbers = random.Random(f"loops {chain.name()}")
    record = {**dataclasses.asdict(chain), "done": 0, "killed": 0, "why": "did not come to its end"}
    job, mpi = fermata.Job(work), chain.first
    try:
        job.start(mpi, [mpis.program(chain.front, "loops"), "--loop", chain.loop])
        for _ in range(chain.rounds):
            record["killed"] += _round(job, numbers)
            mpi = mpis.OTHER[mpi]
            job.restart(mpi)
            job.running.wait_for_number(fermata.STEP, 1)
            record["done"] += 1
        check_equal(mpis.checksum(job.finish()), expected(chain.loop), "checksum")
        record["why"] = None
    except (Failed, TestTimeout) as reason:
        said = job.running.out + job.running.err if job.running else ""
        record["why"] = f"{chain}, round {record['done'] + 1}: {reason}\n{process.tail(said)}"
        raise Failed(record["why"]) from None
    finally:
        RECORDS.mkdir(parents=True, exist_ok=True)
        record_of(chain).write_text(json.dumps(record))


def record_of(chain) -> pathlib.Path:
    return RECORDS / f"{chain.name()}.json"
