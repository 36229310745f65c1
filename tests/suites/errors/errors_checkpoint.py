# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a checkpoint. Whatever it is: the command says what, where and what to do,
ends with a stated code and soon; the job continues to the right result, and the snapshot before is
still good (support.errors.HealthyJob.came_through)."""
import os
import shutil
import signal
import time

from support import fermata, mpis, process
from support.cases import Failed, check, check_equal, slow, timeout
from support.errors import (FAILED, REFUSED, UNHARMED, HealthyJob, expect, ranks_of, record)
from support.namespaces import AS_ROOT, own_mounts

NOW, DISK, DEATH = "Checkpoints at the wrong moment", "Disks", "Deaths during a checkpoint"
SOON_S = 15  # a checkpoint that cannot succeed says so within this time


def _soon(result):
    check(result.seconds < SOON_S, f"the answer took {result.seconds:.1f} s")
    return result


# ---- the wrong moment ---------------------------------------------------------------------------

@timeout(90)
def test_no_such_job(work):
    result = fermata.fermata(work, "checkpoint", "nobody")
    expect(record(NOW, "no job of that name", result, REFUSED, "-"), "'nobody'", "fermata jobs")


@timeout(120)
def test_job_that_has_ended(work):
    job = HealthyJob(work).begin().with_snapshot()
    job.finish()
    result = _soon(job.try_checkpoint())
    text = record(NOW, "the job has ended", result, REFUSED, "its snapshots")
    expect(text, "'job'", "not running", "has come to its end", "fermata snapshots job")
    job.snapshot_is_good()


def _slow_ends(work, *arguments):
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "slow_ends"), *arguments])
    return job


@timeout(90)
def test_job_in_mpi_init(work):
    job = _slow_ends(work, "--init-ms", 4000)
    job.running.wait_for("before init\n")
    time.sleep(0.5)
    result = _soon(fermata.fermata(work, "checkpoint", "job"))
    text = record(NOW, "ranks are in MPI_Init", result, REFUSED, "the job continues to its end")
    expect(text, "MPI_Init", "hint")
    mpis.checksum(job.finish())


@timeout(90)
def test_job_in_mpi_finalize(work):
    job = _slow_ends(work, "--finalize-ms", 4000)
    job.running.wait_for("PASS")
    time.sleep(0.5)
    result = _soon(fermata.fermata(work, "checkpoint", "job"))
    text = record(NOW, "a rank is in MPI_Finalize", result, REFUSED, "the job continues to its end")
    expect(text, "rank 0 has entered MPI_Finalize", "hint")
    mpis.checksum(job.finish())


@timeout(120)
def test_two_at_once(work):
    """The first waits for a rank that is stopped; it succeeds when the rank continues. The second
    has waited for it until then."""
    job = HealthyJob(work).begin().with_snapshot()
    stopped = ranks_of(job)[1]
    os.kill(stopped, signal.SIGSTOP)
    first = process.Running([fermata.FERMATA, "checkpoint", "job"], work, name="first",
                            env=mpis.environment(FERMATA_DIR=str(work / "fermata")), cwd=work)
    time.sleep(0.7)
    result = _soon(job.try_checkpoint("--timeout", "2s"))
    check(result.seconds >= 2, f"it waited for {result.seconds:.1f} s")
    os.kill(stopped, signal.SIGCONT)
    first.wait(30).expect_success("the first checkpoint")
    text = record(NOW, "another checkpoint takes longer than --timeout", result, REFUSED,
                  "the first one succeeds, and " + UNHARMED)
    expect(text, "already being taken", "hint")
    job.came_through(snapshots=2)


@timeout(120)
def test_the_last_checkpoint_waits_for_another(work):
    """It was refused because of a periodic one, and the batch script's last seconds were over."""
    job = HealthyJob(work).begin()
    stopped = ranks_of(job)[1]
    os.kill(stopped, signal.SIGSTOP)
    both = []
    for options in ([], ["--stop"]):
        both.append(process.Running(
            [fermata.FERMATA, "checkpoint", "job", *options], work, name=f"taken{len(both)}",
            env=mpis.environment(FERMATA_DIR=str(work / "fermata")), cwd=work))
        time.sleep(0.7)
    os.kill(stopped, signal.SIGCONT)
    for taken in both:
        taken.wait(40).expect_success("a checkpoint")
    job.running.wait(30)
    check_equal(len(job.snapshots()), 2, "snapshots")
    job.release()
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum after the restart")


