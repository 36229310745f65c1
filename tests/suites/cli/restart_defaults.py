# SPDX-License-Identifier: Apache-2.0
"""`restart` continues as the job last ran, unless told otherwise; and elsewhere, from a snapshot in
a directory that is read-only or full."""
import json
import os
import shutil
import time

from support import errors, fermata, mpis, process
from support.cases import Skipped, check, check_equal, timeout

STEPS = 12
SAID = "continues as the job last ran: "


def _start(work, lower, *options, steps=STEPS):
    job = fermata.Job(work)
    command = [mpis.program("openmpi", "selfcheck"), "--steps", steps, "--step-ms", 60]
    job.start(lower, command, options=options)
    fermata.wait_for_step(job, 3)
    return job


def _restart(job, *options, under=()):
    return job._launch("restart", job.name, *options, under=under)


def _stop_at(job, step):
    fermata.wait_for_step(job, step)
    job.checkpoint_and_stop()


def _finish(job, steps=STEPS):
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, steps), "checksum")


def _said(running):
    return [line.split(SAID)[1] for line in running.err.split("\n") if SAID in line]


def _mpi(job):
    (row,) = fermata.as_json(fermata.fermata(job.work, "jobs", "--json"))
    return row["mpi"]


def _epoch(job):
    return max((int(path.name) for path in job.snapshots()), default=0)


@timeout(150)
def test_the_mpi_and_the_checkpoints_are_those_of_before(work):
    """The program is Open MPI's, so that MPICH is no default. --every: snapshots come by themselves
    in the second run as well, and no longer in the third."""
    steps = 200
    job = _start(work, "mpich", "--every", "1s", "--keep", "3", steps=steps)
    job.checkpoint_and_stop()
    before = _epoch(job)
    second = _restart(job)
    until = time.monotonic() + 60
    while _epoch(job) == before:
        check(time.monotonic() < until, "no checkpoint came by itself")
        time.sleep(0.1)
    check_equal(_mpi(job), "mpich", "the MPI")
    job.checkpoint_and_stop()
    check_equal(_said(second), ["--mpi mpich --every 1s --keep 3"], "what was taken over")
    third = _restart(job, "--mpi", "openmpi", "--every", "0", "--keep", "2")
    _stop_at(job, 4)
    check_equal(_said(third), [], "what was taken over when all was told")
    fourth = _restart(job)
    check_equal(_mpi(job), "openmpi", "the MPI")
    _finish(job, steps)
    check_equal(_said(fourth), ["--mpi openmpi"], "what was taken over")


@timeout(90)
def test_an_mpi_that_is_no_longer_registered_is_named(work):
    job = _start(work, "mpich")
    job.checkpoint_and_stop()
    path = work / "fermata/job/job.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "lower": "mpich9"}))
    running = _restart(job)
    _finish(job)
    check("MPI 'mpich9', which the job last ran on, is not registered here; it continues under "
          "openmpi\n" in running.err and "--mpi" in running.err, running.err)


def _mpirun_words(job):
    """The arguments of the mpirun that a run has started."""
    lines = [process.command_line(pid) for pid in process.descendants(job.running.process.pid)]
    return [word.decode() for line in lines if line and b"mpirun" in line[0].split(b"/")[-1]
            for word in line]


@timeout(150)
def test_hosts_and_arguments_for_mpirun_are_those_of_before(work):
    options = ["--host", "localhost", "--mpirun-arg=--quiet"]
    job = _start(work, "openmpi", *options)
    job.checkpoint_and_stop()
    second = _restart(job)
    fermata.wait_for_step(job, 4)
    words = _mpirun_words(job)
    check("localhost:2" in words and "--quiet" in words, words)
    job.checkpoint_and_stop()
    check_equal(_said(second), ["--mpi openmpi --host localhost:2 --mpirun-arg=--quiet"], "it said")
    third = _restart(job, "--here")
    fermata.wait_for_step(job, 5)
    words = _mpirun_words(job)
    check(words and "localhost:2" not in words and "--quiet" not in words, words)
    job.checkpoint_and_stop()
    check_equal(_said(third), ["--mpi openmpi"], "it said")
    # What the third run did is what counts now.
    fourth = _restart(job, "--host", "localhost:2")
    _finish(job)
    check_equal(_said(fourth), ["--mpi openmpi"], "it said")


@timeout(90)
def test_arguments_for_one_mpirun_are_not_given_to_another(work):
    job = _start(work, "openmpi", "--mpirun-arg=--quiet")
    job.checkpoint_and_stop()
    running = _restart(job, "--mpi", "mpich")  # whose mpirun does not know it
    _finish(job)
    check_equal(_said(running), [], "it said")


def _inside(work, script):
    """A command that starts another among mounts of its own, which the script makes at $0."""
    if os.geteuid() != 0:
        raise Skipped("only root can mount")
    if process.run(["unshare", "--mount", "true"]).code != 0:
        raise Skipped("no namespace of mounts can be made here")
    return ["unshare", "--mount", "sh", "-ec", script + '\nexec "$@"', work / "fermata"]


READ_ONLY = 'mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"'


def _resumes_elsewhere(job, snapshot, under, why):
    """A snapshot whose own directory cannot be written to, which is said, is restarted with --dir,
    and on from there."""
    for what in ("job", snapshot):
        result = job._launch("restart", what, under=under).wait(30)
        check(result.code == 3 and why in result.err
              and f"hint: continue elsewhere: fermata restart {snapshot} --dir DIR" in result.err,
              result.err)
    work, place = job.work, job.work / "else/where"
    job._launch("restart", snapshot, "--dir", place, "--mpi", "mpich", under=under)
    fermata.wait_for_step(job, 5)
    stopped = fermata.fermata(work, "checkpoint", "job", "--stop", "--dir", place)
    stopped.expect_success("checkpoint")
    job.running.wait(30)
    kept = {path.name for path in (work / "fermata/job/parts").iterdir()}
    check(kept and kept >= {path.name for path in (place / "job/parts").iterdir()} > set(),
          "the front end did not come along")
    shutil.rmtree(work / "fermata")
    job._launch("restart", "job", "--dir", place)
    _finish(job)


@timeout(120)
def test_a_snapshot_in_a_read_only_place_resumes_elsewhere(work):
    job = _start(work, "openmpi")
    job.checkpoint_and_stop()
    snapshot = fermata.newest_snapshot(job)
    under = _inside(work, READ_ONLY)
    _resumes_elsewhere(job, snapshot, under, "snapshots is not writable")


@timeout(120)
def test_a_snapshot_on_a_full_disk_resumes_elsewhere(work):
    job = _start(work, "openmpi")
    job.checkpoint_and_stop()
    snapshot = fermata.newest_snapshot(job)
    shutil.copytree(work / "fermata", work / "saved", symlinks=True)
    room = fermata.snapshot_bytes(snapshot) + (16 << 20)
    under = _inside(work, f'mount -t tmpfs -o size={room} tmpfs "$0"; cp -a {work}/saved/. "$0"; '
                          'cat /dev/zero > "$0/fill" 2> /dev/null || true')
    _resumes_elsewhere(job, snapshot, under, "No space left on device")


@timeout(90)
def test_a_job_that_runs_is_not_started_elsewhere_as_well(work):
    job = _start(work, "openmpi")
    job.checkpoint()
    result = fermata.fermata(work, "restart", fermata.newest_snapshot(job), "--dir", work / "else")
    check(result.code == 3 and "job 'job' is running" in result.err, result.err)
    check_equal(len(errors.ranks_of(job)), 2, "ranks")
    _finish(job)
