# SPDX-License-Identifier: Apache-2.0
"""What a run does when its end is near: a rank is killed, a signal comes, its time ends. Batch
systems are played by programs of their names that are found first."""
import os
import re
import signal
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


@timeout(60)
def test_the_guard_keeps_signals_from_a_helper(work):
    """And ends as the helper does."""
    (work / "job").mkdir()
    script = f"echo $$ > {work}/pid; until [ -e {work}/end ]; do sleep 0.05; done; exit 7"
    guard = process.Running([fermata.FERMATA, "guard", "--save-on", "10,12,15", "--job-dir",
                             work / "job", "--name", "job", "sh", "-c", script], work)
    process.wait_until(lambda: (work / "pid").exists() and (work / "pid").read_text().strip(),
                       "the helper")
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        os.killpg(guard.process.pid, number)
    time.sleep(0.3)
    check(guard.process.poll() is None, "the guard has ended")
    (work / "end").touch()
    check_equal(guard.wait(20).code, 7, "exit code")


def generate():
    tests = {}
    in_batch = {"SLURM_JOB_ID": "1"}
    for mpi in mpis.MPIS:
        tests[f"test_a_killed_rank_is_replaced_{mpi}"] = _killed_rank(mpi)
        tests[f"test_a_crash_loop_ends_by_name_{mpi}"] = _crash_loop(mpi)
        tests[f"test_it_saves_before_its_time_ends_{mpi}"] = _until(mpi)
        tests[f"test_a_signal_saves_once_{mpi}"] = _signal(
            mpi, signal.SIGTERM, options=("--save-on", "TERM,USR1"))
        tests[f"test_a_batch_system_saves_by_signals_{mpi}"] = _signal(
            mpi, signal.SIGUSR1, env=in_batch)
    return tests
