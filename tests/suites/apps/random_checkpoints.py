# SPDX-License-Identifier: Apache-2.0
"""The distribution's own binaries, saved at random times (computing, receiving, inside a
collective, whatever they happen to do), stopped, and restarted under the same and the other MPI.
Each test takes five times from a seed that it prints; FERMATA_SEED repeats a run."""
import shutil
import time

from support import fermata, mpis, process, random_checkpoints
from support.cases import Skipped, check, check_equal, slow, timeout
from support.distribution import NETPIPE, NETPIPE_ROW, compare_thermo, lammps


def _make_lammps(first, second):
    @slow
    @timeout(600)
    def test(work):
        command = lammps(8, 3000)
        native = mpis.native("openmpi", command, 2, work, 90).expect_success("lmp").out
        for job, chance in random_checkpoints.jobs(work, f"lammps {first} {second}"):
            job.start(first, command)
            job.running.wait_for_number(fermata.THERMO, 50 * chance.randrange(1, 40), 90)
            time.sleep(chance.random() * 0.1)
            printed = random_checkpoints.resume(job, second)
            compare_thermo(fermata.thermo(printed), fermata.thermo(native))
    return test


def _kill(job):
    """Ends a run the hard way, all of it at once. Returns the whole lines it had printed."""
    process.kill_tree(job.running.process.pid)
    job.running.wait(30)
    return job.running.out.rpartition("\n")[0] + "\n"


@slow
@timeout(900)
def test_lammps_chain_of_ten_kills(work):
    """One job, ten times saved, then killed while it runs on, and restarted under the other MPI."""
    chance = random_checkpoints.chance("lammps chain")
    command = lammps(8, 6000)
    native = mpis.native("openmpi", command, 2, work, 120).expect_success("lmp").out
    job = fermata.Job(work, "melt")
    job.start("openmpi", command)
    printed = ""
    for hop in range(10):
        step = 50 * (10 * hop + chance.randrange(5, 15))
        job.running.wait_for_number(fermata.THERMO, step, 90)
        job.checkpoint()
        time.sleep(chance.random() * 0.1)
        printed += _kill(job)
        job.restart(mpis.MPIS[(hop + 1) % 2])
    compare_thermo(fermata.thermo(printed + job.finish(180)), fermata.thermo(native))


def sizes(path):
    """The message sizes of a NetPIPE table; the times beside them differ from run to run."""
    return [line.split()[0] for line in path.read_text().splitlines()]


def _make_netpipe(front, first, second):
    @slow
    @timeout(600)
    def test(work):
        program = shutil.which(NETPIPE[front])
        if not program:
            raise Skipped(f"{NETPIPE[front]} is not installed")
        command = [program, "-u", 30000, "-n", 1000, "-o", work / "np.out"]
        mpis.native(front, command, 2, work, 90).expect_success(NETPIPE[front])
        expected = sizes(work / "np.out")
        for job, chance in random_checkpoints.jobs(work, f"netpipe {front} {first} {second}"):
            job.start(first, command)
            job.running.wait_for_number(NETPIPE_ROW, chance.randrange(2, 50), 90)
            time.sleep(chance.random() * 0.05)
            random_checkpoints.resume(job, second)
            check_equal(sizes(work / "np.out"), expected, "message sizes of the table")
            check(len(expected) > 60, "NetPIPE measured its range")
    return test


def generate():
    tests = {}
    for first in mpis.MPIS:
        for second in mpis.MPIS:
            tests[f"test_lammps_{first}_then_{second}"] = _make_lammps(first, second)
            for front in mpis.MPIS:
                tests[f"test_netpipe_{front}_{first}_then_{second}"] = _make_netpipe(
                    front, first, second)
    return tests
