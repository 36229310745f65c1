# SPDX-License-Identifier: Apache-2.0
"""Every test program, built for each MPI, on top of each MPI, without a checkpoint: the checksum
must be that of a native run. Name: program_front_on_lower."""
from support import fermata, mpis
from support.cases import check_equal, timeout


def _make(front, lower, name):
    @timeout(90)
    def test(work):
        job = fermata.Job(work)
        command = [mpis.program(front, name), *mpis.own_arguments(name, work), "--steps", 6]
        size = 50 if name == "compute" else None
        if size:
            command += ["--size", size]
        job.start(lower, command)
        check_equal(mpis.checksum(job.finish()), mpis.expected(name, 2, 6, size), "checksum")
    return test


def generate():
    return {f"test_{name}_{front}_on_{lower}": _make(front, lower, name)
            for name in mpis.PROGRAMS for front in mpis.MPIS for lower in mpis.MPIS}
