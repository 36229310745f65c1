# SPDX-License-Identifier: Apache-2.0
"""Debian's Python, which its python3-mpi4py is for."""
from support import mpis, process
from support.cases import Skipped

PYTHON = "/usr/bin/python3"


def need_mpi4py(work):
    probe = process.run([PYTHON, "-c", "import mpi4py"], 30, mpis.environment(), work)
    if probe.code != 0:
        raise Skipped("python3-mpi4py is not installed: ./x setup")
