# SPDX-License-Identifier: Apache-2.0
"""Checkpoint-aware programs (fermata.h): natively, under Fermata, and restarted under the other
MPI."""
import functools
import re
import subprocess
import time

from support import fermata, mpis
from support.cases import check, check_equal, timeout

STEPS = 8


def _command(mpi, mode, step_ms=40):
    return [mpis.program(mpi, "user_api"), "--mode", mode, "--steps", STEPS, "--step-ms", step_ms]


def _expected():
    return mpis.expected("user_api", 2, STEPS)


def _start(work, mpi, mode):
    job = fermata.Job(work)
    job.start(mpi, _command(mpi, mode))
    return job


def _signal(job, suffix):
    """Lets the program continue (tests/programs/api/user_api.c)."""
    job.hold.with_name(f"{job.hold.name}.{suffix}").touch()


def _fails(job, words):
    """A checkpoint that its deadline ends; the message has these words."""
    result = fermata.fermata(job.work, "checkpoint", job.name, "--timeout", "2s")
    check(result.code != 0, "the checkpoint was taken in spite of the section")
    for word in words:
        check(word in result.err, f"{word!r} is not in {result.err!r}")


def _native(mpi):
    def test(work):
        for mode in ("present", "section", "owed", "now", "soon", "regions", "main", "own",
                     "misuse", "message", "thread"):
            out = mpis.native(mpi, _command(mpi, mode, 0), 2, work).expect_success(mode).out
            check("version none\n" in out, f"no Fermata: {out!r}")
            check_equal(mpis.checksum(out), _expected(), f"checksum with --mode {mode}")
    return test


def _section_owed(mpi):
    """A rank that is held back in a section waits for a rank that could park: it has to run on."""
    @timeout(120)
    def test(work):
        job = _start(work, mpi, "owed")
        job.running.wait_for("rank 1: inside 1\n", 60)
        taken = fermata.as_json(fermata.fermata(work, "--json", "checkpoint", "job", "--stop"))
        check_equal(taken["figures"]["attempts"], 1, "attempts")
        job.running.wait(30)
        job.restart(mpis.OTHER[mpi])
        check_equal(mpis.checksum(job.finish()), _expected(), "checksum")
    return test


def _present(mpi):
    def test(work):
        job = _start(work, mpi, "present")
        version = fermata.fermata(work, "--version").out.split()[-1]
        check(f"version {version}\n" in job.finish(), "the version that `fermata --version` tells")
    return test


def _section(mpi):
    @timeout(120)
    def test(work):
        job = _start(work, mpi, "section")
        job.running.wait_for("rank 1: inside 1\n", 60)
        _fails(job, ["rank 1 is in a critical section (moving the mesh)", "the job continues"])
        _signal(job, "leave")
        job.running.wait_for("rank 1: left 1\n", 60)
        _fails(job, ["rank 1 is in a critical section"])
        # One that is asked for inside waits for the end.
        waiting = subprocess.Popen([fermata.FERMATA, "checkpoint", "job", "--stop"], cwd=work,
                                   env=mpis.environment(FERMATA_DIR=str(work / "fermata")))
        time.sleep(1)
        check(waiting.poll() is None, "the checkpoint was taken in spite of the section")
        _signal(job, "leave_thread")
        check_equal(waiting.wait(30), 0, "exit code of the checkpoint")
        job.running.wait(30)
        job.restart(mpis.OTHER[mpi])
        check_equal(mpis.checksum(job.finish()), _expected(), "checksum")
    return test


def _results(text):
    return sorted(re.findall(r"^rank (\d): (committed|restarted|failed|absent) ", text, re.M))


def _restarted(job, mpi):
    """Continues elsewhere from the checkpoint that the program asked for. Returns what it
    printed."""
    job.restart(mpis.OTHER[mpi])
    text = job.finish()
    check_equal(_results(text), [("0", "restarted"), ("1", "restarted")], "results")
    return text


def _now(mode, mpi):
    @timeout(120)
    def test(work):
        """Committed here, restarted there."""
        job = _start(work, mpi, mode)
        fermata.wait_for_step(job, 3)
        check_equal(_results(job.running.out), [("0", "committed"), ("1", "committed")], "results")
        (snapshot,) = job.snapshots()
        check(f"because: checkpoint {snapshot.name} is committed: {snapshot}" in job.running.out,
              "the message names the snapshot")
        check_equal(mpis.checksum(job.finish()), _expected(), "checksum")
        check_equal(mpis.checksum(_restarted(job, mpi)), _expected(), "checksum")
    return test


def _now_late(mpi):
    @timeout(120)
    def test(work):
        """Another checkpoint finds one rank inside and one not: after its restart both ask."""
        job = fermata.Job(work)
        job.hold.with_name("job.hold.late").touch()
        job.start(mpi, _command(mpi, "now"))
        fermata.wait_for_step(job, 2)
        time.sleep(0.5)
        job.checkpoint_and_stop()
        check_equal(_results(job.running.out), [], "results")
        job.restart(mpis.OTHER[mpi])
        time.sleep(0.5)
        _signal(job, "leave")
        fermata.wait_for_step(job, 3)
        check_equal(_results(job.running.out), [("0", "committed"), ("1", "committed")], "results")
        check_equal(len(job.snapshots()), 2, "snapshots")
        check_equal(mpis.checksum(job.finish()), _expected(), "checksum")
    return test


