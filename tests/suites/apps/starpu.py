# SPDX-License-Identifier: Apache-2.0
"""StarPU: a task runtime with worker threads and a thread of its own that drives MPI. mm multiplies
matrices whose tiles are spread over the ranks; mpi_cholesky compares its result with the explicit
product, element by element."""
import functools
import pathlib
import time

from support import mpis
from support.application import Application
from support.cases import Skipped, check, slow

FOLDER = pathlib.Path("/usr/lib/x86_64-linux-gnu/starpu/mpi")
# StarPU says this when MPI is up; everything happens between here and the end.
BEGUN = "MPI_Init_thread level"


def _prepare(words, _work):
    name, *arguments = words
    if not (FOLDER / name).exists():
        raise Skipped("starpu-examples is not installed: ./x setup --apps")
    return [FOLDER / name, *arguments]


def _ends(_printed, _directory):
    """mm compares nothing: it has to come to its end."""


def _compares(printed, _directory):
    check("comparing results" in printed and "Error" not in printed, f"wrong product\n{printed}")


def _wait(job, chance, _results):
    job.running.wait_for(BEGUN, 120)
    time.sleep(chance.random() * 0.8)


def _application(results, *words):
    return Application(words[0], functools.partial(_prepare, words), results, wait=_wait,
                       run_s=150, tells_on_stderr=True)


MM = _application(_ends, "mm", 1024, 64)
SMALL = _application(_compares, "mpi_cholesky", "-check")
LARGE = _application(_compares, "mpi_cholesky", "-size", 1600, "-nblocks", 10, "-check")


def generate():
    tests = {}
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        tests[f"test_runs_on_{first}"] = slow(SMALL.runs_on(first))
        tests[f"test_mm_{first}_then_{second}"] = slow(MM.restarts(first, second))
        tests[f"test_cholesky_{first}_then_{second}"] = slow(LARGE.restarts(first, second, 2))
    return tests
