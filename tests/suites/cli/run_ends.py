# SPDX-License-Identifier: Apache-2.0
"""How runs end: 0 is for jobs that have ended well, and of any other end the last line says what is
saved, how old it is, and the command that continues, which works where it is read."""
import os
import re
import shlex
import signal

from support import fermata, mpis, process
from support.cases import check, check_equal, timeout
from support.errors import ranks_of

STEPS = 30
LAST = re.compile(r"^  hint: checkpoint (\d+), \d+ \w+ old, is saved; continue with: (fermata .*)$")


def _last_line(result):
    return result.err.rstrip().split("\n")[-1]


def _resume(result, epoch):
    """The command of the last line."""
    match = LAST.match(_last_line(result))
    check(match, f"the last line says how to continue:\n{result.err}")
    check_equal(int(match[1]), epoch, "the checkpoint that is named")
    return match[2]


def _elsewhere(work, command):
    """Runs a command that was read in a log: from another directory, and without $FERMATA_DIR."""
    env = mpis.environment(PATH=f"{fermata.FERMATA.parent}:{os.environ['PATH']}")
    env.pop("FERMATA_DIR", None)
    env.pop("CHECK_HOLD", None)
    elsewhere = work / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    return process.run(shlex.split(command), 60, env, elsewhere)


def _selfcheck(work, mpi, env=None):
    job = fermata.Job(work)
    job.start(mpi, [mpis.program(mpi, "selfcheck"), "--steps", STEPS, "--step-ms", 20],
              env=env)
    fermata.wait_for_step(job, 2)
    return job


def _leaves(mpi, how, everybody):
    @timeout(120)
    def test(work):
        job = fermata.Job(work)
        words = ["--all"] if everybody else []
        job.start(mpi, [mpis.program(mpi, "leaves"), "--how", how, *words])
        fermata.wait_for_step(job, 2)
        job.checkpoint()
        job.release()
        ended = job.running.wait(60)
        check(ended.code != 0, f"exit code 0\n{ended.err}")
        check("job job has not ended well: " in ended.err, ended.err)
        _resume(ended, 1)
    return test


def _killed(mpi):
    @timeout(150)
    def test(work):
        job = _selfcheck(work, mpi)
        job.checkpoint()
        os.kill(ranks_of(job)[1], signal.SIGKILL)
        ended = job.running.wait(60)
        check(ended.code != 0, f"exit code 0\n{ended.err}")
        job.release()
        again = _elsewhere(work, _resume(ended, 1)).expect_success("the command of the last line")
        check_equal(mpis.checksum(again.out), mpis.expected("selfcheck", 2, STEPS), "checksum")
    return test


@timeout(90)
def test_nothing_is_saved_of_a_job_that_was_not(work):
    job = _selfcheck(work, "openmpi")
    job.running.process.send_signal(signal.SIGTERM)
    ended = job.running.wait(60)
    check(ended.code != 0, "exit code")
    check("has not ended well: it was told to end (SIGTERM)" in ended.err, ended.err)
    check_equal(_last_line(ended), "  hint: nothing of it is saved; start it again", "last line")


@timeout(120)
def test_a_job_that_ended_well_is_not_to_be_done_again(work):
    """Neither its run nor any command says how to continue."""
    job = _selfcheck(work, "mpich")
    job.checkpoint()
    job.finish()
    check_equal(job.running.err, "", "what the run said")
    late = fermata.fermata(work, "checkpoint", "job")
    anew = fermata.fermata(work, "run", "-n", 2, "--name", "job", "--mpi", "mpich", "--",
                           mpis.program("mpich", "selfcheck"))
    for answer, words in ((late, "has come to its end"), (anew, "another --name")):
        check_equal(answer.code, 3, "exit code")
        check(words in answer.err and "fermata restart" not in answer.err, answer.err)


@timeout(150)
def test_a_job_that_ends_while_it_is_saved_is_not_to_be_done_again(work):
    """The writer of an image is slow; the job runs on meanwhile, and comes to its end."""
    job = _selfcheck(work, "openmpi")
    job.checkpoint_and_stop()
    job.restart("openmpi", under=["env", "FERMATA_FAULT=writer-flush@1=sleep:100000"])
    fermata.wait_for_step(job, 4)
    waiting = process.Running([fermata.FERMATA, "checkpoint", "job"], work, name="waiting",
                              env=mpis.environment(FERMATA_DIR=str(work / "fermata")), cwd=work)
    process.wait_until(lambda: process.descendants(ranks_of(job)[1]), "the writer")
    job.finish()
    answer = waiting.wait(40)
    check_equal(answer.code, 1, "exit code of the checkpoint")
    check("checkpoint 2 failed" in answer.err and "fermata restart" not in answer.err, answer.err)


@timeout(150)
def test_hints_work_where_they_are_read(work):
    """A command without the job's directory in its surroundings names it."""
    job = _selfcheck(work, "openmpi")
    job.checkpoint_and_stop()
    said = r"stopped at checkpoint 1; continue with: (fermata restart .*)"
    line = re.search(said, job.running.err)
    check(line, job.running.err)
    job.release()
    hint = re.search(r"hint: (fermata restart .*)", fermata.fermata(work, "checkpoint", "job").err)
    check_equal(hint[1], line[1], "the hint of `checkpoint`")
    again = _elsewhere(work, hint[1]).expect_success("the command of the hint")
    check_equal(mpis.checksum(again.out), mpis.expected("selfcheck", 2, STEPS), "checksum")


@timeout(150)
def test_a_batch_job_is_told_of_no_keys(work):
    """It has no terminal. What it is told to do instead does it."""
    job = _selfcheck(work, "openmpi", env={"FERMATA_FAULT": "commit-flush=sleep:90000",
                                           "SLURM_JOB_ID": "1"})
    saving = process.Running([fermata.FERMATA, "checkpoint", "job"], work, name="saving",
                             env=mpis.environment(FERMATA_DIR=str(work / "fermata")), cwd=work)
    job.running.wait_for("fault: commit-flush=sleep")
    job.release()
    job.running.wait_for("breaks that off")
    check("Ctrl-C" not in job.running.err, job.running.err)
    hint = re.search(r"hint: (kill \d+) breaks that off", job.running.err)
    check(hint, job.running.err)
    process.run(["sh", "-c", hint[1]]).expect_success(hint[1])
    check_equal(mpis.checksum(job.running.wait(30).out), mpis.expected("selfcheck", 2, STEPS),
                "checksum")
    check(saving.wait(30).code != 0, "a checkpoint that was broken off")


def generate():
    tests = {}
    for mpi in mpis.MPIS:
        for how in ("exit", "return", "abort", "kill"):
            for everybody in (False, True):
                who = "all_ranks" if everybody else "a_rank"
                tests[f"test_{how}_without_finalize_of_{who}_is_no_good_end_{mpi}"] = _leaves(
                    mpi, how, everybody)
        tests[f"test_a_killed_rank_is_no_good_end_and_the_job_resumes_{mpi}"] = _killed(mpi)
    return tests
