# SPDX-License-Identifier: Apache-2.0
"""ScaLAPACK's own testers, as the distribution builds them for each MPI: Fortran and C in one
program, with derived types, user operations, many communicators and messages of all sizes. Saved
at random moments under one MPI and continued under the other, the tables of results, residuals
included, must be those of a native run. Name: tester_front_first_then_second."""
import functools
import pathlib
import time

from support import mpis
from support.application import Application
from support.cases import Failed, Skipped, slow
from support.random_checkpoints import COUNT

TESTS = pathlib.Path("/usr/lib/x86_64-linux-gnu/scalapack")
# The Fortran library hands each line on at once, so that a test sees how far the program is.
UNBUFFERED = (("GFORTRAN_UNBUFFERED_ALL", "1"),)
GRIDS = "2 grids\n1 2 P\n2 1 Q\n"

# Tester -> its input file, that file's lines after the head, the columns of times in its table.
TESTERS = {
    "xdlu": ("LU", "4 sizes\n100 200 300 400 M\n100 200 300 400 N\n3 blocks\n2 8 16 NB\n"
             "2 right-hand sides\n1 9 NRHS\n2 blocks of them\n1 5 NBRHS\n" + GRIDS
             + "1.0 threshold\nF refinement\n", (8, 11)),
    "xdqr": ("QR", "6 factorizations\n'QR' 'QL' 'LQ' 'RQ' 'QP' 'TZ'\n4 sizes\n60 120 200 250 M\n"
             "60 90 200 300 N\n3 blocks\n2 8 16 MB\n2 8 16 NB\n" + GRIDS + "5.0 threshold\n",
             (7, 9)),
    "xdhrd": ("HRD", "4 sizes\n150 200 250 300 N\n1 2 3 5 ILO\n150 190 250 290 IHI\n3 blocks\n"
              "2 8 16 NB\n" + GRIDS + "3.0 threshold\n", (7, 9)),
    "xdtrd": ("TRD", "'L' triangle\n4 sizes\n200 250 300 400 N\n3 blocks\n2 8 16 NB\n" + GRIDS
              + "10.0 threshold\n", (-4, -2)),  # two tables, of different width
}


def _prepare(front, tester, work):
    """The command; its input is written to the directory where it will run."""
    program = TESTS / f"{front}-tests" / tester
    if not program.exists():
        raise Skipped("scalapack-mpi-test is not installed")
    name, lines, _ = TESTERS[tester]
    (work / f"{name}.dat").write_text(f"'{name}'\n'any'\n'{name}.out' file\n6 device\n{lines}")
    return [program]


def _results(tester, printed, _directory):
    """The rows of the table without their times."""
    first, last = TESTERS[tester][2]
    rows = [line.split() for line in printed.split("\n") if line.startswith("WALL")]
    if " 0 tests completed and failed" not in " ".join(printed.split()) or len(rows) < 10:
        raise Failed(f"{tester} did not pass its own checks\n{printed[-2000:]}")
    return [row[:first] + row[last:] for row in rows]


def _wait(job, chance, results):
    """Early: xdtrd's last table is rank 0's alone, the other rank has entered MPI_Finalize."""
    count, until = chance.randrange(1, len(results) // 4), time.monotonic() + 60
    while job.running.out.count("\nWALL") < count:
        if time.monotonic() > until or job.running.process.poll() is not None:
            raise Failed(f"not {count} results\n{job.running.out[-2000:]}{job.running.err[-2000:]}")
        time.sleep(0.002)
    time.sleep(chance.random() * 0.02)


def _application(front, tester):
    return Application(f"{tester} {front}", functools.partial(_prepare, front, tester),
                       functools.partial(_results, tester), wait=_wait, env=UNBUFFERED, run_s=120,
                       built_for=front)


def generate():
    tests = {}
    for tester in TESTERS:
        for front in mpis.MPIS:
            application, other = _application(front, tester), mpis.OTHER[front]
            plain = application.runs_on(other)
            tests[f"test_{tester}_{front}_on_{other}"] = plain if tester == "xdlu" else slow(plain)
            for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
                quick = tester == "xdhrd" and first == front
                test = application.restarts(first, second, 1 if quick else COUNT)
                tests[f"test_{tester}_{front}_{first}_then_{second}"] = (
                    test if quick else slow(test))
    return tests
