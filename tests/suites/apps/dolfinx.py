# SPDX-License-Identifier: Apache-2.0
"""dolfinx-scaling-test: builds and partitions a mesh with neighbourhood collectives on distributed
graphs, assembles, and solves with PETSc. The partition differs from run to run, natively too, so
the solver is one whose iterations and solution do not depend on it."""
import functools
import re
import shutil
import time

from support import fermata, moments, mpis
from support.cases import Skipped, check, check_equal, slow, timeout
from support.mpis import BUILD

OPTIONS = ("--problem_type poisson --scaling_type strong --ndofs 60000 "
           "-ksp_type cg -pc_type jacobi -ksp_rtol 1e-10")
# What it logs on the way, in the order of its phases.
PHASES = ("Compute partition of cells", "Building mesh dual graph", "Create topology",
          "Computing mesh entities", "Requesting connectivity", "Column ghost size",
          "Krylov solver starting")


def _command():
    program = shutil.which("dolfinx-scaling-test")
    if not program:
        raise Skipped("fenicsx-performance-tests is not installed: ./x setup --apps")
    return [program, *OPTIONS.split()]


def _verdict(text):
    """Iterations and norm of the solution."""
    found = re.findall(r"^\*\*\* (.*?): +(\S+)$", text, re.M)
    check(len(found) >= 2, f"no iterations and norm:\n{text[-2000:]}")
    return found


@functools.cache
def _native():
    run = mpis.native("openmpi", _command(), 2, BUILD, 120).expect_success("dolfinx-scaling-test")
    return _verdict(run.out)


def _make_plain(lower):
    @timeout(180)
    def test(work):
        job = fermata.Job(work)
        job.start(lower, _command())
        check_equal(_verdict(job.finish()), _native(), "iterations and norm")
    return test


def _make(first, second, count):
    @timeout(900)
    def test(work):
        command = _command()
        for job, chance in moments.jobs(work, f"dolfinx {first} {second}", count):
            job.start(first, command)
            job.running.wait_for(chance.choice(PHASES), 120)
            time.sleep(chance.random() * 0.2)
            check_equal(_verdict(moments.resume(job, second)), _native(), "iterations and norm")
    return test


def generate():
    tests = {}
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        tests[f"test_runs_on_{first}"] = slow(_make_plain(first))
        tests[f"test_{first}_then_{second}"] = slow(_make(first, second, moments.MOMENTS))
    return tests
