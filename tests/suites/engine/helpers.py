# SPDX-License-Identifier: Apache-2.0
"""Children that live as long as the program and serve it (runtime/launcher/image/helpers.cpp):
Python's resource tracker, a co-process. A restart starts them again; what does not fit is
refused."""
import shutil

from support import fermata, mpis
from support.cases import check, check_equal, slow, timeout
from support.python import PYTHON, need_mpi4py

STEPS = 40  # a checkpoint may take as long as a dozen on a busy machine
BEGIN = """
import os, subprocess, sys, time
from subprocess import PIPE
from mpi4py import MPI
world, total = MPI.COMM_WORLD, 0
def steps():
    for step in range(1, int(sys.argv[1]) + 1):
        yield step
        world.barrier()
        if world.rank == 0:
            print("step", step, flush=True)
        time.sleep(0.1)
        while step == int(sys.argv[1]) and os.path.exists(os.environ.get("CHECK_HOLD", "")):
            time.sleep(0.01)
def finish():
    global total
    total = world.allreduce(total)
    if world.rank == 0:
        print("PASS", total, flush=True)
"""
TRACKER = BEGIN + """
from multiprocessing import Value, shared_memory
memory, counter = shared_memory.SharedMemory(create=True, size=4096), Value("q", 0)
for step in steps():
    memory.buf[0] = step
    with counter.get_lock():
        counter.value += memory.buf[0] * (world.rank + 1)
    other = shared_memory.SharedMemory(create=True, size=100)
    other.close()
    other.unlink()
    total = total * 31 % 1000003 + counter.value
memory.close()
memory.unlink()
finish()
"""
COPROCESS = BEGIN + """
child = subprocess.Popen(sys.argv[2:], stdin=PIPE, stdout=PIPE)
for step in steps():
    child.stdin.write(b"%d a %d\\n" % (step, world.rank))
    child.stdin.flush()
    total = total * 31 % 1000003 + sum(child.stdout.readline())
child.stdin.close()
assert child.stdout.read() == b"" and child.wait() == 0
finish()
"""
# The child's output is a file that the program itself has not open.
TO_FILE = BEGIN + """
with open("output.%d" % world.rank, "w") as output:
    child = subprocess.Popen(["cat"], stdin=PIPE, stdout=output)
for step in steps():
    total += step
child.stdin.close()
child.wait()
finish()
"""
# The child waits until somebody reads what it has written.
AT_WORK = BEGIN + """
child = subprocess.Popen(["cat"], stdin=PIPE, stdout=PIPE)
os.set_blocking(child.stdin.fileno(), False)
for part in range(100):
    try:
        os.write(child.stdin.fileno(), bytes(4096))
    except BlockingIOError:
        time.sleep(0.01)
for step in steps():
    total += step
child.kill()
child.wait()
finish()
"""
# A child is asked after, waited for by a thread, and ended by signals, all by its process id.
BY_ID = """
import signal, threading
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # in threads of the MPI as well
""" + BEGIN + """
child, other = (subprocess.Popen(["cat"], stdin=PIPE, stdout=PIPE) for _ in range(2))
ended = []
waiter = threading.Thread(target=lambda: ended.append(os.waitpid(other.pid, 0)))
waiter.start()
for step in steps():
    assert child.poll() is None and not ended
    child.stdin.write(b"%d\\n" % step)
    child.stdin.flush()
    total += int(child.stdout.readline())
    assert os.readlink("/proc/%d/exe" % child.pid).endswith("cat")
    os.kill(child.pid, 0)
    assert os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG) is None
other.terminate()
assert signal.sigwaitinfo([signal.SIGCHLD]).si_pid == other.pid
waiter.join()
assert ended == [(other.pid, signal.SIGTERM)], ended
other.returncode = -signal.SIGTERM
child.send_signal(signal.SIGTERM)
assert signal.sigwaitinfo([signal.SIGCHLD]).si_pid == child.pid
assert os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT).si_pid == child.pid
assert os.waitpid(-1, 0) == (child.pid, signal.SIGTERM)
child.returncode = -signal.SIGTERM
finish()
"""
POOL = BEGIN + """
import multiprocessing
pool = multiprocessing.Pool(1)
for step in steps():
    total += step
pool.terminate()
pool.join()
finish()
"""


EXECUTOR = BEGIN + """
from concurrent.futures import ProcessPoolExecutor
with ProcessPoolExecutor(1) as pool:
    total += pool.submit(abs, -5).result()
    for step in steps():
        total += step
finish()
"""
FORKSERVER = BEGIN + """
import multiprocessing, multiprocessing.forkserver
multiprocessing.set_start_method("forkserver")
multiprocessing.forkserver.ensure_running()
for step in steps():
    total += step
finish()
"""