@timeout(120)
def test_rank_that_does_not_answer(work):
    job = HealthyJob(work).begin().with_snapshot()
    stopped = ranks_of(job)[1]
    os.kill(stopped, signal.SIGSTOP)
    result = _soon(job.try_checkpoint("--timeout", "2s"))
    os.kill(stopped, signal.SIGCONT)
    text = record(NOW, "a rank does not answer within --timeout", result, FAILED, UNHARMED)
    expect(text, "rank 1", "in time", "the job continues", "--timeout")
    job.came_through()


@slow
@timeout(120)
def test_thread_that_no_signal_reaches(work):
    """It waits for the child that it has made by vfork(2). The message names the thread, and the
    hint blames no disk. Once the child has ended the job can be saved."""
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "vfork_waits"), "--steps", 300, "--step-ms", 100,
                          "--size", 25000])
    fermata.wait_for_step(job, 2)
    result = fermata.fermata(work, "checkpoint", "job")
    check_equal(result.code, FAILED, "exit code")
    expect(result.err, "thread ", "did not stop in time", "the job continues", "no signal ends")
    fermata.wait_for_step(job, 260)
    job.checkpoint_and_stop()
    job.restart("mpich")
    mpis.checksum(job.finish())


def _stop_writer(rank, until):
    """Stops the image writer of `rank`, a fork of it, as soon as it is there."""
    while time.monotonic() < until:
        for pid in process.descendants(rank):
            os.kill(pid, signal.SIGSTOP)
            return pid
    raise Failed("no image writer was seen")


@timeout(150)
def test_failure_while_shared_memory_is_written(work):
    """Rank 0 stands still until its writer has the memory, which is stopped here for good. That
    another rank has failed must be heard at once all the same."""
    job = HealthyJob(work).begin(program="much_shared").with_snapshot()
    ranks = ranks_of(job)
    first = process.Running([fermata.FERMATA, "checkpoint", "job"], work, name="first",
                            env=mpis.environment(FERMATA_DIR=str(work / "fermata")), cwd=work)
    until = time.monotonic() + 10
    stuck, victim = [_stop_writer(rank, until) for rank in ranks]
    os.kill(victim, signal.SIGKILL)
    result = _soon(first.wait(30))
    text = record(NOW, "a rank fails while another writes shared memory", result, FAILED, UNHARMED)
    expect(text, "rank 1", "the image writer was killed", "the job continues", "hint")
    job.came_through()
    check(not os.path.exists(f"/proc/{stuck}"), "the writer of rank 0 has been ended")


@timeout(120)
def test_restart_of_a_running_job(work):
    job = HealthyJob(work).begin().with_snapshot()
    result = _soon(fermata.fermata(work, "restart", "job"))
    text = record(NOW, "restart of a job that runs", result, REFUSED, UNHARMED)
    expect(text, "is running", "fermata checkpoint job --stop")
    job.came_through()


# ---- disks --------------------------------------------------------------------------------------

