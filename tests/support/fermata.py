# SPDX-License-Identifier: Apache-2.0
"""Jobs under the product, driven through its command line only."""
import json
import random
import re
import shutil
import subprocess
import time

from support import mpis, process
from support.cases import Failed, check

FERMATA = mpis.BUILD / "bin/fermata"
# What a job has come to, for wait_for_number: a step of tests/programs, a row of LAMMPS's table.
STEP = r"^step (\d+)$"
THERMO = r"^ *(\d+)(?: +-?\d\S*){5}\s*$"


def need_built():
    check(FERMATA.exists(), "build/bin/fermata is missing: ./x build")


def fermata(work, *arguments, timeout_s=60, env=None):
    """Runs one command of the product to its end, with the job directory inside `work`."""
    need_built()
    return process.run([FERMATA, *map(str, arguments)], timeout_s,
                       env or mpis.environment(FERMATA_DIR=str(work / "fermata")), work)


def installation(work, name="prefix", build=mpis.BUILD):
    """A copy of an installed tree that is the test's own."""
    need_built()
    prefix = work / name
    for part in ("bin", "libexec", "lib"):
        shutil.copytree(build / part, prefix / part, symlinks=True)
    return prefix


def events(directory, kind=None):
    """What the history of a job in this directory of its own tells, all of it or of one kind."""
    path = directory / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if kind in (None, event["event"])]


def wait_until_restarted(job, limit_s=90):
    """Until all ranks of this run can be saved; the log is that of all runs. A program that waits
    says nothing of that, nor does what it had reached before."""
    until = time.monotonic() + limit_s
    while job.log().count("ranks are ready") < job.runs:
        check(time.monotonic() < until, f"not all ranks are ready:\n{job.log()}")
        time.sleep(0.05)


class Job:
    """A job of the name `job` in the test's directory: started once, perhaps restarted often. The
    programs of this project do not end before `finish` or `release`, so no checkpoint can be too
    late (tests/programs/check.h)."""

    def __init__(self, work, name="job"):
        self.work, self.name, self.runs = work, name, 0
        self.running, self.fermata = None, FERMATA  # of some build
        self.hold = work / f"{name}.hold"

    def _launch(self, *arguments, env=None, stdin=subprocess.DEVNULL, under=()):
        need_built()
        self.runs += 1
        environment = mpis.environment(FERMATA_DIR=str(self.work / "fermata"), **(env or {}))
        self.running = process.Running([*under, self.fermata, *map(str, arguments)], self.work,
                                       name=f"{self.name}.run{self.runs}", env=environment,
                                       cwd=self.work, stdin=stdin)
        return self.running

    def start(self, lower, command, ranks=2, env=None, options=(), under=()):
        """under: a command that starts fermata, such as prlimit."""
        self.hold.touch()
        return self._launch("run", "-n", ranks, "--mpi", lower, "--name", self.name, *options, "--",
                            *command, env={"CHECK_HOLD": str(self.hold), **(env or {})},
                            under=under)

    def restart(self, lower, options=(), under=(), env=None):
        return self._launch("restart", self.name, "--mpi", lower, *options, under=under, env=env)

    def log(self):
        return (self.work / "fermata" / self.name / "coordinator.log").read_text()

    def events(self, kind=None):
        return events(self.work / "fermata" / self.name, kind)

    def checkpoint(self, stop=False, timeout_s=60):
        """Takes a checkpoint. Returns the seconds it took."""
        began = time.monotonic()
        fermata(self.work, "checkpoint", self.name, *(["--stop"] if stop else []),
                timeout_s=timeout_s).expect_success("fermata checkpoint")
        return time.monotonic() - began

    def checkpoint_and_stop(self):
        """Takes a checkpoint that ends the run, and waits until the run has ended."""
        seconds = self.checkpoint(stop=True)
        self.running.wait(30)
        check("\nPASS " not in "\n" + self.running.out,
              "the run ended on its own before it was stopped")
        return seconds

    def release(self):
        """Lets the program end."""
        self.hold.unlink(missing_ok=True)

    def finish(self, timeout_s=90):
        """Waits for the run's end and returns what it printed."""
        self.release()
        return self.running.wait(timeout_s).expect_success(f"run {self.runs}").out

    def snapshots(self):
        """Directories of the committed snapshots, oldest first."""
        root = self.work / "fermata" / self.name / "snapshots"
        found = list(root.iterdir()) if root.exists() else []
        return sorted((p for p in found if p.is_dir() and not p.is_symlink() and p.name.isdigit()),
                      key=lambda p: int(p.name))


def newest_snapshot(job):
    found = job.snapshots()
    check(found, "no snapshot was committed")
    return found[-1]


def images(snapshot):
    return sorted(snapshot.glob("rank-*.img"))


def snapshot_bytes(snapshot):
    return sum(path.stat().st_size for path in snapshot.iterdir())


def wait_for_step(job, step, timeout_s=60):
    """Waits until the program has finished step `step` or a later one, then a random part of the
    next one, so that repeated runs hit the program at different places."""
    job.running.wait_for_number(STEP, step, timeout_s)
    time.sleep(random.random() * 0.05)


def thermo(text):
    """The rows of LAMMPS's thermo tables, by step; a step printed twice must say the same."""
    rows = {}
    for line in text.split("\n"):
        match = re.match(r"\s*(\d+)((?:\s+-?[\d.]+(?:e[+-]?\d+)?){5})\s*$", line)
        if not match:
            continue
        step = int(match[1])
        if rows.setdefault(step, match[2].split()) != match[2].split():
            raise Failed(f"thermo line of step {step} was printed twice, differently")
    return rows


def as_json(result):
    try:
        return json.loads(result.out)
    except ValueError:
        raise Failed(f"no JSON:\n{process.tail(result.out)}") from None
