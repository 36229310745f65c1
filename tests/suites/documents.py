# SPDX-License-Identifier: Apache-2.0
"""Generated documents and sources are what their generators would write now. What the tests of
errors recorded is compared by `./x ci`, when they have run (`./x errors --check`)."""
import sys

from support import process
from support.cases import check
from support.mpis import ROOT


def _fresh(*command):
    result = process.run([sys.executable, "-B", *command], cwd=ROOT)
    check(result.code == 0, result.out + result.err)


def test_items(_work):
    _fresh("tools/items_table.py", "--check")


def test_faults(_work):
    _fresh("tools/faults_table.py", "--check")


def test_what_comes_of_the_mpi_table(_work):
    """The layers of the runtime, and docs/mpi-coverage.md."""
    _fresh("gen/mpi/generate.py", "--check")
