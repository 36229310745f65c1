# SPDX-License-Identifier: Apache-2.0
"""ABINIT: the self-consistent density of silicon, its k-points spread over the ranks. The total
energy after each iteration is that of a native run, digit by digit."""
import pathlib
import re
import shutil

from support.application import Application
from support.cases import Skipped, check
from support.mpis import ROOT

INPUT = ROOT / "tests/apps/abinit/si.abi"


def _prepare(work):
    program = shutil.which("abinit")
    if not program or not pathlib.Path("/usr/share/abinit/psp/14si.pspnc").exists():
        raise Skipped("abinit or abinit-data is not installed: ./x setup --apps")
    shutil.copy(INPUT, work)
    return [program, INPUT.name]


def _results(printed, _):
    energies = re.findall(r"^ ETOT +(\d+) +(\S+)", printed, re.M)
    check(len(energies) > 4 and "Calculation completed" in printed, f"{len(energies)} iterations")
    return energies


ABINIT = Application("abinit", _prepare, _results, (" ETOT  1", " ETOT  2", " ETOT  4"),
                     env=(("OMP_NUM_THREADS", "1"),))


def generate():
    return ABINIT.tests()
