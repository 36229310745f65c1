# SPDX-License-Identifier: Apache-2.0
"""Large applications that nobody wrote for us: a run that was saved at a random time under one MPI
and has finished under the other must have the numbers of an uninterrupted native run."""
import dataclasses
import functools
import pathlib
import random
import shutil
import time
from collections.abc import Callable

from support import fermata, mpis, random_checkpoints
from support.cases import Failed, check_equal, slow, timeout


# To save a job that is not over yet.
ATTEMPTS = 5
# Between the answer that it is and its end.
ENDED_S = 2


@dataclasses.dataclass(frozen=True)
class Application:
    """prepare(directory) puts the input into a run's working directory and returns the command; it
    raises Skipped, with what to install, where the program is missing. results(printed, directory)
    returns what must be equal, and fails if it is not what a whole run leaves.

    A checkpoint comes up to `spread_s` seconds after one of the `phases` was printed; or when
    wait(job, chance, results) returns, which knows better, and what the results are to be."""
    name: str
    prepare: Callable[[pathlib.Path], list]
    results: Callable[[str, pathlib.Path], object]
    phases: tuple[str, ...] = ()
    spread_s: float = 0.3
    wait: Callable[[fermata.Job, random.Random, object], None] | None = None
    ranks: int = 2
    env: tuple[tuple[str, str], ...] = ()
    run_s: int = 240  # the longest that a run may take on a busy machine
    built_for: str = "openmpi"
    tells_on_stderr: bool = False  # its results are there, too

    @functools.cached_property
    def native(self):
        """Its results natively, and the seconds that it took."""
        with mpis.scratch() as work:
            command = self.prepare(work)
            began = time.monotonic()
            run = mpis.native(self.built_for, command, self.ranks, work, self.run_s,
                              env=dict(self.env)).expect_success(self.name)
            seconds = time.monotonic() - began
            printed = run.out + (run.err if self.tells_on_stderr else "")
            return self.results(printed, work), seconds

    def _start(self, job, lower):
        job.start(lower, self.prepare(job.work), ranks=self.ranks, env=dict(self.env))

    def _check(self, printed, runs, directory):
        """`printed` to the standard output of these runs."""
        if self.tells_on_stderr:
            printed += "".join(run.err for run in runs)
        check_equal(self.results(printed, directory), self.native[0], "results")

    def _wait(self, job, chance, share=1.0):
        """For the time of a checkpoint, of which this share is enough."""
        results, seconds = self.native
        if self.wait:
            self.wait(job, chance, results)
            return
        job.running.wait_for(chance.choice(self.phases), self.run_s)
        spread_s = min(self.spread_s, seconds / 3)  # of a fast machine's short run
        time.sleep(share * chance.random() * spread_s)

    def _save(self, job, lower, chance):
        """Runs, saves and stops it. What has come to its end before that, as the native run was
        slower than this one, is begun again."""
        for attempt in range(ATTEMPTS):
            self._start(job, lower)
            try:
                self._wait(job, chance, 0.5 ** attempt)
                job.checkpoint_and_stop()
                return
            except Failed:
                if attempt + 1 == ATTEMPTS or not job.running.has_ended(ENDED_S):
                    raise
            job.running.wait(0).expect_success(self.name)
            shutil.rmtree(job.work)
            job.work.mkdir()

    def runs_on(self, lower):
        """A test: the application as it is."""
        @timeout(3 * self.run_s)
        def test(work):
            job = fermata.Job(work)
            self._start(job, lower)
            printed = job.finish(self.run_s)
            self._check(printed, [job.running], work)
        return test

    def restarts(self, first, second, count=random_checkpoints.COUNT):
        """A test: saved under one MPI, finished under the other, `count` times."""
        @timeout((count + 2) * self.run_s)
        def test(work):
            _ = self.native  # made before a job runs that would not wait for it
            title = f"{self.name} {first} {second}"
            for job, chance in random_checkpoints.jobs(work, title, count):
                self._save(job, first, chance)
                saved = job.running
                printed = random_checkpoints.go_on(job, second, self.run_s)
                self._check(printed, [saved, job.running], job.work)
        return test

    def tests(self, count=random_checkpoints.COUNT, once=None):
        """The application as it is, and `count` restarts in each direction: all of that is slow.
        `once`: two MPIs for a single restart that is not."""
        tests = {}
        for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
            tests[f"test_runs_on_{first}"] = slow(self.runs_on(first))
            tests[f"test_{first}_then_{second}"] = slow(self.restarts(first, second, count))
        if once:
            tests["test_once"] = self.restarts(*once, 1)
        return tests
