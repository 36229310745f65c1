# SPDX-License-Identifier: Apache-2.0
"""What a run does when its end is near: a rank is killed, a signal comes, its time ends. Batch
systems are played by programs of their names that are found first."""
import fcntl
import os
import re
import shutil
import signal
import sys
import time

from support import fermata, mpis, process
from support.cases import check, check_equal, timeout
from support.errors import ranks_of

STEPS = 40
SAVED, USAGE = 75, 2


def _selfcheck(work, mpi, *options, env=None):
    job = fermata.Job(work)
    command = [mpis.program(mpi, "selfcheck"), "--steps", STEPS, "--step-ms", 20]
    job.start(mpi, command, options=options, env=env)
    fermata.wait_for_step(job, 2)
    return job


def _is_saved(job, reason, timeout_s=60):
    """The run ends saved, and not done."""
    ended = job.running.wait(timeout_s)
    check_equal(ended.code, SAVED, f"exit code\n{ended.err}")
    stopped = re.search(r"job job stopped at checkpoint (\d+) (.*); continue with", ended.err)
    check(stopped, ended.err)
    check(reason in stopped[2], f"{stopped[2]!r} is not for {reason!r}")
    check("\nPASS " not in "\n" + ended.out, "it came to its end")
    check_equal(ended.err.count("the job is saved and stopped"), 1, "times that it was said")
    return ended


def _finishes(job, mpi, options=()):
    job.restart(mpi, options=options)
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


def _killed_rank(mpi):
    @timeout(180)
    def test(work):
        job = _selfcheck(work, mpi, "--retries", 3)
        job.checkpoint()
        os.kill(ranks_of(job)[1], signal.SIGKILL)
        job.running.wait_for("begun again from checkpoint 1 (retry 1 of 3)")
        check("rank 1 has died of SIGKILL" in job.running.err, job.running.err)
        steps = re.findall(fermata.STEP, job.running.out, re.M)
        fermata.wait_for_step(job, max(map(int, steps)) + 1)
        fermata.fermata(work, "checkpoint", "job").expect_success("a checkpoint of the second run")
        os.kill(ranks_of(job)[0], signal.SIGKILL)
        job.running.wait_for("begun again from checkpoint 2 (retry 2 of 3)")
        check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")
        check_equal(len(job.snapshots()), 2, "snapshots")
    return test


@timeout(180)
def test_an_upgrade_meanwhile_is_what_begins_again(work):
    """The program file that the run was started from is replaced."""
    prefix = fermata.installation(work)
    job = fermata.Job(work)
    job.fermata = prefix / "bin/fermata"
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", STEPS, "--step-ms", 20],
              options=("--retries", 3))
    fermata.wait_for_step(job, 2)
    job.checkpoint()
    shutil.copy2(job.fermata, prefix / "bin/newer")
    (prefix / "bin/newer").rename(job.fermata)
    os.kill(ranks_of(job)[1], signal.SIGKILL)
    job.running.wait_for("begun again from checkpoint 1 (retry 1 of 3)")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


def _crash_loop(mpi):
    @timeout(120)
    def test(work):
        ended = fermata.fermata(work, "run", "-n", 2, "--mpi", mpi, "--name", "job", "--retries", 9,
                                "--", mpis.program(mpi, "leaves"), "--how", "kill", timeout_s=100)
        check(ended.code not in (0, SAVED), f"exit code {ended.code}\n{ended.err}")
        check_equal(ended.err.count("it is begun again as it began"), 2, f"retries\n{ended.err}")
        why = "it is not begun again: rank 1 has died of SIGKILL 3 times without a snapshot between"
        check(why in ended.err, ended.err)
    return test


def _found_death(mpi):
    @timeout(120)
    def test(work):
        """A peer finds out sooner than mpirun, and ends the job by MPI_Abort."""
        ended = fermata.fermata(work, "run", "-n", 2, "--mpi", mpi, "--name", "job", "--retries", 9,
                                "--", mpis.program(mpi, "leaves"), "--how", "found", timeout_s=100)
        check_equal(ended.err.count("it is begun again as it began"), 2, f"retries\n{ended.err}")
        check("rank 1 has died" in ended.err, ended.err)
    return test


def _aborts(mpi):
    @timeout(60)
    def test(work):
        """What a program ends itself with is not begun again."""
        ended = fermata.fermata(work, "run", "-n", 2, "--mpi", mpi, "--name", "job", "--retries", 9,
                                "--", mpis.program(mpi, "leaves"), "--how", "fail")
        check_equal(ended.code, 3, f"exit code\n{ended.err}")
        check("begun again" not in ended.err, ended.err)
    return test


