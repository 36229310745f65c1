# SPDX-License-Identifier: Apache-2.0
"""The names of tests, as documents use them: a name may stand for all that begin with it."""
from support import process
from support.mpis import ROOT


def all_names():
    """All names that tests/run knows."""
    names = []
    for more in ([], ["--cluster"], ["--suite", "systems"]):
        listed = process.run([ROOT / "tests/run", "--list", *more], cwd=ROOT)
        names += listed.expect_success("tests/run --list").out.split()
    return names


def exists(test, names):
    return any(name == test or name.startswith(f"{test}_") for name in names)
