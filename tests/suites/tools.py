# SPDX-License-Identifier: Apache-2.0
"""What the tests stand on themselves."""
import pathlib
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from unittest import mock

from suites import apps_gromacs, apps_petsc
from support import mpis, process
from support.cases import check, check_equal, timeout


def test_the_demo_needs_no_test_before_it(work):
    """`./x demo` is the first command of the README: the tests' directory is not there yet."""
    with mock.patch.object(mpis, "WORK", work / "tests/work"), mpis.scratch() as made:
        check(made.is_dir(), f"{made} is there")


def test_a_process_whose_name_is_no_text_is_found(work):
    """Such a one of another test ended the worker that looked for its own: names are cut after 15
    bytes, which may be the middle of a character."""
    program = work / "fifteen-bytes-\u00e9"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as sleeping:
        try:
            process.wait_until(lambda: b"fifteen" in _name(sleeping.pid), "its name")
            check_equal(process.descendants(), [sleeping.pid], "descendants")
        finally:
            sleeping.kill()


def _name(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_bytes()


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
    return {"test_petsc_is_each_worker_s_own": _make_apart(apps_petsc.program),
            "test_gromacs_input_is_each_worker_s_own": _make_apart(apps_gromacs.run_input)}
