# SPDX-License-Identifier: Apache-2.0
"""MPI programs whose collectives survive dead processes (lib/ftcoll/mpi): without deaths they give
what the MPI gives, and with processes that are killed those who live agree and come to their end.
More of it: ./x kills."""
import functools
import os
import re
import time

from support import fermata, kills, mpis, process
from support.cases import check, check_equal, slow, timeout

PRELOADED = "libftcoll_mpi.so"


def _lines(*calls):
    """As a process writes them: (value, missing) of each call."""
    return [[f"{call} 0 {value:x} {missing:x}", "5"] for call, (value, missing) in enumerate(calls)]


def test_differences_are_seen(_work):
    both, first = (3, 0), (1, 2)
    for said, different in (
            ([_lines(both, both), _lines(both, both)], 0),
            ([_lines(both, first), _lines(both, both)], 1),  # not the same
            ([_lines(both, (2, 0)), _lines(both, (2, 0))], 1),  # the same, and wrong
            ([_lines(both, first, first), _lines(both, both)], 0),  # the last of one who died
            ([_lines(first, first, first), _lines(both, both)], 1)):
        outcome = kills.Outcome()
        kills.judge(dict(enumerate(said)), 2, False, outcome)
        check_equal(outcome.different, different, f"differences of {said}")


def _compare(mpi, ranks, transport="tcp"):
    @timeout(200)
    def test(work):
        command = [*mpis.mpirun(mpi, ranks), kills.program(mpi, "compare")]
        env = kills.environment(**kills.over(transport))
        result = process.run(command, 180, env=env, cwd=work)
        result.expect_success(f"compare on {mpi}")
        found = re.search(r"(\d+) calls compared, (\d+) differ", result.out)
        check(found, f"it said {result.out!r}")
        check_equal(int(found[2]), 0, "calls that differ")
        check(int(found[1]) > 1000, "hundreds of calls of each kind")
    return test


@timeout(100)
def test_without_ucx_who_asks_for_it_is_told(work):
    """TCP does not take its place unasked."""
    env = kills.environment(FTCOLL_TRANSPORT="ucx", FTCOLL_CARRIER="/nowhere")
    command = [*mpis.mpirun("mpich", 2), kills.program("mpich", "compare")]
    result = process.run(command, 80, env=env, cwd=work)
    check(result.code != 0, "the job ended well")
    check("UCX cannot be used: /nowhere" in result.err, result.err)
    check("FTCOLL_TRANSPORT=tcp" in result.err, result.err)


def _killed(mpi, ranks, calls, count, is_mixed, transport="tcp"):
    @timeout(300)
    def test(work):
        seed = int(os.environ.get("FERMATA_SEED", time.time_ns() % 1_000_000))
        outcome = kills.run(mpi, work / "calls", seed, ranks, calls, count, is_mixed, transport)
        kills.expect_good(outcome, f"{ranks} processes under {mpi}, seed {seed}")
        check_equal(outcome.calls, calls, "calls")
        check_equal(outcome.killed, count, "killed")
    return test


def _progress(mpi, under_fermata):
    """The MPI makes progress while a process waits in a call that survives."""
    @timeout(200)
    def test(work):
        path = kills.program(mpi, "progress")
        if under_fermata:
            command = [fermata.FERMATA, "run", "--mpi", mpi, "-n", 3, "--name", "job", path]
        else:
            command = [*mpis.mpirun(mpi, 3), path]
        env = kills.environment(FERMATA_DIR=str(work / "fermata"))
        result = process.run(command, 180, env=env, cwd=work).expect_success("progress")
        check("the longest of 12 rounds" in result.out, f"it said {result.out!r}")
    return test


def _start(mpi, ranks, name, work, **more):
    command = [*kills.surviving(mpi, ranks), kills.program(mpi, name)]
    return process.Running(command, work, env=kills.environment(**more), cwd=work)


def _kill(mpi, running, name, rank):
    find = functools.partial(kills.ranks_of, mpi, program=kills.program(mpi, name))
    check(kills.kill(find, running, rank), f"rank {rank} lives")


