# SPDX-License-Identifier: Apache-2.0
"""Fresh seeds of `./x chaos`, and that it would notice: a wrong value in each kind of step ends the
program, and with it the seed. FERMATA_SEED repeats a run."""
import os
import time

from support import chaos, mpis
from support.cases import Failed, check, timeout

FRESH = 20
# What other kinds need to come at all: some communicators, and room for more.
GROUND = "comm_inter,comm_cart,comm_graph,comm_free"


def _make_fresh(seed):
    @timeout(chaos.DEADLINE_S)
    def test(work):
        chaos.run(seed, chaos.Options(), work)
    return test


def _make_wrong(kind):
    @timeout(90)
    def test(work):
        command = [mpis.program("openmpi", "chaos"), "--steps", 1200, "--only", f"{GROUND},{kind}",
                   "--wrong", kind, "--dir", work, *["--serve"] * (kind == "question")]
        result = mpis.native("openmpi", command, 3, work)
        check(result.code != 0 and "FAIL rank" in result.out and f"({kind})" in result.out,
              f"the wrong value was not noticed (code {result.code})\n{result.out[-2000:]}")
    return test


@timeout(120)
def test_a_wrong_value_fails_the_seed(work):
    try:
        chaos.run(7, chaos.Options(wrong="compute"), work)
    except Failed as reason:
        check("FAIL rank" in str(reason) and "(compute)" in str(reason), str(reason))
    else:
        raise Failed("the seed passed")


def _agree_natively(work, seed):
    plan, said = chaos.Plan(seed, chaos.Options()), set()
    for i in range(10):
        (work / str(i)).mkdir()
        said.add(tuple(chaos.native(plan, work / str(i))[0]))
    check(len(said) == 1, f"{len(said)} different results")


@timeout(120)
def test_groups_make_windows_at_once_natively(work):
    """The run that all is compared with failed in one of three (Open MPI's osc/rdma)."""
    _agree_natively(work, 48155)


@timeout(120)
def test_windows_wait_for_completes_natively(work):
    """The run that all is compared with stayed in MPI_Win_wait two times of three (osc/ucx)."""
    _agree_natively(work, 173818)


def generate():
    first = int(os.environ.get("FERMATA_SEED") or time.time_ns() % 1_000_000)
    tests = {f"test_fresh_{i:02}": _make_fresh(first + i) for i in range(FRESH)}
    tests.update({f"test_wrong_{kind}": _make_wrong(kind) for kind in chaos.kinds()})
    return tests
