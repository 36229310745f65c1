# SPDX-License-Identifier: Apache-2.0
"""The Fortran bindings, as mpif.h, module mpi and module mpi_f08 name them: natively, on top of
each MPI, and saved under one and restarted under the other.
Name: program_front[_first_then_second]."""
from support import fermata, mpis
from support.cases import check, check_equal, slow, timeout

PROGRAMS = ("mpif_h", "module", "f08")
STEPS = 10


def _program(front, name):
    return mpis.program(front, f"fortran/{name}")


def _expected(name, ranks, steps):
    return mpis.expected(f"fortran/{name}", ranks, steps)


def _native(name, front, ranks):
    @timeout(60)
    def test(work):
        command = [_program(front, name), "--steps", STEPS]
        found = mpis.native(front, command, ranks, work).expect_success(name).out
        check_equal(mpis.checksum(found), _expected(name, ranks, STEPS), "checksum")
    return test


def _under(name, front, lower, ranks):
    @timeout(90)
    def test(work):
        job = fermata.Job(work)
        job.start(lower, [_program(front, name), "--steps", STEPS], ranks)
        check_equal(mpis.checksum(job.finish()), _expected(name, ranks, STEPS), "checksum")
    return test


def _restart(name, front, first, second):
    @timeout(120)
    def test(work):
        job = fermata.Job(work)
        job.start(first, [_program(front, name), "--steps", STEPS, "--step-ms", 60])
        fermata.wait_for_step(job, 4)
        job.checkpoint_and_stop()
        job.restart(second)
        check_equal(mpis.checksum(job.finish()), _expected(name, 2, STEPS), "checksum")
    return test


def _resume_and_chain(name, front):
    @slow
    @timeout(240)
    def test(work):
        job = fermata.Job(work)
        job.start(front, [_program(front, name), "--steps", 40, "--step-ms", 40])
        fermata.wait_for_step(job, 3)
        job.checkpoint()
        for hop in range(4):
            fermata.wait_for_step(job, 8 * hop + 5)
            job.checkpoint_and_stop()
            job.restart(mpis.MPIS[hop % 2])
        check_equal(mpis.checksum(job.finish()), _expected(name, 2, 40), "checksum")
    return test


@timeout(60)
def test_what_is_refused_is_named(work):
    """A function nobody has answers with MPI's error, and its name."""
    job = fermata.Job(work)
    job.start("mpich", [mpis.program("openmpi", "fortran/refused")])
    done = job.running.wait(50)
    check(done.code != 0 and "MPI_Comm_spawn" in done.err, f"a named refusal: {done.err!r}")


def generate():
    tests = {}
    for name in PROGRAMS:
        for front in mpis.MPIS:
            for ranks in (2, 3):
                tests[f"test_native_{name}_{front}_{ranks}"] = _native(name, front, ranks)
            for lower in mpis.MPIS:
                tests[f"test_{name}_{front}_on_{lower}"] = _under(name, front, lower, 3)
            for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
                tests[f"test_{name}_{front}_{first}_then_{second}"] = _restart(
                    name, front, first, second)
            tests[f"test_{name}_{front}_chain"] = _resume_and_chain(name, front)
    return tests
