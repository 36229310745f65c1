# SPDX-License-Identifier: Apache-2.0
"""The MPI library is loaded by a thread other than the main one, which waits for it and never calls
MPI: a program in C, and Java, whose main() runs in such a thread.
Name: test_program_front_first_then_second."""
import pathlib
import shutil

from support import fermata, mpis, process
from support.cases import Skipped, check_equal, timeout

STEPS = 12
PROGRAMS = {"by_a_thread": [], "by_a_thread_without_threads": ["--single"]}


def _save_and_restart(job, first, second, command):
    """Saved while it continues, saved and stopped, and restarted."""
    job.start(first, command)
    fermata.wait_for_step(job, 3)
    job.checkpoint()
    fermata.wait_for_step(job, 6)
    job.checkpoint_and_stop()
    job.restart(second)
    return mpis.checksum(job.finish())


def _make(front, first, second, extra):
    @timeout(120)
    def test(work):
        command = [mpis.program(front, "loaded_by_thread"), *extra, "--steps", STEPS]
        expected = mpis.checksum(mpis.native(front, command, 2, work).expect_success("native").out)
        job = fermata.Job(work)
        found = _save_and_restart(job, first, second, [*command, "--step-ms", 60])
        check_equal(found, expected, "checksum")
    return test


def _java(front, work):
    """Compiles the program; its command."""
    compiler = shutil.which("javac")
    if not compiler:
        raise Skipped("javac is not installed (default-jdk-headless)")
    home = pathlib.Path(compiler).resolve().parents[1]
    source = mpis.ROOT / "tests/programs/java"
    process.run([compiler, "-d", work, source / "Ranks.java"]).expect_success("javac")
    process.run([f"mpicc.{front}", "-shared", "-fPIC", f"-I{home}/include",
                 f"-I{home}/include/linux", "-o", work / "ranks.so", source / "ranks.c"]
                ).expect_success("mpicc")
    return [home / "bin/java", "-Xmx64m", "-cp", work, "Ranks", work / "ranks.so", STEPS]


def _make_java(front, first, second):
    @timeout(180)
    def test(work):
        command = _java(front, work)
        native = mpis.native(front, command, 2, work, env={"CHECK_HOLD": str(work / "none")})
        expected = mpis.checksum(native.expect_success("native").out)
        found = _save_and_restart(fermata.Job(work), first, second, command)
        check_equal(found, expected, "checksum")
    return test


def generate():
    tests = {}
    for front in mpis.MPIS:
        other = mpis.OTHER[front]
        for name, extra in PROGRAMS.items():
            tests[f"test_{name}_{front}_{front}_then_{other}"] = _make(front, front, other, extra)
        tests[f"test_java_{front}_{front}_then_{other}"] = _make_java(front, front, other)
    return tests
