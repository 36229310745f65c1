# SPDX-License-Identifier: Apache-2.0
"""GROMACS, two ranks with two OpenMP threads each, over a small box of water. With -reprod a run's
energies and final coordinates are those of an uninterrupted native run, bit by bit."""
import functools
import shutil
import time

from support import fermata, moments, mpis, process
from support.cases import Skipped, check, check_equal, slow, timeout
from support.mpis import ROOT

STEPS = 2000
# Four threads share what may be two cores: waiting ones must not spin.
PATIENT = {"GOMP_SPINCOUNT": "0"}
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


def _command():
    return ["gmx_mpi", "mdrun", "-s", run_input(), "-ntomp", 2, "-reprod", "-nsteps", STEPS]


def _results(directory):
    """Energies of every step that was written, in double precision, and the final coordinates."""
    _gmx("energy -f ener.edr -o energies.xvg -dp", directory, "Potential Kinetic-En. Pressure")
    lines = (directory / "energies.xvg").read_text().split("\n")
    rows = [line for line in lines if line and line[0] not in "#@"]
    check(len(rows) > STEPS / 100, "too few energies were written")
    return rows, (directory / "confout.gro").read_text()


@functools.cache
def _native():
    with mpis.scratch() as work:
        mpis.native("openmpi", _command(), 2, work, 90, env=PATIENT).expect_success("gmx_mpi")
        return _results(work)


def _check(directory):
    command = _native()
    for found, expected, what in zip(_results(directory), command, ("energies", "coordinates")):
        check_equal(found, expected, what)


def _make(first, second, count):
    @timeout(600)
    def test(work):
        command = _command()
        for job, chance in moments.jobs(work, f"gromacs {first} {second}", count):
            job.start(first, command, env=PATIENT)
            job.running.wait_for("starting mdrun", 120)
            time.sleep(chance.random() / 2)
            moments.resume(job, second)
            _check(job.work)
    return test


def _make_plain(lower):
    @timeout(180)
    def test(work):
        job = fermata.Job(work)
        job.start(lower, _command(), env=PATIENT)
        job.finish()
        _check(work)
    return test


def generate():
    tests = {}
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        tests[f"test_runs_on_{first}"] = slow(_make_plain(first))
        tests[f"test_{first}_then_{second}"] = slow(_make(first, second, moments.MOMENTS))
    tests["test_once"] = _make("openmpi", "mpich", 1)
    return tests
