# SPDX-License-Identifier: Apache-2.0
"""Programs that become another program, or start it and wait: env, numactl, shells, scripts,
Python. Which of them is the rank is the one that asks for MPI; a restart starts it and nothing
else. Name: wrapper_front_first_then_second."""
import shlex

from support import errors, fermata, mpis, process
from support.cases import Skipped, check, check_equal, slow, timeout
from support.python import PYTHON, need_mpi4py

STEPS = 10
RING = """
import subprocess, sys, time
assert subprocess.run(["/bin/echo", "helper"], capture_output=True).stdout == b"helper\\n"
from mpi4py import MPI
world, total = MPI.COMM_WORLD, 0
for step in range(1, int(sys.argv[1]) + 1):
    total = world.allreduce(total % 1000003 + world.rank + step)
    assert subprocess.run(["/bin/echo", "helper"], capture_output=True).stdout == b"helper\\n"
    time.sleep(0.06)
    if world.rank == 0:
        print("step", step, flush=True)
if world.rank == 0:
    print("PASS", total, flush=True)
"""


EXEC = """
import os
from mpi4py import MPI
try:
    os.execv("/bin/echo", ["echo", "gone"])
except PermissionError:
    print("still rank", MPI.COMM_WORLD.rank, flush=True)
"""


def _script(work, name, line, text):
    path = work / name
    path.write_text(f"#!{line}\n{text}\n")
    path.chmod(0o755)
    return path


def _inner(work):
    return str(_script(work, "interpreter", "/bin/sh", '[ "$1" = "a b" ] && shift 2 && exec "$@"'))


def _quote(command):
    return shlex.join(map(str, command))


# What stands before the MPI program: a function of the test's directory and the program's command.
WRAPPERS = {
    "env": lambda work, app: ["env", "WRAPPED=1", *app],
    "bash_exec": lambda work, app: ["bash", "-c", f"true; exec {_quote(app)}"],
    "bash_waits": lambda work, app: ["bash", "-c", f"{_quote(app)} && echo finished > after"],
    "subshell": lambda work, app: [
        "sh", "-c", f"( bash -c '{_quote(app)}; echo inner > inner' && echo finished > after )"],
    "script": lambda work, app: [_script(work, "wrapper", "/bin/sh -e", 'exec "$@"'), *app],
    # The argument of #! is one word with blanks in it; a script's interpreter may be a script.
    "script_of_script": lambda work, app: [
        _script(work, "outer", _inner(work) + " a b", ""), *app],
    "numactl_taskset": lambda work, app: [
        "numactl", "--localalloc", "taskset", "3", *app],
    "nested": lambda work, app: [
        "nice", "-n", "1", "env", "A=1", "sh", "-c", 'exec time -p "$0" "$@"', *app],
    "limits": lambda work, app: ["bash", "-c", f"ulimit -n 1000; umask 027; exec {_quote(app)}"],
    "files": lambda work, app: ["bash", "-c", f"exec 5<> fifth; exec {_quote(app)} 6>&5"],
}


def _app(front, steps=STEPS):
    return [mpis.program(front, "selfcheck"), "--steps", steps, "--step-ms", 60]


def _make(name, front, first, second):
    @timeout(120)
    def test(work):
        job = fermata.Job(work)
        job.start(first, WRAPPERS[name](work, _app(front)))
        fermata.wait_for_step(job, 4)
        job.checkpoint_and_stop()
        check(not (work / "after").exists() and not (work / "inner").exists(),
              "the wrapper continued after the job had been stopped")
        job.restart(second)
        check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")
        check(not (work / "after").exists(), "a restart does not start the wrapper")
    return test


@timeout(90)
def test_wrapper_resumes_when_the_program_ends(work):
    job = fermata.Job(work)
    job.start("mpich", WRAPPERS["bash_waits"](work, _app("mpich", 6)))
    fermata.wait_for_step(job, 2)
    job.checkpoint()
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, 6), "checksum")
    check_equal((work / "after").read_text(), "finished\n", "the line after the program")


@slow
@timeout(150)
def test_a_wrapper_takes_its_time_under_a_foreign_mpirun(work):
    """Nobody but the first rank has started the coordinator, and it meets no agent for a minute."""
    job = fermata.Job(work)
    job.hold.touch()
    environment = mpis.environment(FERMATA_DIR=str(work / "fermata"), CHECK_HOLD=str(job.hold))
    wrapper = _script(work, "wrapper", "/bin/sh", 'sleep 65; "$@"')
    run = process.Running(
        [*mpis.mpirun("mpich", 2), fermata.FERMATA, "exec", "--mpi", "mpich", "--name", "job",
         "--", wrapper, *map(str, _app("mpich"))], work, name="foreign", env=environment, cwd=work)
    run.wait_for("step 2\n", 100)
    fermata.fermata(work, "checkpoint", "job", "--stop").expect_success("checkpoint")
    run.wait(30)
    job.restart("openmpi")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


