# SPDX-License-Identifier: Apache-2.0
"""The runner of these tests: what it says of tests that run out of time."""
import sys

from support import mpis, process
from support.cases import check_equal

TESTS = """
import pathlib, sys
sys.path.insert(0, {tests!r})
from support import workers
from support.cases import Failed, TooLate, timeout

def late_once(work):
    mark = pathlib.Path({work!r}) / "late_once"
    if not mark.exists():
        mark.touch()
        raise TooLate("nothing came")

def wrong_once(work):
    mark = pathlib.Path({work!r}) / "wrong_once"
    if not mark.exists():
        mark.touch()
        raise Failed("2 is not 3")

@timeout(1)
def hangs(work):
    while True:
        pass

workers.mpis.WORK = pathlib.Path({work!r}) / "inner"
tests = [("late_once", late_once), ("wrong_once", wrong_once), ("hangs", hangs)]
for name, outcome, _, text in workers.run(tests, {jobs}, False, {once_more}):
    print(name, outcome, text, sep="|")
"""


def _outcomes(work, jobs, once_more):
    script = TESTS.format(tests=str(mpis.ROOT / "tests"), work=str(work), jobs=jobs,
                          once_more=once_more)
    done = process.run([sys.executable, "-c", script], timeout_s=50).expect_success("the runner")
    return sorted(line for line in done.out.split("\n") if line)


def test_late_tests_run_again_alone(work):
    """Only what ran out of time has a second chance, and what then hangs has failed."""
    check_equal(_outcomes(work, 2, True), [
        "hangs|FAIL|took longer than 1 s", "hangs|late|took longer than 1 s",
        "late_once|late|nothing came", "late_once|ok|", "wrong_once|FAIL|2 is not 3"], "outcomes")


def test_late_tests_fail_where_none_run_beside_them(work):
    check_equal(_outcomes(work, 1, True), [
        "hangs|FAIL|took longer than 1 s", "late_once|FAIL|nothing came",
        "wrong_once|FAIL|2 is not 3"], "outcomes")
