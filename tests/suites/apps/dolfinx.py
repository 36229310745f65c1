# SPDX-License-Identifier: Apache-2.0
"""dolfinx-scaling-test: builds and partitions a mesh with neighbourhood collectives on distributed
graphs, assembles, and solves with PETSc. The partition differs from run to run, natively too, so
the solver is one whose iterations and solution do not depend on it."""
import re
import shutil

from support.application import Application
from support.cases import Skipped, check

OPTIONS = ("--problem_type poisson --scaling_type strong --ndofs 60000 "
           "-ksp_type cg -pc_type jacobi -ksp_rtol 1e-10")
# What it logs on the way, in the order of its phases.
PHASES = ("Compute partition of cells", "Building mesh dual graph", "Create topology",
          "Computing mesh entities", "Requesting connectivity", "Column ghost size",
          "Krylov solver starting")


def _prepare(_work):
    program = shutil.which("dolfinx-scaling-test")
    if not program:
        raise Skipped("fenicsx-performance-tests is not installed: ./x setup --apps")
    return [program, *OPTIONS.split()]


def _results(printed, _directory):
    """Iterations and norm of the solution."""
    found = re.findall(r"^\*\*\* (.*?): +(\S+)$", printed, re.M)
    check(len(found) >= 2, f"no iterations and norm:\n{printed[-2000:]}")
    return found


DOLFINX = Application("dolfinx", _prepare, _results, PHASES, spread_s=0.2, run_s=150)


def generate():
    return DOLFINX.tests()