def _signal(mpi, number, options=(), env=None):
    @timeout(150)
    def test(work):
        job = _selfcheck(work, mpi, *options, env=env)
        # As slurmstepd does: to the whole process group, and again.
        for _ in range(3):
            os.killpg(job.running.process.pid, number)
            time.sleep(0.1)
        _is_saved(job, f"by {number.name}")
        _finishes(job, mpi)
    return test


def _until(mpi):
    @timeout(150)
    def test(work):
        """Half of a short time is kept free for the checkpoint."""
        job = _selfcheck(work, mpi, "--until", "20s")
        ended = _is_saved(job, "before the end of its time")
        check(8 < ended.seconds < 20, f"it ended after {ended.seconds:.1f} s")
        _finishes(job, mpi)
    return test


@timeout(90)
def test_a_programs_own_exit_code_is_not_tried_again(work):
    ended = fermata.fermata(work, "run", "-n", 2, "--mpi", "openmpi", "--retries", 9, "--",
                            "/bin/sh", "-c", "exit 3")
    check_equal(ended.code, 3, f"exit code\n{ended.err}")
    check("begun again" not in ended.err, ended.err)


@timeout(150)
def test_a_saved_job_has_its_successor_submitted(work):
    job = _selfcheck(work, "openmpi", "--save-on", "USR1", "--chain", "echo chained | tee again")
    job.running.process.send_signal(signal.SIGUSR1)
    ended = _is_saved(job, "by SIGUSR1")
    check("--chain: chained" in ended.err, ended.err)
    check_equal((work / "again").read_text(), "chained\n", "what the line has done")


@timeout(120)
def test_a_signal_that_is_not_to_save_is_the_jobs(work):
    job = _selfcheck(work, "openmpi", "--save-on", "USR1")
    job.running.process.send_signal(signal.SIGTERM)
    ended = job.running.wait(60)
    check(ended.code not in (0, SAVED), f"exit code {ended.code}\n{ended.err}")
    check("it was told to end (SIGTERM)" in ended.err, ended.err)


def _programs(work, **scripts):
    """Shell scripts that are found before the programs of their names. Returns the PATH."""
    folder = work / "bin"
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text("#!/bin/sh\n" + text)
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@timeout(150)
def test_slurm_tells_the_end_and_queues_the_job_again(work):
    end = int(time.time()) + 20
    path = _programs(
        work, squeue="echo RUNNING\n",
        scontrol=f'echo "$@" >> {work}/asked; echo "JobId=7 TimeLimit=00:01:00 EndTime={end}"\n')
    job = _selfcheck(work, "openmpi", "--requeue",
                     env={"PATH": path, "SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7",
                          "SLURM_ARRAY_TASK_ID": "2", "SLURM_RESTART_COUNT": "1"})
    ended = _is_saved(job, "before the end of its time")
    check("job 7_2 is queued again (restart 2)" in ended.err, ended.err)
    asked = (work / "asked").read_text().split("\n")
    check_equal((asked[0], asked[-2]), ("show job -o 9", "requeue 7_2"), "what Slurm was asked")


@timeout(60)
def test_what_cannot_be_queued_again_is_refused_before_anything_runs(work):
    for env, words in (({}, "no job of a batch system"), ({"PBS_JOBID": "1.server"}, "PBS cannot")):
        answer = fermata.fermata(work, "run", "--requeue", "--", "/bin/true",
                                 env=mpis.environment(FERMATA_DIR=str(work / "fermata"), **env))
        check_equal(answer.code, USAGE, f"exit code\n{answer.err}")
        check(words in answer.err and "hint: --chain" in answer.err, answer.err)
    check(not (work / "fermata").exists(), "something was made")


def _catches(pid, number):
    caught = re.search(r"^SigCgt:\s*(\w+)", process.status(pid), re.M)
    return caught and int(caught[1], 16) >> (number - 1) & 1


