# SPDX-License-Identifier: Apache-2.0
"""Large applications that nobody wrote for us: a run that was saved at a random moment under one
MPI and has finished under the other must have the numbers of an uninterrupted native run."""
import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable

from support import fermata, moments, mpis
from support.cases import check_equal, slow, timeout


@dataclasses.dataclass(frozen=True)
class Application:
    """prepare(directory) puts the input into a run's working directory and returns the command; it
    raises Skipped, with what to install, where the program is missing. results(printed, directory)
    returns what must be equal, and fails if it is not what a whole run leaves.
    A checkpoint comes up to `spread_s` seconds after one of the `phases` was printed."""
    name: str
    prepare: Callable[[pathlib.Path], list]
    results: Callable[[str, pathlib.Path], object]
    phases: tuple[str, ...]
    spread_s: float = 0.3
    ranks: int = 2
    env: tuple[tuple[str, str], ...] = ()
    run_s: int = 240  # the longest that a run may take on a busy machine

    @functools.cached_property
    def environment(self):
        return dict(self.env)

    def start(self, job, lower):
        job.start(lower, self.prepare(job.work), ranks=self.ranks, env=self.environment)


@functools.cache
def _native(application):
    """Its results, and the seconds that it took."""
    with mpis.scratch() as work:
        command = application.prepare(work)
        began = time.monotonic()
        run = mpis.native("openmpi", command, application.ranks, work, application.run_s,
                          env=application.environment).expect_success(application.name)
        seconds = time.monotonic() - began
        return application.results(run.out, work), seconds


def _make_plain(application, lower):
    @timeout(3 * application.run_s)
    def test(work):
        job = fermata.Job(work)
        application.start(job, lower)
        printed = job.finish(application.run_s)
        check_equal(application.results(printed, work), _native(application)[0], "results")
    return test


def _make_restart(application, first, second, count):
    @timeout((count + 2) * application.run_s)
    def test(work):
        results, seconds = _native(application)
        spread_s = min(application.spread_s, seconds / 3)  # of a fast machine's short run
        for job, chance in moments.jobs(work, f"{application.name} {first} {second}", count):
            application.start(job, first)
            job.running.wait_for(chance.choice(application.phases), application.run_s)
            time.sleep(chance.random() * spread_s)
            printed = moments.resume(job, second, application.run_s)
            check_equal(application.results(printed, job.work), results, "results")
    return test


def generate(application, count=moments.MOMENTS):
    """The tests of one application: as it is, and `count` restarts in each direction."""
    tests = {}
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        tests[f"test_runs_on_{first}"] = slow(_make_plain(application, first))
        tests[f"test_{first}_then_{second}"] = slow(
            _make_restart(application, first, second, count))
    return tests
