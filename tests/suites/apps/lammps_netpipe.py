# SPDX-License-Identifier: Apache-2.0
"""Programs that nobody wrote for us, straight from the distribution: LAMMPS, whose thermo output
must be equal digit by digit, and NetPIPE, whose own integrity check must hold."""
import re
import shutil

from support import fermata, mpis
from support.cases import Skipped, check, check_equal, slow, timeout
from support.distribution import NETPIPE, NETPIPE_ROW, compare_thermo, lammps


def _make_plain(lower):
    @timeout(90)
    def test(work):
        command = lammps(8, 200)
        native = mpis.native("openmpi", command, 2, work).expect_success("lmp").out
        job = fermata.Job(work)
        job.start(lower, command)
        compare_thermo(fermata.thermo(job.finish()), fermata.thermo(native))
    return test


def _make_restart(first, second):
    @timeout(240)
    def test(work):
        command = lammps(16, 1000)
        native = mpis.native("openmpi", command, 2, work, 90).expect_success("lmp").out
        job = fermata.Job(work)
        job.start(first, command)
        job.running.wait_for_number(fermata.THERMO, 300, 90)
        job.checkpoint_and_stop()
        before = job.running.out
        job.restart(second)
        compare_thermo(fermata.thermo(before + job.finish(120)), fermata.thermo(native))
    return test


def _make_netpipe(front, lower):
    """Every block that comes back is compared, before the restart and after it."""
    @timeout(120)
    def test(work):
        program = shutil.which(NETPIPE[front])
        if not program:
            raise Skipped(f"{NETPIPE[front]} is not installed")
        job = fermata.Job(work)
        job.start(lower, [program, "-i", "-u", 100000, "-n", 400, "-o", work / "np.out"])
        job.running.wait_for_number(NETPIPE_ROW, 6, 60)
        job.checkpoint_and_stop()
        before = job.running.out + job.running.err
        job.restart(mpis.OTHER[lower])
        text = before + job.finish() + job.running.err
        rows = {int(row) for row in re.findall(NETPIPE_ROW, text, re.M)}
        check(rows == set(range(max(rows) + 1)) and len(rows) > 25, f"rows {sorted(rows)}")
        check_equal(text.count("Integrity check passed"), len(rows), f"rows that passed\n{text}")
    return test


def generate():
    tests = {f"test_lammps_on_{lower}": _make_plain(lower) for lower in mpis.MPIS}
    for first in mpis.MPIS:
        for second in mpis.MPIS:
            test = _make_restart(first, second)
            tests[f"test_lammps_{first}_then_{second}"] = slow(test) if first == second else test
            tests[f"test_netpipe_{first}_on_{second}"] = _make_netpipe(first, second)
    return tests
