# SPDX-License-Identifier: Apache-2.0
"""Python programs that look at who they are and what time it is: an event loop of asyncio, which is
its process's only, and multiprocessing, whose names and objects have the process id in them. Saved
under one MPI in the middle of the loop, finished under the other."""
from support import fermata, mpis
from support.cases import check_equal, slow, timeout
from support.python import PYTHON, need_mpi4py

STEPS = 12
PROGRAM = """
import asyncio, multiprocessing, os, sys, tempfile
from mpi4py import MPI

world = MPI.COMM_WORLD
pid = os.getpid()
counter = multiprocessing.Value("q", 0)
scratch = os.path.join(tempfile.gettempdir(), f"fermata-test-{os.getpid()}")
open(scratch, "w").close()

def work(step):
    assert os.getppid() == pid and multiprocessing.parent_process().pid == pid
    with counter.get_lock():
        counter.value += step

async def helper(step):
    child = await asyncio.create_subprocess_exec("/bin/echo", str(step),
                                                 stdout=asyncio.subprocess.PIPE)
    text, _ = await asyncio.wait_for(child.communicate(), 60)
    assert await child.wait() == 0
    return int(text)

async def tick(ticks):
    while True:
        await asyncio.sleep(0.02)
        ticks.append(asyncio.get_running_loop().time())
        assert ticks[-1] >= ticks[0]

async def main():
    total, ticks, loop = 0, [], asyncio.get_running_loop()
    ticker = loop.create_task(tick(ticks))
    for step in range(1, int(sys.argv[1]) + 1):
        assert os.getpid() == pid and asyncio.get_running_loop() is loop
        process = multiprocessing.Process(target=work, args=(step,))
        process.start()
        process.join()
        assert process.exitcode == 0
        total = world.allreduce(total % 1000003 + await helper(step) + counter.value)
        before = len(ticks)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.06)
        except asyncio.TimeoutError:
            pass
        assert len(ticks) > before and not ticker.done()
        if world.rank == 0:
            print("step", step, flush=True)
    ticker.cancel()
    return total

total = asyncio.run(main())
os.unlink(os.path.join(tempfile.gettempdir(), f"fermata-test-{os.getpid()}"))
if world.rank == 0:
    print(f"PASS {total:016x}", flush=True)
"""


def _make(first, second):
    @timeout(180)
    def test(work):
        need_mpi4py(work)
        program = work / "program.py"
        program.write_text(PROGRAM)
        native = mpis.native("openmpi", [PYTHON, program, STEPS], 2, work)
        expected = mpis.checksum(native.expect_success("native").out)
        job = fermata.Job(work)
        job.start(first, [PYTHON, program, STEPS])
        fermata.wait_for_step(job, 4)
        job.checkpoint_and_stop()
        job.restart(second)
        fermata.wait_for_step(job, 8)
        job.checkpoint_and_stop()
        job.restart(first)
        check_equal(mpis.checksum(job.finish()), expected, "checksum")
    return test


test_asyncio_and_multiprocessing_openmpi_then_mpich = _make("openmpi", "mpich")
test_asyncio_and_multiprocessing_mpich_then_openmpi = slow(_make("mpich", "openmpi"))
