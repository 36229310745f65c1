# SPDX-License-Identifier: Apache-2.0
"""StarPU: a task runtime with worker threads and a thread of its own that drives MPI. mm multiplies
matrices whose tiles are spread over the ranks; mpi_cholesky compares its result with the explicit
product, element by element."""
import pathlib
import time

from support import fermata, moments, mpis
from support.cases import Skipped, check, slow, timeout

FOLDER = pathlib.Path("/usr/lib/x86_64-linux-gnu/starpu/mpi")
# StarPU says this when MPI is up; everything happens between here and the end.
BEGUN = "MPI_Init_thread level"


def _command(name, *arguments):
    if not (FOLDER / name).exists():
        raise Skipped("starpu-examples is not installed: ./x setup --apps")
    return [FOLDER / name, *arguments]


def _check_cholesky(printed):
    check("comparing results" in printed and "Error" not in printed, f"wrong product\n{printed}")


def _make_plain(lower):
    @timeout(180)
    def test(work):
        job = fermata.Job(work)
        job.start(lower, _command("mpi_cholesky", "-check"))
        printed = job.finish()
        _check_cholesky(printed + job.running.err)
    return test


def _make(first, second, count, name, *arguments):
    @timeout(600)
    def test(work):
        command = _command(name, *arguments)
        for job, chance in moments.jobs(work, f"{name} {first} {second}", count):
            job.start(first, command)
            job.running.wait_for(BEGUN, 120)
            began = job.running
            time.sleep(chance.random() * 0.8)
            printed = moments.resume(job, second)
            if name == "mpi_cholesky":
                _check_cholesky(printed + began.err + job.running.err)
    return test


def generate():
    tests = {}
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        tests[f"test_runs_on_{first}"] = slow(_make_plain(first))
        tests[f"test_mm_{first}_then_{second}"] = slow(
            _make(first, second, moments.MOMENTS, "mm", 1024, 64))
        tests[f"test_cholesky_{first}_then_{second}"] = slow(
            _make(first, second, 2, "mpi_cholesky", "-size", 1600, "-nblocks", 10, "-check"))
    return tests
