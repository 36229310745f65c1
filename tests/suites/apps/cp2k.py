# SPDX-License-Identifier: Apache-2.0
"""CP2K: a water molecule's dynamics on forces from density functional theory, with sparse
matrices over a Cartesian grid of ranks, ScaLAPACK and ELPA. Energies of every step are those of a
native run."""
import shutil

from support.application import Application
from support.cases import Skipped, check_equal
from support.mpis import ROOT

INPUT = ROOT / "tests/apps/cp2k/h2o.inp"
STEPS = 5


def _prepare(work):
    program = shutil.which("cp2k.psmp")
    if not program:
        raise Skipped("cp2k is not installed: ./x setup --apps")
    shutil.copy(INPUT, work)
    return [program, "-i", INPUT.name]


def _results(printed, work):
    """Step, energies and temperature; the last column is the time that it took."""
    check_equal(printed.count("PROGRAM STOPPED IN"), 1, "ends of the program")
    rows = [line.split()[:-1] for line in (work / "h2o-1.ener").read_text().split("\n")[1:] if line]
    check_equal([int(row[0]) for row in rows], list(range(STEPS + 1)), "steps")
    return rows, (work / "h2o-pos-1.xyz").read_text()


# It prints a lot before it begins to compute, and nothing for long while it does.
CP2K = Application("cp2k", _prepare, _results, ("DBCSR| CPU Multiplication driver",), spread_s=6,
                   env=(("OMP_NUM_THREADS", "1"),), run_s=300)


def generate():
    return CP2K.tests()