def _command(work, text, *arguments):
    need_mpi4py(work)
    script = work / "program.py"
    script.write_text(text)
    return [PYTHON, script, STEPS, *arguments]


def _expected(work, command):
    result = mpis.native("openmpi", command, 2, work).expect_success("native")
    return mpis.checksum(result.out)


def _saved_twice(work, command, first, second, env=None):
    expected = _expected(work, command)
    job = fermata.Job(work)
    job.start(first, command, env=env)
    fermata.wait_for_step(job, 3)
    job.checkpoint()
    job.checkpoint_and_stop()
    said = job.running.err
    job.restart(second)
    fermata.wait_for_step(job, 6)
    job.checkpoint_and_stop()  # what was started again is a helper like the first
    said += job.running.err
    job.restart(first)
    check_equal(mpis.checksum(job.finish()), expected, "sum")
    said += job.running.err
    # What Fermata says names the test's directory, and thereby the test.
    said = "\n".join(line for line in said.splitlines() if not line.startswith("fermata: "))
    check("Traceback" not in said and "resource_tracker" not in said, said)


def _make(text, arguments, first, second, env=None):
    @timeout(120)
    def test(work):
        _saved_twice(work, _command(work, text, *arguments), first, second, env)
    return test


def generate():
    tests = {}
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        route = f"{first}_then_{second}"
        tests[f"test_resource_tracker_{route}"] = _make(TRACKER, (), first, second)
        cat = _make(COPROCESS, ("cat",), first, second)
        by_id = _make(BY_ID, (), first, second)
        tests[f"test_ended_by_its_id_{route}"] = by_id if first == "openmpi" else slow(by_id)
        tests[f"test_coprocess_{route}"] = cat if first == "mpich" else slow(cat)
    return tests


def _refused(work, command, words, env=None):
    job = fermata.Job(work)
    job.start("openmpi", command, env=env)
    fermata.wait_for_step(job, 3)
    result = fermata.fermata(work, "checkpoint", "job")
    check(result.code != 0 and words in result.err, f"{words!r} is said: {result.err}")
    check_equal(mpis.checksum(job.finish()), _expected(work, command), "sum")


@timeout(120)
def test_a_program_that_the_user_names(work):
    command = _command(work, COPROCESS, "sed", "-u", "s/a/b/")
    job = fermata.Job(work)
    job.start("mpich", command, env={"FERMATA_HELPERS": "tr:sed"})
    fermata.wait_for_step(job, 3)
    job.checkpoint_and_stop()
    job.restart("openmpi")
    check_equal(mpis.checksum(job.finish()), _expected(work, command), "sum")


@timeout(120)
def test_a_program_that_is_gone(work):
    """The restart says which program it misses, and the job does not begin."""
    tool = work / "own-sed"
    shutil.copy(shutil.which("sed"), tool)
    command = _command(work, COPROCESS, tool, "-u", "s/a/b/")
    job = fermata.Job(work)
    job.start("openmpi", command, env={"FERMATA_HELPERS": "own-sed"})
    fermata.wait_for_step(job, 3)
    job.checkpoint_and_stop()
    tool.rename(work / "elsewhere")
    job.restart("openmpi")
    result = job.running.wait(60)
    check(result.code != 0 and "PASS" not in result.out, "it has not begun")
    check(f"cannot start a helper of the program again: {tool}" in result.err, result.err)
    (work / "elsewhere").rename(tool)
    job.restart("openmpi")
    check_equal(mpis.checksum(job.finish()), _expected(work, command), "sum")


@slow
@timeout(120)
def test_others_are_refused(work):
    command = _command(work, COPROCESS, "sed", "-u", "s/a/b/")
    _refused(work, command, "(sed) runs and cannot be saved")


@slow
@timeout(120)
def test_a_helper_with_a_file_of_its_own_is_refused(work):
    _refused(work, _command(work, TO_FILE), "its descriptor 1 is not the program's")


@timeout(120)
def test_a_helper_at_work_is_refused(work):
    _refused(work, _command(work, AT_WORK), "it is at work")


@slow
@timeout(120)
def test_a_pool_is_refused(work):
    _refused(work, _command(work, POOL), "runs and cannot be saved")


@slow
@timeout(120)
def test_an_executor_is_refused(work):
    _refused(work, _command(work, EXECUTOR), "take the checkpoint when it has ended")


@slow
@timeout(120)
def test_a_forkserver_is_refused(work):
    _refused(work, _command(work, FORKSERVER), "take the checkpoint when it has ended")
