# SPDX-License-Identifier: Apache-2.0
"""Every test program under every MPI without the product: the tests themselves must be right."""
from support import mpis
from support.cases import check_equal, timeout


def _make(mpi, name, ranks):
    @timeout(60)
    def test(work):
        command = [mpis.program(mpi, name), *mpis.own_arguments(name, work), "--steps", 6]
        if name == "compute":
            command += ["--size", 50]
        result = mpis.native(mpi, command, ranks, work).expect_success(f"{name} on {mpi}")
        found = mpis.checksum(result.out)
        size = 50 if name == "compute" else None
        check_equal(found, mpis.expected(name, ranks, 6, size), "checksum")
    return test


def generate():
    return {f"test_{name}_{mpi}_{ranks}": _make(mpi, name, ranks)
            for mpi in mpis.MPIS for name in mpis.PROGRAMS
            for ranks in ((2, 3) if name in ("selfcheck", "collective", "inflight") else (2,))}
