# SPDX-License-Identifier: Apache-2.0
"""The readers of foreign bytes, fuzzed: what was found before is replayed and must be read as far
as it was, then each target runs on for a moment. `./x fuzz` looks for longer."""
from support import fuzz
from support.cases import Skipped, check, timeout

SECONDS = 2


def _make(target):
    @timeout(900)  # the first one builds the control plane
    def test(work):
        if fuzz.lacks(target):
            raise Skipped(f"{fuzz.lacks(target)} is not installed: ./x setup --fuzz")
        told = fuzz.replay(target)
        check(told, f"{target} has no inputs")
        fuzz.check_made(target, told)
        check(fuzz.explore(target, SECONDS, work, work / "grown") > 0, "no input ran")
    return test


def generate():
    return {f"test_{target}": _make(target) for target in fuzz.targets()}
