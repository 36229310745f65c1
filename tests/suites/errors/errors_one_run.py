# SPDX-License-Identifier: Apache-2.0
"""One run of a job at a time: whoever runs it holds its lock, and a job that is only silent is not
taken for one that has ended."""
import json
import os
import signal
import time

from support import fermata, mpis, process
from support.cases import check, check_equal, timeout
from support.errors import REFUSED, UNHARMED, HealthyJob, expect, record

RUNS = "A second run of a job"
RANK_REFUSED = 70


def _state(work):
    return fermata.as_json(fermata.fermata(work, "jobs", "--json"))[0]["state"]


def _exec(job, *arguments, name, mpi="mpich", env=None):
    """The job under a foreign mpirun."""
    job.hold.touch()
    command = [*mpis.mpirun(mpi, 2), fermata.FERMATA, "exec", "--mpi", mpi, "--name", job.name,
               *arguments]
    return process.Running(command, job.work, name=name, cwd=job.work, env=mpis.environment(
        FERMATA_DIR=str(job.work / "fermata"), CHECK_HOLD=str(job.hold), **(env or {})))


def _program(steps=30):
    return [mpis.program("mpich", "selfcheck"), "--steps", steps, "--step-ms", 80]


@timeout(150)
def test_two_restarts_at_once(work):
    """Both passed the checks of the other and wrote to the same files."""
    job = HealthyJob(work).begin()
    job.checkpoint_and_stop()
    pair = [process.Running([fermata.FERMATA, "restart", "job", "--mpi", "openmpi"], work,
                            name=f"restart{i}", cwd=work,
                            env=mpis.environment(FERMATA_DIR=str(work / "fermata")))
            for i in range(2)]
    until = time.monotonic() + 60
    while all(one.process.poll() is None for one in pair):
        check(time.monotonic() < until, "one of them is refused")
        time.sleep(0.05)
    refused = next(one for one in pair if one.process.poll() is not None)
    other = pair[1 - pair.index(refused)]
    text = record(RUNS, "two restarts at once", refused.wait(10), REFUSED,
                  "the other one ran to the right result")
    expect(text, "job 'job' is running", "hint")
    job.running = other
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the other")


@timeout(120)
def test_exec_beside_a_run(work):
    """It overwrote job.json: the run could no longer be found."""
    job = HealthyJob(work).begin("mpich").with_snapshot()
    before = (work / "fermata/job/job.json").read_text()
    second = _exec(job, *_program(), name="second").wait(60)
    text = record(RUNS, "exec under the name of a job that runs", second, REFUSED, UNHARMED)
    expect(text, "job 'job' is running", "hint")
    check("step" not in second.out, f"no rank of it ran\n{second.out}")
    check(second.seconds < 20, f"the answer took {second.seconds:.1f} s")
    check_equal((work / "fermata/job/job.json").read_text(), before, "job.json")
    job.checkpoint()
    job.came_through(snapshots=2)


@timeout(150)
def test_a_job_of_a_foreign_mpirun_is_restarted_at_once(work):
    """Its coordinator stayed for ten seconds, and was taken for a job that runs."""
    job = HealthyJob(work)
    job.ranks, job.running = 2, _exec(job, *_program(), name="first")
    fermata.wait_for_step(job, 1)
    job.with_snapshot()
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the first")
    began = time.monotonic()
    job.snapshot_is_good("openmpi")
    check(time.monotonic() - began < 20, "and soon")
    job.hold.touch()
    second = job.running = _exec(job, "--restore", job.snapshots()[0], *_program(), name="second")
    fermata.wait_for_step(job, 1)
    third = _exec(job, *_program(), name="third").wait(60)
    expect(third.err, "job 'job' is running", "hint")
    check_equal(_state(work), "running", "state of the second")
    job.release()
    check_equal(mpis.checksum(second.wait(60).out), job.expected(), "checksum of the second")


@timeout(120)
def test_a_second_process_of_a_rank(work):
    job = HealthyJob(work).begin("mpich").with_snapshot()
    running = json.loads((work / "fermata/job/job.json").read_text())
    second = fermata.fermata(work, "exec", "--mpi", "mpich", "--name", "job", "--job-dir",
                             work / "fermata/job", "--socket", running["socket"], *_program())
    text = record(RUNS, "a second process of a rank", second, RANK_REFUSED, UNHARMED)
    expect(text, "rank 0 of this job runs already, as process", "hint")
    job.came_through()


@timeout(150)
def test_a_suspended_coordinator_has_not_ended(work):
    job = HealthyJob(work).begin("mpich").with_snapshot()
    holder = job.running.process.pid
    os.kill(holder, signal.SIGSTOP)
    try:
        check_equal(_state(work), "silent", "state")
        began = time.monotonic()
        for case, *command in (
                ("restart of a job whose coordinator is suspended", "restart", "job"),
                ("checkpoint of a job whose coordinator is suspended",
                 "checkpoint", "job", "--stop", "--timeout", "1s")):
            result = fermata.fermata(work, *command)
            text = record(RUNS, case, result, REFUSED, UNHARMED)
            expect(text, "as process N, but does not answer", "hint", "kill -CONT")
            check(f"process {holder}" in result.err, result.err)
            check("kill)" not in result.err, f"nobody is told to end it\n{result.err}")
        check(time.monotonic() - began < 60, "both are refused in time")
    finally:
        os.kill(holder, signal.SIGCONT)
    check_equal(_state(work), "running", "state")
    job.came_through()