@timeout(60)
def test_limits_of_the_wrapper_come_back(work):
    def files_max():
        return [line.split()[3] for pid in errors.ranks_of(job)
                for line in open(f"/proc/{pid}/limits", encoding="ascii") if "open files" in line]
    job = fermata.Job(work)
    job.start("openmpi", WRAPPERS["limits"](work, _app("openmpi")))
    fermata.wait_for_step(job, 2)
    check_equal(files_max(), ["1000", "1000"], "limit that the wrapper set")
    job.checkpoint_and_stop()
    job.restart("mpich")
    fermata.wait_for_step(job, 6)
    check_equal(files_max(), ["1000", "1000"], "limit after the restart")
    job.finish()


@timeout(120)
def test_settings_of_wrappers_come_back(work):
    """Twice: the second image is of a process that has been given them by us."""
    def lines(name):
        return [line for pid in errors.ranks_of(job)
                for line in open(f"/proc/{pid}/{name}", encoding="ascii")]

    def check_settings():
        policies = {line.split()[1] for line in lines("numa_maps")}
        check_equal(policies, {"bind:0"}, "policies of all memory")
        check_equal(lines("oom_score_adj"), [f"{score}\n"] * 2, "oom_score_adj")
        for pid in errors.ranks_of(job):
            told = process.run(["ionice", "-p", str(pid)], 30, mpis.environment(), work)
            check_equal(told.out, "idle\n", "I/O priority")

    score = int(open("/proc/self/oom_score_adj", encoding="ascii").read()) + 9
    wrapper = ["numactl", "--membind=0", "ionice", "-c", "3", "choom", "-n", str(score), "--"]
    probe = process.run([*wrapper, "true"], 30, mpis.environment(), work)
    if probe.code != 0:
        raise Skipped(f"numactl, ionice or choom cannot do their work here: {probe.err}")
    job = fermata.Job(work)
    job.start("openmpi", [*wrapper, *_app("openmpi")])
    fermata.wait_for_step(job, 2)
    check_settings()
    for hop, mpi in enumerate(("mpich", "openmpi")):
        job.checkpoint_and_stop()
        job.restart(mpi)
        fermata.wait_for_step(job, 4 + 2 * hop)
        check_settings()
    job.finish()


@timeout(60)
def test_status_and_arguments_come_through(work):
    """No MPI at all: what a shell does with its commands is what it does natively."""
    script = ('echo "$0|$1|$2"; false || echo "status $?"; /bin/sh -c "exit 7"; echo "status $?"; '
              "no-such-program; echo \"status $?\"; ./data; echo \"status $?\"; "
              "echo piped | cat | tr a-z A-Z; readlink /proc/self/exe; exec env -i A=b env")
    (work / "data").write_text("no program")
    (work / "data").chmod(0o644)
    command = ["bash", "-c", script, "zero", "one two", ""]
    native = process.run(command, 30, mpis.environment(), work)
    ours = fermata.fermata(work, "run", "-n", 1, "--mpi", "openmpi", "--", *command)
    check_equal(ours.out, native.out, "what a shell prints")
    check_equal(ours.code, native.code, "exit code")


def _make_python(first, second):
    @timeout(120)
    def test(work):
        need_mpi4py(work)
        script = work / "ring.py"
        script.write_text(f"#!/usr/bin/env -S {PYTHON}\n{RING}")
        script.chmod(0o755)
        expected = mpis.checksum(mpis.native("openmpi", [script, STEPS], 2, work).out)
        job = fermata.Job(work)
        job.start(first, [script, STEPS])
        fermata.wait_for_step(job, 4)
        job.checkpoint_and_stop()
        job.restart(second)
        check_equal(mpis.checksum(job.finish()), expected, "sum")
    return test


@timeout(60)
def test_exec_of_a_rank_is_refused_to_it(work):
    need_mpi4py(work)
    ours = fermata.fermata(work, "run", "-n", 1, "--mpi", "mpich", "--", PYTHON, "-c", EXEC)
    check_equal((ours.code, ours.out), (0, "still rank 0\n"), f"code and output\n{ours.err}")
    check("rank 0" in ours.err and "/bin/echo" in ours.err and "hint" in ours.err, ours.err)


def generate():
    tests = {}
    for name in WRAPPERS:
        for front, other in (mpis.MPIS, mpis.MPIS[::-1]):
            tests[f"test_{name}_{front}_{front}_then_{other}"] = _make(name, front, front, other)
            tests[f"test_{name}_{front}_{other}_then_{front}"] = slow(
                _make(name, front, other, front))
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        tests[f"test_mpi4py_{first}_then_{second}"] = _make_python(first, second)
    return tests
