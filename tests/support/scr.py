# SPDX-License-Identifier: Apache-2.0
"""Runs of programs that save themselves (lib/scr): the examples, which say what they do."""
import json
import re

from support import mpis, process
from support.cases import check, check_equal

STEPS = 60
STEP_MS = 40
INTERVAL = 5
PROGRAMS = {"c": "heat", "fortran": "heat_fortran"}
# The cache counts; a checkpoint every so many steps; two are kept, none is copied.
KEYS = {"SCR_CACHE_BYPASS": "0", "SCR_CHECKPOINT_INTERVAL": str(INTERVAL), "SCR_CACHE_SIZE": "2",
        "SCR_FLUSH": "0", "SCR_SYSTEM_CONF_FILE": "/dev/null", "SCR_USER_NAME": "tester",
        "SCR_JOB_ID": "test"}


def program(mpi, language="c"):
    return mpis.program(mpi, f"scr/{PROGRAMS[language]}")


def expected(work, ranks, language="c"):
    """The checksum of a run without a checkpoint, under Open MPI, whose ranks yield to each other:
    it is the same under all."""
    place = work / f"undisturbed-{language}"
    place.mkdir()
    keys = {**KEYS, "SCR_CHECKPOINT_INTERVAL": "0", "SCR_CACHE_BASE": str(place / "cache"),
            "SCR_PREFIX": str(place)}
    command = [program("openmpi", language), STEPS]
    done = mpis.native("openmpi", command, ranks, place, 100, keys)
    return checksum(done.expect_success("the undisturbed run").out)


def checksum(text):
    found = re.findall(r"^ *PASS +(\S+)$", text, re.M)
    check_equal(len(found), 1, f"PASS lines of {process.tail(text)}")
    return found[0]


def newest_saved(text):
    """The step of the newest checkpoint that the program has called saved."""
    found = re.findall(r"^ *saved ckpt\.(\d+)$", text, re.M)
    check(found, f"nothing is saved:\n{process.tail(text)}")
    return int(found[-1])


class Local:
    """A job on this host, in its prefix directory; that and its cache are the test's."""

    def __init__(self, work, mpi, ranks=4, language="c", **keys):
        self.work, self.mpi, self.ranks = work, mpi, ranks
        self.command = [program(mpi, language), STEPS, STEP_MS]
        self.prefix, self.cache = work / "prefix", work / "cache"
        self.prefix.mkdir()
        self.keys = {**KEYS, "SCR_PREFIX": str(self.prefix), "SCR_CACHE_BASE": str(self.cache),
                     **keys}
        self.runs = 0

    def start(self, **more):
        self.runs += 1
        env = mpis.environment(**{**self.keys, **more})
        return process.Running([*mpis.mpirun(self.mpi, self.ranks), *self.command], self.work,
                               name=f"run{self.runs}", env=env, cwd=self.prefix)

    def killed_after(self, steps, **more):
        """A run whose processes all die at once behind a checkpoint of this step. Returns the step
        that it has saved."""
        running = self.start(**more)
        running.wait_for(f"saved ckpt.{steps}", 60)
        process.kill_tree(running.process.pid)
        running.wait(30)
        return newest_saved(running.out)

    def finish(self, **more):
        """A run to its end."""
        return self.start(**more).wait(150).expect_success("the run to the end")

    def dataset(self, step):
        """Where a checkpoint is cached."""
        for kept in self.cache.glob("tester/scr.*/scr.dataset.*/dataset-*.json"):
            if json.loads(kept.read_text())["dataset"]["name"] == f"ckpt.{step}":
                return kept.parent
        raise AssertionError(f"ckpt.{step} is not in {self.cache}")

    def file(self, step, rank):
        return self.dataset(step) / f"rank_{rank}/rank_{rank}.heat"


def change(path):
    """Another byte in its middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def check_continued(result, step, *sentences):
    check(f"restarted from ckpt.{step}\n" in result.out, f"{process.tail(result.out, 99)}")
    for sentence in sentences:
        check(sentence in result.err, f"no {sentence!r} in\n{result.err}")
