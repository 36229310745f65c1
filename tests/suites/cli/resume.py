# SPDX-License-Identifier: Apache-2.0
"""`run --resume`: one line, given again and again, runs a job to its end and does nothing twice.
And the command line of `run` is that of mpirun."""
import json
import os
import signal

from support import errors, fermata, mpis, process
from support.cases import Skipped, check, check_equal, timeout

STEPS = 16
REFUSED, DAMAGED = 3, 4


def _program(steps=STEPS):
    return [mpis.program("mpich", "selfcheck"), "--steps", steps, "--step-ms", 60]


def _submit(job, *options, ranks=("-np", 2), program=None, env=None):
    """What a batch script says, whatever came before. The program waits until it is released."""
    job.hold.touch()
    return job._launch("run", *ranks, "--mpi", "mpich", "--name", job.name, "--resume", *options,
                       *(program or _program()), env={"CHECK_HOLD": str(job.hold), **(env or {})})


def _record(job):
    return json.loads((job.work / "fermata" / job.name / "job.json").read_text())


def _finish(job, steps=STEPS):
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, steps), "checksum")


def _stopped(work, snapshots=1):
    """A job that was saved and stopped, and has so many snapshots."""
    job = fermata.Job(work)
    _submit(job)
    fermata.wait_for_step(job, 2)
    for _ in range(snapshots - 1):
        job.checkpoint()
    job.checkpoint_and_stop()
    return job


@timeout(150)
def test_the_same_line_again_and_again(work):
    job = _stopped(work)
    check("job 'job' has no snapshot: it begins" in job.running.err, job.running.err)
    check_equal(_record(job)["ended"], {"how": "saved", "epoch": 1}, "the end of the first run")
    second = _submit(job)
    fermata.wait_for_step(job, 5)
    check("continues from checkpoint 1, " in second.err and "(its last run: saved)" in second.err,
          second.err)
    check("step 1\n" not in second.out, "it does not begin again")
    check_equal(_record(job)["ended"], {"how": "running"}, "while it runs")
    _finish(job)
    record = _record(job)
    check_equal((record["ended"], record["run_number"]), ({"how": "finished"}, 2), "the end")
    snapshots = job.snapshots()
    third = _submit(job).wait(30)
    check_equal((third.code, third.out), (0, ""), "a job that has finished")
    check("job 'job' has finished" in third.err and "--again" in third.err, third.err)
    check_equal((_record(job), job.snapshots()), (record, snapshots), "nothing has changed")
    value = fermata.as_json(_submit(job, "--json").wait(30))
    check_equal((value["finished"], value["ran"], value["code"]), (True, False, 0), "as JSON")
    _submit(job, "--again")
    _finish(job)
    check("continues from checkpoint 1, " in job.running.err, job.running.err)


