# SPDX-License-Identifier: Apache-2.0
"""FreeFem++-mpi: the heat equation by Schwarz's method on two overlapping halves, finite elements
assembled and factorized anew in every sweep, vectors sent as serialized objects. It looks at clocks
all the time: of outsiders' restarts one in ten ended inside the kernel's vdso."""
import re
import shutil

from support.application import Application
from support.cases import Skipped, check_equal
from support.mpis import ROOT

SCRIPT = ROOT / "tests/apps/freefem/heat.edp"
STEPS = 150
RESTARTS = 10  # in each direction


def _prepare(work):
    program = shutil.which("FreeFem++-mpi")
    if not program:
        raise Skipped("freefem++ is not installed: ./x setup --apps")
    return [program, "-nw", "-v", "0", SCRIPT]


def _results(printed, _):
    norms = re.findall(r"^step (\d+) norm (\S+)$", printed, re.M)
    check_equal([int(step) for step, _ in norms], list(range(1, STEPS + 1)), "steps")
    return norms


FREEFEM = Application("freefem", _prepare, _results, ("step 3 ", "step 20 ", "step 50 "), run_s=600)


def generate():
    return FREEFEM.tests(RESTARTS)
