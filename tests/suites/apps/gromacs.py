# SPDX-License-Identifier: Apache-2.0
"""GROMACS, two ranks with two OpenMP threads each, over a small box of water. With -reprod a run's
energies and final coordinates are those of an uninterrupted native run, bit by bit."""
import functools
import shutil

from support import mpis, process
from support.application import Application
from support.cases import Skipped, check
from support.mpis import ROOT

STEPS = 2000
BOX = ROOT / "tests/apps/gromacs"


def _gmx(arguments, work, text=""):
    return process.run(["sh", "-c", f"echo '{text}' | gmx {arguments}"], 60, mpis.environment(),
                       work).expect_success(f"gmx {arguments.split()[0]}")


@functools.cache
def run_input():
    """The run input file, made by GROMACS itself."""
    if not shutil.which("gmx_mpi"):
        raise Skipped("gromacs is not installed: ./x setup --apps")
    work = mpis.kept("gromacs")
    shutil.copy(BOX / "water.top", work)
    _gmx("solvate -cs spc216 -box 2.5 2.5 2.5 -o box.gro -p water.top", work)
    _gmx(f"grompp -f {BOX / 'water.mdp'} -c box.gro -p water.top -o water.tpr", work)
    return work / "water.tpr"


def _prepare(_work):
    return ["gmx_mpi", "mdrun", "-s", run_input(), "-ntomp", 2, "-reprod", "-nsteps", STEPS]


def _results(_printed, directory):
    """Energies of every step that was written, in double precision, and the final coordinates."""
    _gmx("energy -f ener.edr -o energies.xvg -dp", directory, "Potential Kinetic-En. Pressure")
    lines = (directory / "energies.xvg").read_text().split("\n")
    rows = [line for line in lines if line and line[0] not in "#@"]
    check(len(rows) > STEPS / 100, "too few energies were written")
    return rows, (directory / "confout.gro").read_text()


# Four threads share what may be two cores: waiting ones must not spin.
GROMACS = Application("gromacs", _prepare, _results, ("starting mdrun",), spread_s=0.5,
                      env=(("GOMP_SPINCOUNT", "0"),), run_s=120)


def generate():
    return GROMACS.tests(once=("openmpi", "mpich"))
