# SPDX-License-Identifier: Apache-2.0
"""PETSc's example ex2 with pipelined conjugate gradients, which keep an MPI_Iallreduce in flight
across each matrix product. Every residual norm is that of an uninterrupted native run, digit by
digit."""
import functools
import pathlib
import re
import shlex
import shutil

from support import fermata, moments, mpis, process
from support.cases import Skipped, check, check_equal, slow, timeout

EXAMPLES = pathlib.Path("/usr/share/petsc/3.18/share/petsc/examples/src/ksp/ksp/tutorials")
OPTIONS = "-m 600 -n 600 -ksp_type pipecg -pc_type jacobi -ksp_rtol 1e-10 -ksp_monitor"


@functools.cache
def program():
    if not (EXAMPLES / "ex2.c").exists() or not shutil.which("pkg-config"):
        raise Skipped("petsc-dev, libpetsc3.18-dev-examples or pkg-config is not installed: "
                      "./x setup --apps")
    flags = process.run(["pkg-config", "--cflags", "--libs", "petsc"])
    flags.expect_success("pkg-config petsc")
    work = mpis.kept("petsc")
    shutil.copy(EXAMPLES / "ex2.c", work)
    process.run(["mpicc.openmpi", "-O2", "-o", "ex2", "ex2.c", *shlex.split(flags.out)], 120,
                cwd=work).expect_success("compiling ex2.c")
    return work / "ex2"


def _command():
    return [program(), *OPTIONS.split()]


def _lines(text):
    """The residuals by iteration and the closing line."""
    found = re.findall(r"^ *(\d+ KSP Residual norm \S+|Norm of error .*)", text, re.M)
    check(len(found) > 400, "too few residuals were printed")
    return found


@functools.cache
def _native():
    with mpis.scratch() as work:
        return _lines(mpis.native("openmpi", _command(), 2, work, 90).expect_success("ex2").out)


def _make_plain(lower):
    @timeout(180)
    def test(work):
        job = fermata.Job(work)
        job.start(lower, _command())
        check_equal(_lines(job.finish()), _native(), "residuals")
    return test


def _make(first, second, count):
    @timeout(600)
    def test(work):
        command = _command()
        for job, chance in moments.jobs(work, f"petsc {first} {second}", count):
            job.start(first, command)
            job.running.wait_for(f"\n{chance.randrange(20, 400):3} KSP", 120)
            check_equal(_lines(moments.resume(job, second)), _native(), "residuals")
    return test


def generate():
    tests = {}
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        tests[f"test_runs_on_{first}"] = slow(_make_plain(first))
        tests[f"test_{first}_then_{second}"] = slow(_make(first, second, moments.MOMENTS))
    tests["test_once"] = _make("mpich", "openmpi", 1)
    return tests