class DiskJob(HealthyJob):
    """Its directory lies on a file system of its own, in a mount namespace of its own."""

    def __init__(self, work, size):
        super().__init__(work)
        place = work / "fermata"
        place.mkdir()
        self.place = place
        self.size = size

    def _launch(self, *arguments, **options):
        if not self.runs:  # A restart comes when the disk has been saved; see `leave`.
            script = f'mount -t tmpfs -o size={self.size} none "$1" && shift && exec "$@"'
            options["under"] = [*own_mounts(), "sh", "-c", script, "sh", self.place]
        return super()._launch(*arguments, **options)

    def inside(self, *command, timeout_s=45):
        enter = ["nsenter", "-t", str(self.running.process.pid), "-m", "-r", "-w"]
        if not AS_ROOT:
            enter += ["-U", "--preserve-credentials"]
        return process.run([*enter, *command], timeout_s,
                           mpis.environment(FERMATA_DIR=str(self.place)), self.work)

    def try_checkpoint(self, *arguments, timeout_s=45):
        return self.inside(fermata.FERMATA, "checkpoint", self.name, *arguments,
                           timeout_s=timeout_s)

    def checkpoint(self, stop=False, timeout_s=60):
        self.try_checkpoint().expect_success("fermata checkpoint")

    def snapshots(self):
        if self.running.process.poll() is not None:
            return super().snapshots()
        listed = self.inside("ls", self.place / self.name / "snapshots").out.split()
        return [self.place / self.name / "snapshots" / name for name in listed if name.isdigit()]

    def leave(self):
        """Copies what is on the disk to where the namespace's end does not reach it."""
        copy = self.work / "copy"
        self.inside("cp", "-a", self.place, copy).expect_success("cp")
        mpis.checksum(self.finish())
        self.place.rmdir()
        shutil.move(copy, self.place)


def _on_disk(work, case, size, spoil, mend, *words):
    """Takes one good snapshot, spoils the disk, expects the next checkpoint to fail, and mends
    the disk only as far as needed to look at what is left."""
    job = DiskJob(work, size)
    job.begin().with_snapshot()
    job.inside("sh", "-c", spoil.replace("DIR", str(job.place))).expect_success(spoil)
    result = _soon(job.try_checkpoint())
    text = record(DISK, case, result, FAILED, UNHARMED)
    expect(text, "checkpoint 2 failed", "the job continues", *words)
    job.inside("sh", "-c", mend.replace("DIR", str(job.place))).expect_success(mend)
    partial = [name for name in job.inside("ls", job.place / "job/snapshots").out.split()
               if "partial" in name or "discarded" in name]
    check_equal(partial, [], "left over from the failed checkpoint")
    job.leave()
    job.came_through()


@timeout(120)
def test_disk_full(work):
    _on_disk(work, "the disk is full", "8m",
             "head -c 64m /dev/zero > DIR/filler 2> /dev/null; true", "rm DIR/filler",
             "the disk is full", "rank", "hint")


@timeout(120)
def test_directory_becomes_read_only(work):
    _on_disk(work, "the directory is no longer writable", "64m",
             "cd DIR/job && mount --bind snapshots snapshots && "
             "mount -o remount,bind,ro DIR/job/snapshots", "umount DIR/job/snapshots",
             "snapshots", "Read-only", "hint")


@timeout(120)
def test_directory_removed_before_the_checkpoint(work):
    """A directory above the snapshots is made again, so there is nothing to refuse."""
    job = HealthyJob(work).begin()
    shutil.rmtree(work / "fermata/job/snapshots")
    job.checkpoint()
    job.came_through()


@timeout(120)
def test_directory_removed_during_the_checkpoint(work):
    """Rank 1 is stopped, so that the others are in the checkpoint already when it goes away."""
    job = HealthyJob(work).begin().with_snapshot()
    kept = work / "kept"
    stopped = ranks_of(job)[1]
    os.kill(stopped, signal.SIGSTOP)
    first = process.Running([fermata.FERMATA, "checkpoint", "job"], work, name="first",
                            env=mpis.environment(FERMATA_DIR=str(work / "fermata")), cwd=work)
    time.sleep(0.5)
    (work / "fermata/job/snapshots").rename(kept)
    (work / "fermata/job/snapshots").write_text("in the way")
    os.kill(stopped, signal.SIGCONT)
    result = _soon(first.wait(30))
    text = record(DISK, "the directory is removed during the checkpoint", result, FAILED, UNHARMED)
    expect(text, "checkpoint 2 failed", "the job continues", "snapshots", "hint")
    (work / "fermata/job/snapshots").unlink()
    kept.rename(work / "fermata/job/snapshots")
    job.came_through()


