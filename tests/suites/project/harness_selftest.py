# SPDX-License-Identifier: Apache-2.0
"""What the tests stand on themselves."""
from concurrent.futures import ProcessPoolExecutor
from unittest import mock

from suites.apps import gromacs, petsc
from support import mpis
from support.cases import check, timeout


def test_the_demo_needs_no_test_before_it(work):
    """`./x demo` is the first command of the README: the tests' directory is not there yet."""
    with mock.patch.object(mpis, "WORK", work / "tests/work"), mpis.scratch() as made:
        check(made.is_dir(), f"{made} is there")


def _make_apart(make):
    @timeout(120)
    def test(_work):
        """Two workers that make it at once would find it half made, or gone."""
        make.cache_clear()
        with ProcessPoolExecutor(1) as one, ProcessPoolExecutor(1) as other:
            made = [worker.submit(make) for worker in (one, other)]
            first, second = (future.result(100) for future in made)
        check(first != second, f"both workers make {first}")
    return test


def generate():
    return {"test_petsc_is_each_worker_s_own": _make_apart(petsc.program),
            "test_gromacs_input_is_each_worker_s_own": _make_apart(gromacs.run_input)}