def _soon(mpi):
    @timeout(120)
    def test(work):
        job = _start(work, mpi, "soon")
        until = time.monotonic() + 30
        while not job.snapshots() and time.monotonic() < until:
            time.sleep(0.02)
        check_equal(len(job.snapshots()), 1, "snapshots")
        check_equal(mpis.checksum(job.finish()), _expected(), "checksum")
        job.restart(mpis.OTHER[mpi])
        check_equal(mpis.checksum(job.finish()), _expected(), "checksum")
    return test


def _regions(mpi):
    @timeout(120)
    def test(work):
        job = _start(work, mpi, "regions")
        fermata.wait_for_step(job, 3)
        small = fermata.snapshot_bytes(fermata.newest_snapshot(job))
        check(small < 8 << 20, f"{small} bytes hold the excluded memory")
        check_equal(mpis.checksum(job.finish()), _expected(), "checksum")
        first, second = job.snapshots()
        check(fermata.snapshot_bytes(second) > 32 << 20, "memory that is included again")
        for snapshot in (second, first):
            result = fermata.fermata(work, "restart", snapshot, "--mpi", mpis.OTHER[mpi])
            text = result.expect_success("restart").out
            check_equal(mpis.checksum(text), _expected(), "checksum")
    return test


def _check_calls(text, restarts):
    """Each BEFORE has had its end, in both ranks."""
    lines = re.findall(r"^rank (\d): calls (\d+) (\d+) (\d+)$", text, re.M)
    newest = {rank: tuple(map(int, counts)) for rank, *counts in lines}
    check_equal(len(newest), 2, "ranks")
    for before, resumed, restarted in newest.values():
        check(before == resumed + restarted and resumed > 0 and restarted == restarts, str(newest))


def _callbacks(mode, mpi):
    @timeout(120)
    def test(work):
        job = _start(work, mpi, mode)
        fermata.wait_for_step(job, 4)
        _check_calls(job.running.out, restarts=0)
        job.checkpoint_and_stop()
        job.restart(mpis.OTHER[mpi])
        text = job.finish()
        _check_calls(text, restarts=1)
        check_equal(mpis.checksum(text), _expected(), "checksum")
    return test


def _callbacks_busy(mpi):
    @timeout(120)
    def test(work):
        """A rank with callbacks on its main thread is not stopped outside MPI."""
        job = fermata.Job(work)
        job.hold.with_name("job.hold.late").touch()
        job.start(mpi, _command(mpi, "main"))
        job.running.wait_for("rank 1: computes 1\n", 60)
        _fails(job, ["rank 1 has not called its callbacks to the end", "the job continues"])
        _signal(job, "leave")
        fermata.wait_for_step(job, 4)
        _check_calls(job.running.out, restarts=0)
        check_equal(mpis.checksum(job.finish()), _expected(), "checksum")
    return test


def _misuse(mpi):
    @timeout(120)
    def test(work):
        job = _start(work, mpi, "misuse")
        text = job.finish()
        check_equal(_results(text), [("0", "committed"), ("1", "committed")], "results")
        check_equal(mpis.checksum(text), _expected(), "checksum")
        check_equal(mpis.checksum(_restarted(job, mpi)), _expected(), "checksum")
    return test


def _languages(work):
    """The header is what it says: C89 and later, and C++."""
    source = work / "header.c"
    source.write_text("#include <fermata.h>\n#include <fermata.h>\n"
                      "int main(void) { return fermata_request() == FERMATA_ABSENT ? 0 : 1; }\n")
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", mpis.BUILD / "include"]
    for language, standard in (("c", "c89"), ("c", "c99"), ("c", "c17"), ("c++", "c++98"),
                               ("c++", "c++20")):
        program = work / standard
        subprocess.run(["g++" if language == "c++" else "gcc", "-x", language, f"-std={standard}",
                        *warnings, "-o", program, source], check=True)
        check_equal(subprocess.run([program]).returncode, 0, f"natively, {standard}")


def _fortran(mpi):
    @timeout(120)
    def test(work):
        program = mpis.program(mpi, "fortran/user_api")
        out = mpis.native(mpi, [program], 2, work).expect_success("natively").out
        check("version none\n" in out and "PASS fortran" in out, f"no Fermata: {out!r}")
        check('state ""\n' in out, f"nothing to continue from: {out!r}")
        job = fermata.Job(work)
        job.start(mpi, [program])
        text = job.finish()
        check_equal(_results(text), [("0", "committed"), ("1", "committed")], "results")
        text = _restarted(job, mpi)
        check("PASS fortran" in text, f"the end: {text!r}")
    return test


def generate():
    families = {"native": _native, "present": _present, "section": _section,
                "section_owed": _section_owed,
                "now": functools.partial(_now, "now"), "now_late": _now_late,
                "message": functools.partial(_now, "message"),
                "thread": functools.partial(_now, "thread"), "soon": _soon, "regions": _regions,
                "callbacks_main": functools.partial(_callbacks, "main"),
                "callbacks_own": functools.partial(_callbacks, "own"),
                "callbacks_busy": _callbacks_busy, "misuse": _misuse, "fortran": _fortran}
    tests = {f"test_{name}_{mpi}": make(mpi) for name, make in families.items()
             for mpi in mpis.MPIS}
    return tests | {"test_languages": _languages}
