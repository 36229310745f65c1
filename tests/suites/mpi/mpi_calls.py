# SPDX-License-Identifier: Apache-2.0
"""One behaviour of MPI per program (tests/programs/mpi), each saved three times in one life: two
checkpoints after which the same process continues, one that stops it, and a restart under the other
MPI. What it prints at the end must be what an uninterrupted native run prints.
Name: program_front_first_then_second; native_program_mpi runs it without the product."""
import pathlib
import re

from support import fermata, mpis, process
from support.cases import check, check_equal, slow, timeout

NATIVE_STEPS, STEPS, STEP_MS = 5, 14, 60
SERVED_STEPS, WRITTEN_STEPS = 60, 150
SAVE_AT, STOP_AT = (2, 5), 8

# Where a program built for `front` is saved and where it continues; the last element: slow.
ROUTES = (("openmpi", "openmpi", "mpich", False), ("mpich", "mpich", "openmpi", False),
          ("openmpi", "mpich", "openmpi", True), ("mpich", "openmpi", "mpich", True))


# What a program does in addition where the product is below it: the real MPIs get it wrong.
BEYOND = {name: ["--beyond", 1]
          for name in ("abi", "alloc_mem", "attributes", "generalized", "header_extras", "holders",
                       "ignored_arguments", "io_requests", "latecomers", "null_results",
                       "comm_hints", "freed_comm", "own_comms", "partitioned",
                       "persistent_collectives", "sessions", "tool",
                       "whose_error", "win_accumulate_room", "win_contents", "win_hints",
                       "win_pairs", "win_protected", "win_self", "win_single", "win_unaligned",
                       "win_writers", "writes_in_threads")}

# Number of ranks, where it is not 2 and, natively, 3 as well.
RANKS = {"win_pairs": (4,), "win_unaligned": (3,), "win_writers": (4,), "room": (3,),
         "latecomers": (4,), "win_late": (4,)}
# In which step of the program `room` a rank waits in what.
ROOM_IN = {"send": 5, "wait": 6, "test": 7, "detach": 8, "wait_that_is_overtaken": 4}
# In which step of the program `latecomers` the others are in what, and who comes late.
LATE_IN = {"a_group": 2, "an_intercommunicator_to_lead": 5, "an_intercommunicator_to_follow": 8}
# In which step of the program `win_late` the others are in what.
WINDOW_LATE_IN = {"to_post_a_window": 3, "to_begin_an_epoch": 4}


# A word that gets lost, and what the ranks do when the attempt is given up for it.
GIVEN_UP = {"nobody_knows": ("agent-sends-sent@1", "completing collectives"),
            "one_does_not_know": ("coordinator-sends-expected#2", "draining messages")}


# What programs may import from an original library: ours under the same name must have it.
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
EXPORTS = {"ompi/libmpi.so.40": "P?MPIX?_.*|OMPI_C_.*", "ompi/libmpi_cxx.so.40": ".*",
           "ompi/libmpi_mpifh.so.40": "p?mpix?_.*_",
           "mpich/libmpich.so.12": "P?MPIX?_.*|MPIR_Dup_fn"}


def programs():
    return sorted(path.stem for path in (mpis.ROOT / "tests/programs/mpi").glob("*.c"))


def _command(mpi, name, work, steps, step_ms=0):
    return [mpis.program(mpi, f"mpi/{name}"), "--dir", work, "--steps", steps, "--step-ms", step_ms]


def _expected(name, ranks, steps):
    with mpis.scratch() as work:
        command = _command("openmpi", name, work, steps)
        return mpis.checksum(mpis.native("openmpi", command, ranks, work).expect_success(name).out)


def _make_native(mpi, name):
    @timeout(120)
    def test(work):
        for ranks in RANKS.get(name, (2, 3)):
            result = mpis.native(mpi, _command(mpi, name, work, NATIVE_STEPS), ranks, work)
            found = mpis.checksum(result.expect_success(f"{name} on {mpi}").out)
            check_equal(found, _expected(name, ranks, NATIVE_STEPS), f"checksum of {ranks} ranks")
    return test


