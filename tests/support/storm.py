# SPDX-License-Identifier: Apache-2.0
"""A job of one batch script that Slurm signals, preempts, queues again, cancels, or lets run into
its limit, again and again, at random moments and on changing hosts. Each time the job has to be
saved and to continue with the very next step; the exit codes have to say so, and the checksum at
the end has to be right."""
import dataclasses
import random
import re
import time

from support import mpis
from support.batch import KINDS, OVER, SIGNALS, STOPPED, Batch
from support.cases import check, check_equal
from support.cluster import Cluster
from support.fermata import FERMATA, STEP
from support.slurm import Slurm

RANKS, HOSTS = 4, 4
STEP_MS = 100
STEPS_EACH = 40       # steps of the program for each time that the job is ended
EVERY_S = 5
GRACE_S = 30
LONGEST_WAIT_S = 8.0  # before the job is ended
EARLY = 0.2           # this part of the ends comes at any time, the others after a new step


@dataclasses.dataclass
class Storm:
    """What follows from a seed. `warned`: Slurm sends USR1 before a limit and at a preemption."""
    mpi: str
    hosts: int
    count: int
    seed: str
    wanted: tuple = ()
    signals: tuple = SIGNALS

    def __post_init__(self):
        self.numbers = random.Random(self.seed)
        self.requeues = self.numbers.random() < 0.5
        self.warned = self.numbers.random() < 0.3

    def name(self):
        return f"{self.mpi}.{self.hosts}_hosts.{self.seed}"

    def deadline_s(self):
        return 180 + 100 * self.count

    def steps(self):
        return STEPS_EACH * self.count

    def kinds(self):
        """One for each time that the job is ended. Of a job that is warned the limit is too far
        away to wait for."""
        fit = [kind for kind in KINDS.values() if (kind.command or not self.warned)
               and (not self.wanted or kind.name in self.wanted)]
        return [self.numbers.choice(fit) for _ in range(self.count)]

    def some_of(self, hosts):
        return self.numbers.sample(hosts, self.hosts)

    def options(self):
        return ["--signal=B:USR1@15", "--time=3"] if self.warned else ["--time=1"]

    def script(self, hold):
        program = [mpis.program(self.mpi, "selfcheck"), "--steps", self.steps(), "--step-ms",
                   STEP_MS, "--hold-file", hold]
        requeue = "--requeue " if self.requeues else ""
        return ("#!/bin/bash\n"
                f"exec {FERMATA} run --mpi {self.mpi} --name work --resume --every {EVERY_S}s "
                f"{requeue}{' '.join(map(str, program))}\n")


def _has_more_steps(storm, job):
    """Else the program waits until it may end: a limit comes after more steps than it has."""
    steps = re.findall(STEP, job.text(), re.M)
    return not steps or int(steps[-1]) < storm.steps()


def _end(storm, job, kind):
    """Ends the job at a random moment. Returns Slurm's state."""
    is_late = storm.numbers.random() >= EARLY
    if is_late and _has_more_steps(storm, job):
        job.wait_for(STEP)
    else:
        job.slurm.wait_for_state(job.number, ("RUNNING",))
    if kind.command:
        time.sleep(storm.numbers.uniform(0, LONGEST_WAIT_S))
    state, _ = job.end(kind, storm.numbers.choice(storm.signals))
    text = job.text()[job.begun_at:]
    is_saved = bool(STOPPED.search(text))
    # Before its first step there may be nothing to save.
    check(is_saved or not re.search(STEP, text, re.M), f"{kind.name}: it is not saved\n{text}")
    job.check_exit(kind, state, is_saved or bool(_snapshots(job)), storm.requeues)
    return state


def _snapshots(job):
    """Numbers of the snapshots that the job's history tells of."""
    return [event["epoch"] for event in job.events() if event["event"] == "checkpoint"]


def _check_steps(job):
    """No step is there twice, and none is missing."""
    steps = [int(number) for number in re.findall(STEP, job.text(), re.M)]
    for before, after in zip(steps, steps[1:]):
        check_equal(after, before + 1, f"the step after {before}\n{job.text()}")


def _check_resumed(job):
    """Each run has continued from the newest snapshot."""
    newest = 0
    for event in job.events():
        if event["event"] == "checkpoint":
            newest = event["epoch"]
        elif event["event"] == "resumed":
            check_equal(event["snapshot"], newest, "the snapshot that a run continues from")


def _finish(storm, job):
    """Lets the program come to its end, and the job with it."""
    until = time.monotonic() + 120
    has_run = False  # before, it is pending because it has just been handed in
    while "PASS " not in job.text():
        state = job.slurm.state(job.number)
        has_run |= state == "RUNNING"
        if state in OVER or state == "PENDING" and has_run:  # its limit
            job.proceed(state, storm.some_of(job.cluster.hosts))
            has_run = False
        check(time.monotonic() < until, f"no end\n{job.text()}")
        time.sleep(0.3)
    job.check_end()


def run(storm, work):
    """Raises Failed with what has gone wrong. Returns in which ways the job was ended."""
    done = []
    with Cluster(work, HOSTS) as cluster:
        hold = work / "hold"
        hold.touch()
        slurm = Slurm(cluster, grace_s=GRACE_S)
        job = Batch(slurm, storm.script(hold), RANKS, storm.options())
        job.proceed(None, storm.some_of(cluster.hosts))
        for kind in storm.kinds():
            state = _end(storm, job, kind)
            _check_steps(job)
            done.append(kind.name)
            job.proceed(state, storm.some_of(cluster.hosts))
        hold.unlink()
        _finish(storm, job)
        _check_steps(job)
        _check_resumed(job)
        expected = mpis.expected("selfcheck", RANKS, storm.steps())
        check_equal(mpis.checksum(job.text()), expected, "checksum")
        new = job.once_more(storm.some_of(cluster.hosts))
        check(not re.search(STEP, new, re.M), f"it is run again:\n{new}")
    return done
