# SPDX-License-Identifier: Apache-2.0
"""A job over several hosts with `--retries` and a spare host, of which something dies at a random
moment: a rank, the MPI's daemon of a host, mpirun, a whole host, or the cable of one. It has to go
on by itself from its newest snapshot, and to end with the right result."""
import dataclasses
import os
import random
import re
import shlex
import signal
import time

from support import mpis, process
from support.cases import Failed, check, check_equal
from support.cluster import Cluster
from support.cluster_job import ENVIRONMENT
from support.fermata import FERMATA, STEP

RANKS, HOSTS, SPARE = 4, 2, "node2"
STEP_MS = 50
STEPS_EACH = 60  # steps of the program for each death
EVERY_S = 2
AGAIN = re.compile(r"it is begun again .* \(retry (\d+) of \d+\)")
DAEMONS = {"openmpi": (b"orted",), "mpich": (b"hydra_pmi_proxy",)}
LAUNCHERS = {"openmpi": (b"mpirun", b"orterun"), "mpich": (b"mpirun", b"mpiexec")}


def _programs(cluster, host, names):
    """Pids on a host of programs whose file is named so."""
    def is_one(pid):
        return any(os.path.basename(process.command_line(pid)[0]).startswith(name)
                   for name in names)
    return list(filter(is_one, process.descendants(cluster.booted[host].pid)))


def _kill_one(numbers, pids, what):
    check(pids, f"there is no {what} to kill")
    os.kill(numbers.choice(pids), signal.SIGKILL)


def _kill_rank(job, host):
    _kill_one(job.numbers, job.cluster.ranks(host), f"rank on {host}")


def _kill_daemon(job):
    pids = _programs(job.cluster, job.where[1], DAEMONS[job.mpi])
    _kill_one(job.numbers, pids, "daemon of the MPI")


def _kill_launcher(job):
    pids = _programs(job.cluster, job.where[0], LAUNCHERS[job.mpi])
    # The one that `fermata run` has started, of those that start each other.
    _kill_one(job.numbers, pids[:1], "mpirun")


def _lose(job, how):
    """The second host is gone: killed with everything on it, or silent."""
    getattr(job.cluster, how)(job.where[1])
    job.where[1] = SPARE


KINDS = {
    "a rank here": lambda job: _kill_rank(job, job.where[0]),
    "a rank on another host": lambda job: _kill_rank(job, job.where[1]),
    "the MPI's daemon": _kill_daemon,
    "mpirun": _kill_launcher,
    "a host": lambda job: _lose(job, "kill"),
    "a cable": lambda job: _lose(job, "cut"),
}
HOST_IS_LOST = ("a host", "a cable")


@dataclasses.dataclass
class Story:
    """What follows from a seed."""
    mpi: str
    count: int
    seed: str
    wanted: tuple = ()

    def name(self):
        return f"{self.mpi}.{self.seed}"

    def deadline_s(self):
        return 120 + 120 * self.count

    def kinds(self, numbers):
        """One for each death. There is one spare host."""
        fit, chosen = [kind for kind in KINDS if not self.wanted or kind in self.wanted], []
        for _ in range(self.count):
            if any(kind in HOST_IS_LOST for kind in chosen):
                fit = [kind for kind in fit if kind not in HOST_IS_LOST] or ["a rank here"]
            chosen.append(numbers.choice(fit))
        return chosen


class Job:
    def __init__(self, story, cluster):
        self.cluster, self.mpi = cluster, story.mpi
        self.numbers = random.Random(story.seed)
        self.where = cluster.hosts[:HOSTS]
        self.latest, self.at_deaths = cluster.work / "fermata/job/snapshots/latest", []
        self.hold = cluster.work / "hold"
        self.hold.touch()
        self.steps = STEPS_EACH * (story.count + 1)
        words = [FERMATA, "run", "-n", RANKS, "--mpi", story.mpi, "--name", "job", "--host",
                 ",".join(self.where), "--spare", SPARE, "--remote-shell", cluster.rsh,
                 "--every", f"{EVERY_S}s", "--retries", story.count + 1, "--",
                 mpis.program(story.mpi, "selfcheck"), "--steps", self.steps, "--step-ms", STEP_MS,
                 "--hold-file", self.hold]
        line = f"cd {cluster.work}; {ENVIRONMENT} {shlex.join(map(str, words))}"
        self.running = cluster.shell("node0", line, cluster.work, "job")

    def wait_for(self, holds, what, timeout_s):
        until = time.monotonic() + timeout_s
        while not holds():
            if self.running.process.poll() is not None or time.monotonic() > until:
                raise Failed(f"{what} did not come\n{process.tail(self.running.out)}\n"
                             f"{self.running.err}")
            time.sleep(0.01)

    def wait_for_step(self, before):
        self.wait_for(lambda: re.search(STEP, self.running.out[before:], re.M), "a step", 150)

    def has_snapshot(self):
        return self.latest.exists()

    def keep_from_crash_loop(self):
        """Three deaths in a row that look alike, with no snapshot between, would end the job, and
        hydra tells of many kinds by one code: so there is one before each third."""
        if self.at_deaths[-2:] == 2 * [self.newest()]:
            self.wait_for(lambda: self.newest() != self.at_deaths[-1], "a newer snapshot", 60)
        self.at_deaths.append(self.newest())

    def newest(self):
        return os.readlink(self.latest)

    def die(self, kind, retry):
        """Returns how long it took until the job had begun again, and made a step, in seconds."""
        KINDS[kind](self)
        died = time.monotonic()
        self.wait_for(lambda: len(AGAIN.findall(self.running.err)) >= retry,
                      f"{kind}: the line that it is begun again", 150)
        known, before = time.monotonic() - died, len(self.running.out)
        self.wait_for_step(before)
        return known, time.monotonic() - died


def run(story, work):
    """Raises Failed with what has gone wrong. Returns [(kind, seconds until the death was known,
    seconds until the next step)]."""
    times = []
    with Cluster(work, HOSTS + 1) as cluster:
        job = Job(story, cluster)
        job.wait_for_step(0)
        job.wait_for(job.has_snapshot, "a snapshot", 60)
        for retry, kind in enumerate(story.kinds(job.numbers), 1):
            time.sleep(job.numbers.uniform(0, 2 * EVERY_S))
            job.keep_from_crash_loop()
            times.append((kind, *job.die(kind, retry)))
        job.hold.unlink()
        ended = _end(job)
        expected = mpis.expected("selfcheck", RANKS, job.steps)
        check_equal(mpis.checksum(ended), expected, "checksum")
    return times


def _end(job):
    job.wait_for(lambda: "PASS " in job.running.out, "the end", 150)
    check_equal(job.running.wait(60).code, 0, "exit code")
    return job.running.out