def _make(front, first, second, name, ranks):
    @timeout(150)
    def test(work):
        job = fermata.Job(work)
        command = _command(front, name, work, STEPS, STEP_MS) + BEYOND.get(name, [])
        job.start(first, command, ranks)
        for step in SAVE_AT:
            fermata.wait_for_step(job, step)
            job.checkpoint()
        fermata.wait_for_step(job, STOP_AT)
        job.checkpoint_and_stop()
        job.restart(second)
        check_equal(mpis.checksum(job.finish()), _expected(name, ranks, STEPS), "checksum")
    return test


def _make_held(mpi, name, steps):
    @timeout(90)
    def test(work):
        """A rank stands before its call for as long as the file is there. One attempt is enough."""
        job = fermata.Job(work)
        hold = work / "hold"
        hold.touch()
        ranks = RANKS[name][0]
        command = [*_command(mpi, name, work, steps), "--hold-file", hold]
        job.start(mpi, command, ranks)
        fermata.wait_for_step(job, steps)
        job.checkpoint_and_stop()
        hold.unlink()
        job.restart(mpis.OTHER[mpi])
        check_equal(mpis.checksum(job.finish()), _expected(name, ranks, steps), "checksum")
        check_equal([path.name for path in job.snapshots()], ["1"], "attempts")
    return test


def _make_served(mpi, ranks):
    @timeout(90)
    def test(work):
        """Ranks whose threads wait for each other do not keep each other running until these get
        what they wait for, in the last three steps."""
        job = fermata.Job(work)
        job.start(mpi, _command(mpi, "serving_threads", work, SERVED_STEPS), ranks)
        for step in (2, 4, 6):
            fermata.wait_for_step(job, step)
            job.checkpoint()
        check(f"step {SERVED_STEPS - 3}\n" not in job.running.out, "they were saved only then")
        expected = _expected("serving_threads", ranks, SERVED_STEPS)
        check_equal(mpis.checksum(job.finish()), expected, "checksum")
    return test


def _make_refused(mpi):
    @timeout(90)
    def test(work):
        """Messages are taken in, and only then it turns out that the job cannot be saved."""
        job = fermata.Job(work)
        job.start(mpi, [*_command(mpi, "synchronous", work, STEPS, STEP_MS), "--refuse"])
        for step in (2, 4, 5):
            fermata.wait_for_step(job, step)
            result = fermata.fermata(work, "checkpoint", "job")
            check("communicator that has been freed" in result.err, result.err)
        check_equal(mpis.checksum(job.finish()), _expected("synchronous", 2, STEPS), "checksum")
    return test


def _make_asked(mpi):
    @timeout(90)
    def test(work):
        """A rank that drains for one attempt hears of its end and of the next one at once."""
        job = fermata.Job(work)
        job.start(mpi, [*_command(mpi, "synchronous", work, STEPS, STEP_MS), "--ask"])
        check_equal(mpis.checksum(job.finish()), _expected("synchronous", 2, STEPS), "checksum")
        log = (work / "fermata/job/coordinator.log").read_text()
        failed = log.count("failed while draining messages")
        check(failed >= STEPS, f"{failed} attempts failed\n{log}")
        check("in time" not in log, log)
    return test


def _make_large(mpi):
    @timeout(300)
    def test(work):
        """What cannot be kept is received by the program alone; a checkpoint between its probe and
        its receive is refused, and harms nothing."""
        job = fermata.Job(work)
        hold = work / "hold"
        hold.touch()
        job.start(mpi, [mpis.program(mpi, "matched_large"), "--steps", 1, "--hold-file", hold])
        fermata.wait_for_step(job, 1)
        result = fermata.fermata(work, "checkpoint", "job", "--timeout", "20s")
        check("2 GiB or more is matched (MPI_Mprobe)" in result.err, result.err)
        hold.unlink()
        check("PASS" in job.finish(240), "its last line")
    return test


def _make_given_up(mpi, fault, phase):
    @timeout(90)
    def test(work):
        """Some rank does not learn how many messages it is to receive."""
        job = fermata.Job(work)
        job.start(mpi, _command(mpi, "synchronous", work, STEPS, STEP_MS),
                  env={"FERMATA_FAULT": f"{fault}=drop"})
        fermata.wait_for_step(job, 3)
        result = fermata.fermata(work, "checkpoint", "job", "--timeout", "2s")
        check(f"failed while {phase}" in result.err, result.err)
        check_equal(mpis.checksum(job.finish()), _expected("synchronous", 2, STEPS), "checksum")
    return test


