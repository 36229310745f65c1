# SPDX-License-Identifier: Apache-2.0
"""OpenFOAM's icoFoam on the lid-driven cavity of its own examples, on a finer mesh: halo exchanges
by buffered sends, global sums, and files that are watched and written on the way."""
import functools
import gzip
import os
import pathlib
import re
import shutil

from support import mpis, process
from support.application import Application
from support.cases import Skipped, check

EXAMPLES = pathlib.Path("/usr/share/doc/openfoam-examples/examples")
CAVITY = EXAMPLES / "incompressible/icoFoam/cavity/cavity"
HOME = (("WM_PROJECT_DIR", "/usr/share/openfoam"),)
DECOMPOSITION = """\
FoamFile { version 2.0; format ascii; class dictionary; object decomposeParDict; }
numberOfSubdomains 2;
method simple;
coeffs { n (2 1 1); }
"""
CELLS, STEP_S, STEPS = 40, 0.001, 500


def _replace(path, old, new):
    text = path.read_text()
    check(old in text, f"{path} has no `{old}`")
    path.write_text(text.replace(old, new))


@functools.cache
def _case():
    """The case, meshed and divided between two ranks by OpenFOAM's own tools."""
    if not shutil.which("icoFoam") or not CAVITY.exists():
        raise Skipped("openfoam or openfoam-examples is not installed: ./x setup --apps")
    case = mpis.kept("openfoam") / "cavity"
    shutil.copytree(CAVITY, case)
    for path in case.rglob("*.gz"):  # as Debian ships long ones
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
    _replace(case / "system/blockMeshDict", "(20 20 1)", f"({CELLS} {CELLS} 1)")
    _replace(case / "system/controlDict", "0.005;", f"{STEP_S};")
    (case / "system/decomposeParDict").write_text(DECOMPOSITION)
    for tool in ("blockMesh", "decomposePar"):
        process.run([tool], 60, {**os.environ, **dict(HOME)}, case).expect_success(tool)
    return case


def _prepare(work):
    shutil.copytree(_case(), work, dirs_exist_ok=True)
    return ["icoFoam", "-parallel"]


def _results(printed, work):
    """The residuals of every step, and the velocities that each rank wrote last."""
    times = re.findall(r"^Time = (\S+)$", printed, re.M)
    check(len(times) == STEPS and "Finalising parallel run" in printed, f"{len(times)} steps")
    solved = re.findall(r"^(?:smoothSolver|DICPCG|time step).*$", printed, re.M)
    return solved, [(work / f"processor{rank}/{times[-1]}/U").read_text() for rank in (0, 1)]


OPENFOAM = Application("openfoam", _prepare, _results,
                       ("\nTime = 0.02\n", "\nTime = 0.1\n", "\nTime = 0.2\n"),
                       spread_s=0.1, env=HOME)


def generate():
    return OPENFOAM.tests()
