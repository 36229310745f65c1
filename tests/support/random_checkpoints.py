# SPDX-License-Identifier: Apache-2.0
"""Jobs that are saved at random times, stopped, and continue somewhere else. The times come from a
seed that is printed; FERMATA_SEED repeats a run."""
import os
import random
import time

from support import fermata

COUNT = 5


def chance(name):
    """The random numbers of one test."""
    seed = int(os.environ.get("FERMATA_SEED") or time.time_ns() % 1_000_000)
    print(f"seed {seed}")
    return random.Random(f"{name} {seed}")


def jobs(work, name, count=COUNT):
    """For each checkpoint a job in a directory of its own, and the random numbers of the test."""
    numbers = chance(name)
    for number in range(count):
        place = work / f"job{number}"
        place.mkdir()
        yield fermata.Job(place), numbers


def resume(job, second, timeout_s=120):
    """Saves and stops the running job, continues under the MPI `second`, and returns what both runs
    printed to their standard output."""
    job.checkpoint_and_stop()
    return go_on(job, second, timeout_s)


def go_on(job, second, timeout_s):
    """The same of a job that is saved and has stopped."""
    before = job.running.out
    job.restart(second)
    return before + job.finish(timeout_s)