@timeout(120)
def test_a_damaged_snapshot_is_told_of_and_the_one_before_is_used(work):
    job = _stopped(work, snapshots=2)
    older, newer = job.snapshots()
    image = fermata.images(newer)[1]
    with open(image, "r+b") as file:
        file.seek(image.stat().st_size // 2)
        file.write(b"damaged!" * 1000)
    _submit(job)
    fermata.wait_for_step(job, 4)
    said = job.running.err
    check("checkpoint 2 is damaged, and not used:" in said and "rank 1: rank-1.img" in said, said)
    check("continues from checkpoint 1, " in said, said)
    job.checkpoint_and_stop()
    check_equal(job.snapshots()[-1].name, "3", "no number comes again")
    _submit(job)
    _finish(job)
    check(older.name == "1" and "continues from checkpoint 3" in job.running.err, job.running.err)


@timeout(90)
def test_a_job_whose_snapshots_are_all_damaged_does_not_begin_again(work):
    job = _stopped(work)
    (job.snapshots()[0] / "manifest.json").write_text("{")
    refused = _submit(job).wait(30)
    check_equal((refused.code, refused.out), (DAMAGED, ""), f"the answer\n{refused.err}")
    check("checkpoint 1 is damaged" in refused.err and "no snapshot of job 'job' is intact"
          in refused.err and "another --name" in refused.err, refused.err)


@timeout(120)
def test_a_snapshot_that_may_be_intact_is_not_taken_for_none(work):
    """Its file cannot be read, or it is sealed with another key: an older one is not its place."""
    job = _stopped(work, snapshots=2)
    manifest = job.snapshots()[1] / "manifest.json"
    text = manifest.read_text()
    manifest.unlink()
    manifest.mkdir()
    refused = _submit(job).wait(30)
    check_equal((refused.code, refused.out), (REFUSED, ""), f"the answer\n{refused.err}")
    check("checkpoint 2 cannot be used here" in refused.err, refused.err)
    manifest.rmdir()
    manifest.write_text(text)
    home = work / "another home"
    home.mkdir()
    away = _submit(job, env={"HOME": str(home), "XDG_CONFIG_HOME": str(home)}).wait(30)
    check_equal(away.code, REFUSED, f"the answer\n{away.err}")
    check("checkpoint 2 cannot be used here" in away.err and "fermata trust" in away.err, away.err)
    _submit(job)
    _finish(job)


@timeout(60)
def test_a_directory_of_snapshots_that_cannot_be_read_is_not_taken_for_none(work):
    if os.geteuid() == 0:
        raise Skipped("root can read everything")
    place = work / "fermata/job/snapshots"
    place.mkdir(parents=True)
    place.chmod(0o300)
    job = fermata.Job(work)
    refused = _submit(job).wait(30)
    check_equal((refused.code, refused.out), (REFUSED, ""), f"the answer\n{refused.err}")


@timeout(120)
def test_a_job_that_was_killed_continues(work):
    """Whoever ran it could not say how it ended."""
    job = fermata.Job(work)
    _submit(job, "--every", "1s")
    fermata.wait_for_step(job, 2)
    process.wait_until(job.snapshots, "a checkpoint")
    process.kill_tree(job.running.process.pid)
    job.running.wait(30)
    _submit(job)
    _finish(job)
    check("(its last run: broken off)" in job.running.err, job.running.err)


@timeout(90)
def test_a_job_that_runs_is_not_begun_beside(work):
    job = fermata.Job(work)
    running = _submit(job)
    fermata.wait_for_step(job, 2)
    refused = _submit(job).wait(60)
    check_equal(refused.code, REFUSED, f"the answer\n{refused.err}")
    check("job 'job' is running" in refused.err, refused.err)
    job.running = running
    _finish(job)


@timeout(120)
def test_another_command_line_is_refused(work):
    job = _stopped(work)
    for ranks, program in ((("-np", 3), _program()), ((), _program(17)),
                           ((), [mpis.program("mpich", "compute"), *_program()[1:]])):
        refused = _submit(job, ranks=ranks, program=program).wait(30)
        check_equal((refused.code, refused.out), (REFUSED, ""), f"the answer\n{refused.err}")
        check("was begun with another command line: -n 2 " in refused.err
              and "another --name" in refused.err, refused.err)
    _submit(job, ranks=())  # as many as there were
    _finish(job)
    refused = _submit(job, program=_program(17)).wait(30)
    check_equal(refused.code, REFUSED, "a job that has finished with another one")


@timeout(90)
def test_how_a_run_fails_is_recorded(work):
    job = fermata.Job(work)
    program = [mpis.program("mpich", "leaves"), "--how", "exit"]
    _submit(job, program=program)
    fermata.wait_for_step(job, 2)
    job.release()
    ended = job.running.wait(60)
    how = _record(job)["ended"]
    check_equal((how["how"], how["rank"], how["host"]), ("failed", 1, os.uname().nodename),
                "how it ended")
    check(ended.code != 0 and "without MPI_Finalize" in how["why"], how)
    job = fermata.Job(work, "killed")
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", 99, "--step-ms", 60])
    fermata.wait_for_step(job, 2)
    os.kill(errors.ranks_of(job)[1], signal.SIGKILL)
    job.running.wait(60)
    how = _record(job)["ended"]
    check_equal((how["how"], how.get("signal"), how["rank"]), ("failed", 9, 1), "how it ended")
    told = fermata.fermata(work, "jobs").expect_success("jobs").out
    check("failed (signal 9)" in told, told)


@timeout(90)
def test_an_end_that_cannot_be_recorded_is_told(work):
    job = fermata.Job(work)
    _submit(job)
    fermata.wait_for_step(job, 2)
    partial = work / "fermata/job/job.json.partial"
    partial.mkdir()
    job.release()
    ended = job.running.wait(60)
    check_equal(ended.code, 1, f"exit code\n{ended.err}")
    check_equal(mpis.checksum(ended.out), mpis.expected("selfcheck", 2, STEPS), "checksum")
    check("has ended (finished) is not recorded" in ended.err, ended.err)


@timeout(90)
def test_a_program_is_run_as_with_mpirun(work):
    """-np, no --, and options of the program's own that could be ours."""
    job = fermata.Job(work)
    several = [mpis.program("mpich", "selfcheck"), "--steps", 4]
    job._launch("run", "-np", 2, "--mpi", "mpich", *several).wait(60).expect_success("-np")
    mpis.checksum(job.running.out)
    job._launch("run", "-np", 1, "--mpi", "mpich", *several, ":", "-np", 1, *several)
    mpis.checksum(job.running.wait(60).expect_success("two programs").out)
    # As the environment of a batch job says; no mpirun here reads LSF's.
    job._launch("run", "--mpi", "mpich", "--name", "batch", *several, env={"LSB_DJOB_NUMPROC": "2"})
    mpis.checksum(job.running.wait(60).expect_success("in an allocation").out)
    check("-n 2, as LSB_DJOB_NUMPROC says" in job.running.err, job.running.err)
    batch = json.loads((work / "fermata/batch/job.json").read_text())
    check_equal(batch["size"], 2, "ranks")
    unknown = fermata.fermata(work, "run", "--nmae", "x", *several)
    check(unknown.code == 2 and "--name" in unknown.err, unknown.err)
