# SPDX-License-Identifier: Apache-2.0
"""Tests of programs that make one kind of thing, named on their command line, and look at it in
every step: a checkpoint refuses it by name, or it is there after a restart under the other MPI."""
from support import fermata, mpis, process
from support.cases import Skipped, check, check_equal, slow, timeout

STEPS = 24


def start(work, lower, program, kind, under=()):
    """A job that has made its thing. Skipped if this machine has none."""
    job = fermata.Job(work)
    (work / "files").mkdir()
    job.start(lower, [mpis.program(lower, program), "--steps", STEPS, "--step-ms", 40, "--dir",
                      work / "files", "--kind", kind], under=under)
    process.wait_until(lambda: "UNABLE" in job.running.out or "step 3" in job.running.out,
                       "step 3", 60)
    if "UNABLE" in job.running.out:
        raise Skipped(f"this machine has none: {job.running.out}")
    return job


def check_refused(job, refusal):
    result = fermata.fermata(job.work, "checkpoint", job.name)
    check(result.code != 0 and refusal in result.err, f"{refusal!r} is said: {result.err}")
    check_equal(len(job.snapshots()), 0, "snapshots")


def generate(prefix, kinds, quick, run, quick_both_ways=()):
    """Tests that call run(work, kind, refusal, first, second), for kinds = {kind: refusal} in both
    directions. `quick`: the kinds that are not slow from Open MPI to MPICH; those of the last
    parameter are not slow either way."""
    def make(kind, refusal, first, second):
        @timeout(90)
        def test(work):
            run(work, kind, refusal, first, second)
        is_quick = kind in quick and first == "openmpi" or kind in quick_both_ways
        return test if is_quick else slow(test)

    return {f"test_{prefix}{kind}_{first}_then_{second}": make(kind, refusal, first, second)
            for kind, refusal in kinds.items()
            for first, second in (mpis.MPIS, mpis.MPIS[::-1])}