def _make_computes(mpi):
    @timeout(90)
    def test(work):
        """Its operation's function may not be called before the rank comes to MPI again."""
        job = fermata.Job(work)
        job.start(mpi, _command(mpi, "reduces_in_turn", work, 3, 4000))
        fermata.wait_for_step(job, 1)
        result = fermata.fermata(work, "checkpoint", "job", "--timeout", "1s")
        check("computes while a reduction with a function of its own is under way" in result.err,
              result.err)
        job.checkpoint()
        expected = _expected("reduces_in_turn", 2, 3)
        check_equal(mpis.checksum(job.finish()), expected, "checksum")
    return test


@timeout(90)
def test_done_is_said_when_it_is_done(work):
    """When `fermata checkpoint` returns, the snapshot is complete: it is there, it verifies, and a
    job killed at that moment restarts from it."""
    job = fermata.Job(work)
    job.start("openmpi", _command("openmpi", "types", work, STEPS, STEP_MS))
    for step, kept in ((2, 1), (4, 2)):
        fermata.wait_for_step(job, step)
        job.checkpoint()
        check_equal(len(job.snapshots()), kept, "snapshots right after the command has returned")
        fermata.fermata(work, "verify", "job").expect_success("fermata verify")
    process.kill_tree(job.running.process.pid)
    job.running.wait(30)
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), _expected("types", 2, STEPS), "checksum")
    check("step 1\n" not in job.running.out, "the restart began at the snapshot")


def _exported(library, pattern):
    listing = process.run(["nm", "-D", "--defined-only", library]).expect_success("nm").out
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    return {name for name in names if re.fullmatch(pattern, name)}


def _make_exports(front, pattern):
    def test(work):
        found = _exported(LIBRARIES / pathlib.Path(front).name, pattern)
        check(found, f"{pattern} matches no function")
        missing = found - _exported(mpis.BUILD / "lib/fermata/front" / front, pattern)
        check_equal(sorted(missing), [], "functions that only the original library has")
    return test


@slow
@timeout(250)
def test_writes_that_two_threads_advance_openmpi(work):
    """Two threads advance the same writes in Open MPI's library (runtime/backend/ompio.cpp): where
    it does that without the guard, one of four runs of a tenth of this length ended in a crash."""
    command = [*_command("openmpi", "writes_in_threads", work, WRITTEN_STEPS), "--beyond", 1]
    job = fermata.Job(work)
    job.start("openmpi", command)
    check("PASS" in job.finish(230), "the program did not come to its end")


def generate():
    tests = {f"test_exports_{pathlib.Path(front).name.split('.')[0]}": _make_exports(front, pattern)
             for front, pattern in EXPORTS.items()}
    for mpi in mpis.MPIS:
        tests[f"test_synchronous_and_refused_{mpi}"] = _make_refused(mpi)
        tests[f"test_synchronous_and_asked_again_{mpi}"] = _make_asked(mpi)
        tests[f"test_computes_while_it_reduces_{mpi}"] = _make_computes(mpi)
        tests[f"test_matched_large_{mpi}"] = slow(_make_large(mpi))
        for name, fault in GIVEN_UP.items():
            tests[f"test_synchronous_and_{name}_{mpi}"] = _make_given_up(mpi, *fault)
        for way, steps in ROOM_IN.items():
            tests[f"test_makes_room_for_a_{way}_{mpi}"] = _make_held(mpi, "room", steps)
        for ranks in (2, 3):
            test = _make_served(mpi, ranks)
            name = f"test_threads_that_serve_{ranks}_ranks_{mpi}"
            tests[name] = slow(test) if ranks > 2 else test
        for call, steps in LATE_IN.items():
            tests[f"test_late_for_{call}_{mpi}"] = _make_held(mpi, "latecomers", steps)
        for what, steps in WINDOW_LATE_IN.items():
            tests[f"test_late_{what}_{mpi}"] = _make_held(mpi, "win_late", steps)
    for name in programs():
        for mpi in mpis.MPIS:
            tests[f"test_native_{name}_{mpi}"] = _make_native(mpi, name)
        for front, first, second, is_slow in ROUTES:
            test = _make(front, first, second, name, RANKS.get(name, (2,))[0])
            tests[f"test_{name}_{front}_{first}_then_{second}"] = slow(test) if is_slow else test
    return tests
