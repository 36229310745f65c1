# SPDX-License-Identifier: Apache-2.0
"""PETSc's example ex2 with pipelined conjugate gradients, which keep an MPI_Iallreduce in flight
across each matrix product. Every residual norm is that of an uninterrupted native run, digit by
digit."""
import functools
import pathlib
import re
import shlex
import shutil

from support import mpis, process
from support.application import Application
from support.cases import Skipped, check

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


def _prepare(_work):
    return [program(), *OPTIONS.split()]


def _results(printed, _directory):
    """The residuals by iteration and the closing line."""
    found = re.findall(r"^ *(\d+ KSP Residual norm \S+|Norm of error .*)", printed, re.M)
    check(len(found) > 400, "too few residuals were printed")
    return found


def _wait(job, chance, _results):
    job.running.wait_for(f"\n{chance.randrange(20, 400):3} KSP", 120)


PETSC = Application("petsc", _prepare, _results, wait=_wait, run_s=120)


def generate():
    return PETSC.tests(once=("mpich", "openmpi"))