@timeout(60)
def test_a_signal_before_anything_runs_is_heard(work):
    """Snapshots that are looked at may take long; here somebody else has the job."""
    place = work / "fermata/job"
    place.mkdir(parents=True)
    for directory in (place.parent, place):
        directory.chmod(0o700)
    with open(place / "lock", "w") as lock:
        os.chmod(lock.fileno(), 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        job = fermata.Job(work)
        job._launch("run", "-n", 1, "--mpi", "openmpi", "--name", "job", "--resume", "--save-on",
                    "TERM", "--chain", "echo chained", "--", "/bin/sh", "-c", "echo it runs")
        pid = job.running.process.pid
        process.wait_until(lambda: _catches(pid, signal.SIGTERM), "a handler")
        os.kill(pid, signal.SIGTERM)
    ended = job.running.wait(40)
    check_equal(ended.code, SAVED, f"exit code\n{ended.err}")
    check("SIGTERM: job job is not run any more" in ended.err, ended.err)
    check("it runs" not in ended.out and "--chain: chained" in ended.err, ended.err)


@timeout(120)
def test_the_signals_of_an_mpirun_that_ends_the_others_save_nothing(work):
    """A rank is killed; Open MPI's mpirun sends SIGTERM to the others, which tell of it."""
    job = _selfcheck(work, "openmpi", "--retries", 1, env={"SLURM_JOB_ID": "1"})
    job.checkpoint()
    os.kill(ranks_of(job)[1], signal.SIGKILL)
    job.running.wait_for("begun again from checkpoint 1 (retry 1 of 1)")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")
    check("saved and stopped" not in job.running.err, job.running.err)
    check("not saved yet" not in job.running.err, job.running.err)


@timeout(120)
def test_a_job_that_was_told_to_end_is_not_begun_again(work):
    """It dies while it is being saved; what was saved before counts."""
    job = _selfcheck(work, "openmpi", "--retries", 3, "--save-on", "TERM")
    job.checkpoint()
    stands = ranks_of(job)[1]
    os.kill(stands, signal.SIGSTOP)
    job.running.process.send_signal(signal.SIGTERM)
    job.running.wait_for("SIGTERM: the job is saved and stopped")
    os.kill(stands, signal.SIGKILL)
    ended = job.running.wait(60)
    check_equal(ended.code, SAVED, f"exit code\n{ended.err}")
    check("it is not begun again: it was told to end" in ended.err, ended.err)
    check("checkpoint 1, " in ended.err and "(retry" not in ended.err, ended.err)
    _finishes(job, "openmpi")


def _guarded(work, save_on, script):
    """A helper under the guard. It is no shell, for Debian's begins with all signals open; orted
    and prted leave them as they are."""
    (work / "job").mkdir()
    script = f"import os, signal, sys, time\n{script}"
    guard = process.Running([fermata.FERMATA, "guard", "--save-on", save_on, "--job-dir",
                             work / "job", "--name", "job", sys.executable, "-c", script], work)
    guard.wait_for("helps")
    return guard


@timeout(60)
def test_the_guard_keeps_signals_from_a_helper(work):
    """And ends as the helper does."""
    guard = _guarded(work, "10,12,15", f"""print("helps", flush=True)
while not os.path.exists({str(work / "end")!r}): time.sleep(0.05)
print(sorted(signal.sigpending()))
sys.stdout.flush()
os._exit(7)""")
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        os.killpg(guard.process.pid, number)
    (work / "end").touch()
    ended = guard.wait(20)
    check_equal(ended.code, 7, "exit code")
    check_equal(re.findall(r"SIG\w+", ended.out), ["SIGUSR1", "SIGUSR2", "SIGTERM"],
                "signals that came and were kept from it")


@timeout(60)
def test_the_guard_hands_on_other_signals(work):
    """Else whoever ends the helper would end the guard alone."""
    guard = _guarded(work, "15", """signal.signal(signal.SIGINT, lambda *_: os._exit(8))
print("helps", flush=True)
while True: time.sleep(0.05)""")
    guard.process.send_signal(signal.SIGINT)
    check_equal(guard.wait(20).code, 8, "exit code")


def generate():
    tests = {}
    in_batch = {"SLURM_JOB_ID": "1"}
    for mpi in mpis.MPIS:
        tests[f"test_a_killed_rank_is_replaced_{mpi}"] = _killed_rank(mpi)
        tests[f"test_a_crash_loop_ends_by_name_{mpi}"] = _crash_loop(mpi)
        tests[f"test_a_death_that_a_peer_finds_is_a_death_{mpi}"] = _found_death(mpi)
        tests[f"test_an_abort_of_its_own_is_not_tried_again_{mpi}"] = _aborts(mpi)
        tests[f"test_it_saves_before_its_time_ends_{mpi}"] = _until(mpi)
        tests[f"test_a_signal_saves_once_{mpi}"] = _signal(
            mpi, signal.SIGTERM, options=("--save-on", "TERM,USR1"))
        tests[f"test_a_batch_system_saves_by_signals_{mpi}"] = _signal(
            mpi, signal.SIGUSR1, env=in_batch)
    return tests