# ---- deaths -------------------------------------------------------------------------------------

def _killed_during(work, case, victims, lower="openmpi"):
    """Kills processes while a checkpoint waits for a stopped rank. Returns job and message."""
    job = HealthyJob(work).begin(lower).with_snapshot()
    ranks = ranks_of(job)
    os.kill(ranks[1], signal.SIGSTOP)
    first = process.Running([fermata.FERMATA, "checkpoint", "job"], work, name="first",
                            env=mpis.environment(FERMATA_DIR=str(work / "fermata")), cwd=work)
    time.sleep(0.5)
    for pid in victims(job, ranks):
        os.kill(pid, signal.SIGKILL)
    result = _soon(first.wait(30))
    stays = "the snapshot before was verified and restarted"
    return job, ranks, record(DEATH, case, result, FAILED, stays)


def _make_rank_death(lower):
    @timeout(120)
    def test(work):
        job, _, text = _killed_during(work, f"a rank is killed ({lower})",
                                      lambda _job, ranks: [ranks[1]], lower)
        # MPICH's mpirun ends rank 0 at once, so either may be missed first.
        expect(text, "rank", "hint", "fermata restart job")
        ended = job.running.wait(30)
        check(ended.code != 0, "the job has failed and says so")
        job.snapshot_is_good(mpis.OTHER[lower])
    return test


@timeout(120)
def test_process_manager_dies(work):
    def mpirun(job, _ranks):
        return [pid for pid in process.descendants(job.running.process.pid)
                if b"mpirun" in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")[0]]
    job, ranks, text = _killed_during(
        work, "mpirun is killed", lambda job, ranks: mpirun(job, ranks) + ranks)
    expect(text, "has left the job", "fermata restart job")
    check(job.running.wait(30).code != 0, "the job has failed and says so")
    job.snapshot_is_good()


@timeout(120)
def test_coordinator_dies(work):
    """`fermata run` holds it. The ranks do not depend on it: they run on to the end."""
    job, ranks, text = _killed_during(
        work, "the coordinator is killed", lambda job, _ranks: [job.running.process.pid])
    os.kill(ranks[1], signal.SIGCONT)
    job.release()
    expect(text, "coordinator", "hint")
    until = time.monotonic() + 60
    while "PASS" not in job.running.out and time.monotonic() < until:
        time.sleep(0.1)
    check_equal(mpis.checksum(job.running.out), job.expected(), "checksum of the job")
    check_equal(job.try_checkpoint().code, REFUSED, "a checkpoint without a coordinator")
    job.running.process.wait(10)
    job.snapshot_is_good()


@timeout(120)
def test_ranks_outlive_their_run(work):
    """A second life of the job beside the first one is refused until that has ended."""
    job = HealthyJob(work).begin("mpich").with_snapshot()
    ranks = ranks_of(job)
    os.kill(job.running.process.pid, signal.SIGKILL)
    job.running.process.wait(10)
    restart = fermata.fermata(work, "restart", "job", "--mpi", "openmpi")
    text = record(DEATH, "a restart while ranks of a killed run live", restart, REFUSED,
                  "the ranks continued to the right result; then the restart went through")
    expect(text, "rank 0", "rank 1", "hint")
    for pid in ranks:
        check(f"process {pid} on host" in restart.err, restart.err)
    again = fermata.fermata(work, "run", "-n", 2, "--name", "job", "--mpi", "mpich", "--",
                            mpis.program("mpich", "selfcheck"))
    check_equal(again.code, REFUSED, f"a run of that name\n{again.err}")
    expect(again.err, "rank 1")
    check("step" not in restart.out + again.out, "no rank ran")
    job.release()
    until = time.monotonic() + 60
    while "PASS" not in job.running.out and time.monotonic() < until:
        time.sleep(0.1)
    check_equal(mpis.checksum(job.running.out), job.expected(), "checksum of the job")
    job.snapshot_is_good("openmpi")


def generate():
    return {f"test_rank_dies_{lower}": _make_rank_death(lower) for lower in mpis.MPIS}
