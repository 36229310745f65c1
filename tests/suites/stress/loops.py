# SPDX-License-Identifier: Apache-2.0
"""Tight loops, saved at random moments: whatever a thread can be in the middle of comes back. Each
loop goes through twenty rounds of saving, ending and restarting, ten in each direction, from either
MPI; `--quick` has two rounds of some. FERMATA_SEED repeats a run."""
import os
import pathlib
import random
import re
import time

from support import errors, fermata, loops, mpis, process
from support.cases import check_equal, slow, timeout

ROUNDS, QUICK_ROUNDS = 20, 2
QUICK = ("clock_monotonic", "clock_process", "clock_fault", "getcpu", "alarm", "mpi_test", "avx",
         "births")


def _make(loop, mpi, rounds, seed):
    chain = loops.Chain(loop, mpi, mpi, rounds, seed)

    @timeout(chain.deadline_s())
    def test(work):
        print(f"seed {seed}")
        loops.run(chain, work)
    return test


def _start(work, mpi, loop, under=()):
    job = fermata.Job(work)
    job.start(mpi, [mpis.program(mpi, "loops"), "--loop", loop], under=under)
    job.running.wait_for_number(fermata.STEP, 1)
    return job


def _resume(job, mpi, under=()):
    time.sleep(0.05 * random.random())
    job.checkpoint_and_stop()
    job.restart(mpi, under=under)
    job.running.wait_for_number(fermata.STEP, 1)


def _places(job):
    """Where the ranks have the kernel's vdso, in places of 16 KiB below those that we give it; None
    for where the kernel put it."""
    top, found = 0x2900_0000_0000, set()
    for pid in errors.ranks_of(job):
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
        start = int(re.search(r"^([0-9a-f]+)-.*\[vdso\]$", maps, re.M)[1], 16)
        is_ours = top - 0x80_0000_0000 < start < top
        found.add((top - start) // 0x4000 if is_ours else None)
    return found


@timeout(120)
def test_each_life_has_a_vdso_elsewhere(work):
    """No life of a rank has the kernel's vdso where an earlier one had it."""
    job = _start(work, "openmpi", "clock_fault")
    check_equal(_places(job), {1}, "place at the start")
    for restarts, mpi in enumerate(("mpich", "openmpi", "mpich"), 1):
        _resume(job, mpi)
        check_equal(_places(job), {restarts + 1}, f"place after {restarts} restarts")
    check_equal(mpis.checksum(job.finish()), loops.expected("clock_fault"), "checksum")


@timeout(120)
def test_a_vdso_that_cannot_be_moved(work):
    """The kernel may seal it. Then a rank makes system calls: also one that was saved in the vdso,
    and one that was saved without it finds one again."""
    sealed = [mpis.harness(work, "without_call", "-DCALL=__NR_mremap", "-DERROR=EPERM")]
    for loop in ("clock_fault", "clock_monotonic"):
        place = work / loop
        place.mkdir()
        job = _start(place, "mpich", loop)
        check_equal(_places(job), {1}, "place at the start")
        _resume(job, "openmpi", sealed)
        check_equal(_places(job), {None}, "place where it cannot be moved")
        _resume(job, "mpich")
        check_equal(_places(job), {3}, "place after two restarts")
        check_equal(mpis.checksum(job.finish()), loops.expected(loop), "checksum")


def _built_anew(work):
    """Another build of the product: each function of its launcher lies elsewhere."""
    other = fermata.installation(work, "other")
    compiler = {"CXX": "g++ -falign-functions=256"}
    process.run([mpis.ROOT / "runtime/launcher/build.sh", other / "libexec/fermata", work / "obj"],
                200, mpis.environment(**compiler), work).expect_success("build.sh")
    return other / "bin/fermata"


@slow
@timeout(600)
def test_a_launcher_built_anew(work):
    """What is saved holds no address of the launcher's code: restarts under another build of it."""
    builds = [fermata.FERMATA, _built_anew(work)]
    for loop in ("births", "threads", "alarm", "clock_fault"):
        place = work / loop
        place.mkdir()
        job = _start(place, "openmpi", loop)
        for hop in range(1, 11):
            job.fermata = builds[hop % 2]
            _resume(job, mpis.MPIS[hop % 2])
        check_equal(mpis.checksum(job.finish()), loops.expected(loop), f"checksum of {loop}")


def generate():
    seed = os.environ.get("FERMATA_SEED") or str(time.time_ns() % 1_000_000)
    tests = {}
    for number, loop in enumerate(loops.names()):
        for mpi in mpis.MPIS:
            tests[f"test_{loop}_{mpi}"] = slow(_make(loop, mpi, ROUNDS, seed))
        if loop in QUICK:
            mpi = mpis.MPIS[number % 2]
            tests[f"test_{loop}_sample"] = _make(loop, mpi, QUICK_ROUNDS, seed)
    return tests
