# SPDX-License-Identifier: Apache-2.0
"""Programs that save themselves (`--checkpointer self`): Fermata coordinates and restarts."""
import re
import time

from support import fermata, mpis, process
from support.cases import check, check_equal, timeout

STEPS = 40


def _start(work, mpi, mode="fine", checkpointer="self"):
    job = fermata.Job(work)
    command = [mpis.program(mpi, "app_level"), "--mode", mode, "--steps", STEPS, "--step-ms", 40]
    job.start(mpi, command, options=["--checkpointer", checkpointer, "--keep", 3])
    return job


def _expected():
    return mpis.expected("app_level", 2, STEPS)


def _results(text, step):
    """What the ranks were told in this step."""
    return sorted(re.findall(rf"^rank (\d): (.*) in step {step}: .*$", text, re.M))


def _restart(mpi):
    @timeout(120)
    def test(work):
        """A command asks, the program saves itself at its next chance, the other MPI continues."""
        job = _start(work, mpi)
        fermata.wait_for_step(job, 4)
        job.checkpoint_and_stop()
        snapshot = fermata.newest_snapshot(job)
        names = sorted(path.name for path in snapshot.iterdir())
        check_equal(names, ["manifest.json", "program"], "what is in the snapshot")
        out = fermata.fermata(work, "verify", job.name).expect_success("verify").out
        check("3 files of the program's own" in out, out)
        saved = int((snapshot / "program/step-0").read_text())
        job.restart(mpis.OTHER[mpi])
        text = job.finish()
        resumes = sorted(re.findall(r"^rank (\d) continues after step (\d+)$", text, re.M))
        check_equal(resumes, [("0", str(saved)), ("1", str(saved))], "where it continues")
        check_equal(mpis.checksum(text), _expected(), "checksum")
        check(len(job.snapshots()) == 3, "the restarted job saves itself, and three are kept")
    return test


def _fortran(mpi):
    @timeout(120)
    def test(work):
        """The module's functions; this program leaves no file and begins again."""
        job = fermata.Job(work)
        program = mpis.program(mpi, "fortran/user_api")
        job.start(mpi, [program], options=["--checkpointer", "self"])
        check("PASS fortran" in job.finish(), "the end")
        (snapshot,) = job.snapshots()
        job.restart(mpis.OTHER[mpi])
        text = job.finish()
        check(f'state "{snapshot}/program"\n' in text, f"{snapshot} is not in {text!r}")
    return test


def _native(mpi):
    @timeout(120)
    def test(work):
        """The same program as any other: its own function is not called."""
        job = _start(work, mpi, checkpointer="native")
        fermata.wait_for_step(job, 5)
        check_equal(_results(job.running.out, 3), [("0", "committed"), ("1", "committed")], "here")
        while (stop := fermata.fermata(work, "checkpoint", job.name, "--stop")).code != 0:
            check("is already being taken" in stop.err, stop.err)  # the program asks as well
        job.running.wait(60)
        check_equal(len(fermata.images(fermata.newest_snapshot(job))), 2, "images")
        job.restart(mpis.OTHER[mpi])
        text = job.finish()
        check("continues after" not in text, "the process itself continued")
        check_equal(mpis.checksum(text), _expected(), "checksum")
    return test


def _refused(mode, words):
    """The program cannot save itself, or not always: all ranks are told why, the job continues."""
    def family(mpi):
        @timeout(120)
        def test(work):
            job = _start(work, mpi, mode)
            text = job.finish()
            answers = re.findall(r"^rank \d: not saved in step 6: (.*)$", text, re.M)
            check_equal(len(answers), 2, "ranks that were told")
            check(words in answers[0] and answers[0] == answers[1], str(answers))
            check_equal(mpis.checksum(text), _expected(), "checksum")
            if mode == "fails":
                check_equal([p.name for p in job.snapshots()], ["1"], "snapshots that are kept")
                job.restart(mpis.OTHER[mpi])
                check_equal(mpis.checksum(job.finish()), _expected(), "checksum")
            else:
                check_equal(job.snapshots(), [], "snapshots")
        return test
    return family


def _killed(mpi):
    @timeout(120)
    def test(work):
        """It dies while it saves itself: the snapshot before is the latest."""
        job = _start(work, mpi, "slow")
        leave = job.hold.with_name("job.hold.leave")
        leave.touch()
        fermata.wait_for_step(job, 4)
        leave.unlink()
        saves = job.running.out.count("rank 1 saves\n")
        until = time.monotonic() + 10
        while job.running.out.count("rank 1 saves\n") == saves and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.3)
        before = [snapshot.name for snapshot in job.snapshots()]
        late = fermata.fermata(work, "checkpoint", job.name, "--timeout", "1s")
        check(late.code != 0 and "is already being taken" in late.err, late.err)
        process.kill_tree(job.running.process.pid)
        job.running.wait(30)
        check_equal([snapshot.name for snapshot in job.snapshots()], before, "snapshots")
        job.restart(mpis.OTHER[mpi])
        check_equal(mpis.checksum(job.finish()), _expected(), "checksum")
    return test


def _deaf(work):
    """A program that has never heard of it is waited for until the deadline, and runs on."""
    job = fermata.Job(work)
    command = [mpis.program("mpich", "collective"), "--steps", STEPS, "--step-ms", 20]
    job.start("mpich", command, options=["--checkpointer", "self"])
    fermata.wait_for_step(job, 2)
    result = fermata.fermata(work, "checkpoint", job.name, "--timeout", "1s")
    check(result.code != 0 and "ranks 0, 1 have not called it in time" in result.err, result.err)
    check_equal(mpis.checksum(job.finish()), mpis.expected("collective", 2, STEPS), "checksum")


def _options(work):
    """What makes no sense together."""
    program = mpis.program("mpich", "app_level")
    for options, words in ((["--checkpointer", "other"], "it is native or self"),
                           (["--checkpointer", "self", "--local-dir", work], "--local-dir")):
        result = fermata.fermata(work, "run", *options, "--", program)
        check(result.code == 2 and words in result.err, f"{options}: {result.code} {result.err}")


def generate():
    families = {"restart": _restart, "native": _native, "killed": _killed, "fortran": _fortran,
                "fails": _refused("fails", "rank 1: the program's own function has returned 7"),
                "incapable": _refused("incapable", "rank 1 has not called fermata_self_save"),
                "link": _refused("link", "it is neither a file nor a directory")}
    tests = {f"test_{name}_{mpi}": make(mpi) for name, make in families.items()
             for mpi in mpis.MPIS}
    return tests | {"test_deaf": _deaf, "test_options": _options}