def _monte_carlo(mpi):
    @timeout(300)
    def test(work):
        # mpirun loads it too, and calls nothing of it.
        preload = str(kills.LIBRARY / mpi / PRELOADED)
        running = _start(mpi, 3, "monte_carlo", work, LD_PRELOAD=preload, FTCOLL_MARK="world")
        running.wait_for("300000000 points of 3 processes", 200)
        _kill(mpi, running, "monte_carlo", 0)
        result = running.wait(200).expect_success("monte_carlo")
        check("1000000000 points of 2 processes" in result.out, f"it said {result.out!r}")
        check(result.out.count("pi is about 3.14") == 5, f"it said {result.out!r}")
    return test


def _jacobi(mpi):
    @timeout(300)
    def test(work):
        running = _start(mpi, 4, "jacobi", work)
        for rank, said in ((1, "250 iterations"), (0, "500 iterations")):
            running.wait_for(said, 100)
            _kill(mpi, running, "jacobi", rank)
        result = running.wait(250).expect_success("jacobi")
        check("2 of 4 processes to the end" in result.out, f"it said {result.out!r}")
    return test


def _fortran(mpi, way):
    """Rank 1 of four kills itself; the others have the same calls before and after it."""
    @timeout(200)
    def test(work):
        command = [*kills.surviving(mpi, 4), kills.program(mpi, f"fortran_{way}")]
        result = process.run(command, 180, env=kills.environment(), cwd=work)
        said = sorted(re.findall(r"rank (\d) is content", result.out))
        check_equal(said, ["0", "2", "3"], f"ranks that found all well\n{result.out}{result.err}")
    return test


def _persistent(mpi):
    """Rank 1 of four kills itself while persistent calls are in progress."""
    @timeout(200)
    def test(work):
        command = [*kills.surviving(mpi, 4), kills.program(mpi, "persistent"), 200, 1]
        result = process.run(command, 180, env=kills.environment(), cwd=work)
        said = sorted(re.findall(r"rank (\d) is content", result.out))
        check_equal(said, ["0", "2", "3"], f"ranks that found all well\n{result.out}{result.err}")
    return test


def _persistent_saved(mpi, other):
    """They are saved in progress, and end under the other MPI."""
    @timeout(300)
    def test(work):
        job = fermata.Job(work)
        job.start(mpi, [kills.program(mpi, "persistent"), 2000, -1], 4, kills.environment(),
                  ["--survive"])
        job.running.wait_for("round 100", 100)
        job.checkpoint()
        job.checkpoint_and_stop()
        _restart(job, other)
        result = job.running.wait(200).expect_success("the job")
        check_equal(result.out.count("is content"), 4, f"ranks that found all well\n{result.out}")
    return test


def _under_fermata(mpi, killed):
    """fermata run --survive: of four ranks these are killed, one after the other."""
    @timeout(300)
    def test(work):
        said = work / "calls"
        said.mkdir()
        kills.hold(said, killed)
        command = [fermata.FERMATA, "run", "--survive", "--mpi", mpi, "-n", 4, "--name", "job",
                   kills.program(mpi, "kills"), 1000, 0, 1, said]
        env = kills.environment(FERMATA_DIR=str(work / "fermata"))
        running = process.Running(command, work, env=env, cwd=work)
        find = functools.partial(kills.ranks_under_fermata, mpi)
        for number, rank in enumerate(killed, 1):
            reached = functools.partial(kills.has_reached, said / str(rank), 100 * number)
            process.wait_until(reached, f"call {100 * number} of rank {rank}", 100)
            check(kills.kill(find, running, rank), f"rank {rank} lives")
        result = running.wait(200)
        outcome = kills.Outcome()
        kills.judge(kills.read(said, 4), 4, True, outcome)
        check_equal(outcome.different, 0, f"calls that differ: {outcome.why}")
        ended = 4 - len(killed)
        check_equal(result.code, 0 if ended else 1, f"exit code\n{result.err}")
        check_equal(result.out.count("has come to its end"), ended, "ranks that have ended")
        if killed:
            names = ", ".join(str(rank) for rank in sorted(killed))
            check(f"{names} ended without MPI_Finalize" in result.err.replace(" have", "")
                  .replace(" has", ""), result.err)
    return test


