# SPDX-License-Identifier: Apache-2.0
"""LAMMPS and NetPIPE as the distribution has them, which several suites run."""
import shutil

from support.cases import Failed, Skipped, check
from support.mpis import ROOT

MELT = ROOT / "tests/apps/in.melt"
NETPIPE = {"openmpi": "NPopenmpi", "mpich": "NPmpich2"}
NETPIPE_ROW = r"^ *(\d+): "


def lammps(cells, steps):
    if not shutil.which("lmp"):
        raise Skipped("lammps is not installed")
    return ["lmp", "-in", MELT, "-log", "none", "-var", "cells", cells, "-var", "steps", steps]


def compare_thermo(found, expected):
    for step, row in expected.items():
        if found.get(step) != row:
            raise Failed(f"step {step}: {found.get(step)} instead of {row}")
    check(len(expected) > 2 and found.keys() == expected.keys(), "the tables have other steps")