def _restart(job, other):
    job.restart(other, ["--survive"])
    fermata.wait_until_restarted(job)


def _saved(mpi, other):
    """Checkpoints during calls and between them, restarts under `other`, and then a rank dies."""
    calls, ranks, victim = 1000, 4, 2
    held = calls // 5 * 4

    @timeout(300)
    def test(work):
        said = work / "calls"
        said.mkdir()
        kills.hold(said, range(ranks))

        def reach(call, who=(victim,)):
            for rank in who:
                reached = functools.partial(kills.has_reached, said / str(rank), call)
                process.wait_until(reached, f"call {call} of rank {rank}", 100)
        job = fermata.Job(work)
        command = [kills.program(mpi, "kills"), calls, 0, 1, said]
        job.start(mpi, command, ranks, kills.environment(), ["--survive"])
        reach(100)
        job.checkpoint()
        reach(200)
        job.checkpoint_and_stop()
        _restart(job, other)
        reach(held, range(ranks))
        job.checkpoint_and_stop()
        _restart(job, other)
        for rank in range(ranks):
            (said / f"hold.{rank}").unlink()
        reach(held + 20)
        kills.hold(said, [victim])
        # What is read of a restarted process is the environment of its first beginning.
        find = functools.partial(kills.ranks_under_fermata, mpi)
        check(kills.kill(find, job.running, victim), f"rank {victim} is not there any more")
        result = job.running.wait(200).expect_success("what is left of the job")
        outcome = kills.Outcome()
        kills.judge(kills.read(said, ranks), ranks, True, outcome)
        check_equal(outcome.different, 0, f"calls that differ: {outcome.why}")
        check_equal(result.out.count("has come to its end"), ranks - 1, "ranks that have ended")
    return test


def generate():
    found = {}
    for mpi in mpis.MPIS:
        found[f"test_saved_{mpi}"] = _saved(mpi, mpis.OTHER[mpi])
        found |= {f"test_fermata_{mpi}": slow(_under_fermata(mpi, [])),
                  f"test_fermata_{mpi}_two_die": _under_fermata(mpi, [2, 0]),
                  f"test_fermata_{mpi}_all_die": slow(_under_fermata(mpi, [1, 3, 2, 0]))}
        found |= {f"test_same_{mpi}": _compare(mpi, 3), f"test_same_{mpi}_alone": _compare(mpi, 1),
                  f"test_same_{mpi}_many": slow(_compare(mpi, 8)),
                  f"test_killed_{mpi}": _killed(mpi, 5, 300, 2, False),
                  f"test_killed_{mpi}_mixed": _killed(mpi, 5, 300, 2, True),
                  f"test_same_{mpi}_ucx": _compare(mpi, 3, "ucx"),
                  f"test_killed_{mpi}_ucx": _killed(mpi, 5, 300, 2, True, "ucx"),
                  f"test_progress_{mpi}": _progress(mpi, False),
                  f"test_progress_{mpi}_fermata": _progress(mpi, True),
                  f"test_persistent_{mpi}": _persistent(mpi),
                  f"test_persistent_{mpi}_saved": _persistent_saved(mpi, mpis.OTHER[mpi]),
                  f"test_monte_carlo_{mpi}": _monte_carlo(mpi), f"test_jacobi_{mpi}": _jacobi(mpi)}
        for way in ("mpif_h", "mpi", "f08"):
            found[f"test_fortran_{mpi}_{way}"] = _fortran(mpi, way)
        for ranks in (2, 3, 8, 12):
            kept = _killed(mpi, ranks, 500, min(3, ranks - 1), True)
            found[f"test_killed_{mpi}_{ranks}"] = slow(kept)
    return found
