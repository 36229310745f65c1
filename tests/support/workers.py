# SPDX-License-Identifier: Apache-2.0
"""Several tests at a time. Most of a test is waiting, so more of them than cores pay off.

Each worker is a process that the runner forks; it asks for one test after the other. It is the
subreaper of whatever its tests start, so it can end all of that and nothing else, and it dies with
the runner. A test has no other way to meet another one than the machine: job directories, scratch
directories and TMPDIR are its own, or its worker's. Tests that cannot share the machine are marked
`alone` (support.cases); they run one by one when all others have ended.
"""
import contextlib
import ctypes
import io
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import tempfile
import time
import traceback

from support import mpis, process
from support.cases import Failed, Skipped, TestTimeout, deadline

PR_SET_PDEATHSIG = 1


def run_one(name, function, keep):
    """Runs one test. Returns (outcome, seconds, what it has to say)."""
    work = mpis.WORK / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    began = time.monotonic()
    outcome, explanation, notes = "ok", "", io.StringIO()
    try:
        with deadline(getattr(function, "timeout_s", 60)), contextlib.redirect_stdout(notes):
            function(work)
    except Skipped as reason:
        outcome, explanation = "skip", str(reason)
    except (Failed, TestTimeout) as reason:
        outcome, explanation = "FAIL", str(reason)
    except Exception:
        outcome, explanation = "FAIL", traceback.format_exc()
    process.end_descendants()
    if outcome != "FAIL" and not keep:
        shutil.rmtree(work, ignore_errors=True)
    return outcome, time.monotonic() - began, notes.getvalue() + explanation


def _serve(line, tests, keep):
    """A worker's life: an index comes in, what came of that test goes out; None ends it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    process.become_subreaper()
    with tempfile.TemporaryDirectory(prefix="fermata-test-") as scratch:
        # The session directories of two mpiruns would meet in a common parent, which each of them
        # removes when it seems to be empty.
        mpis.own_environment["TMPDIR"] = scratch
        mpis.own_environment["XDG_CONFIG_HOME"] = f"{scratch}/config"  # of the key for snapshots
        mpis.own_environment["XDG_STATE_HOME"] = f"{scratch}/state"  # of the places of jobs
        with contextlib.suppress(KeyboardInterrupt):
            while (index := line.recv()) is not None:
                try:
                    line.send(run_one(*tests[index], keep))
                except Exception:  # Not of the test: of what goes before it and after it.
                    line.send(("FAIL", 0.0, traceback.format_exc()))
        process.end_descendants()


class Worker:
    def __init__(self, tests, keep):
        self.test = None  # (name, function) it is busy with
        self.tests = tests
        self.line, theirs = multiprocessing.Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.line.close()
            code = 1
            try:
                _serve(theirs, tests, keep)
                code = 0
            finally:
                os._exit(code)
        theirs.close()

    def give(self, index):
        self.test = self.tests[index]
        self.line.send(index)

    def take(self):
        """What came of its test; (name, outcome, seconds, explanation). None if the worker died."""
        (name, _), self.test = self.test, None
        try:
            return name, *self.line.recv()
        except (EOFError, ConnectionResetError):
            return None

    def dismiss(self, timeout_s=15):
        """Ends it, and with it whatever its test has started."""
        with contextlib.suppress(OSError):
            self.line.send(None)
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.005)
        process.kill_tree(self.pid)
        os.waitpid(self.pid, 0)


def _share_out(tests, jobs, keep):
    """Yields what came of each test as it ends."""
    waiting = list(range(len(tests)))[::-1]
    workers = [Worker(tests, keep) for _ in range(min(jobs, len(tests)))]
    try:
        for worker in workers:
            worker.give(waiting.pop())
        while busy := {w.line: w for w in workers if w.test}:
            for line in multiprocessing.connection.wait(list(busy)):
                worker = busy[line]
                name, result = worker.test[0], worker.take()
                yield result or (name, "FAIL", 0.0, f"worker {worker.pid} died in the middle of it")
                if not result:
                    worker.dismiss()
                    worker = Worker(tests, keep)
                    workers[workers.index(busy[line])] = worker
                if waiting:
                    worker.give(waiting.pop())
    except BaseException:
        for worker in workers:  # All at once: each takes a while to end what its test has started.
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGTERM)
        raise
    finally:
        for worker in workers:
            worker.dismiss()


def _interrupt(_number, _frame):
    raise KeyboardInterrupt


def run(tests, jobs, keep):
    """Runs [(name, function)]. Yields (name, outcome, seconds, explanation) as each one ends.
    SIGINT and SIGTERM end it with KeyboardInterrupt, and all that it has started."""
    signal.signal(signal.SIGTERM, _interrupt)  # The workers too.
    process.become_subreaper()  # For what a worker that was killed leaves behind.
    together = [test for test in tests if not getattr(test[1], "alone", False)]
    alone = [test for test in tests if getattr(test[1], "alone", False)]
    if jobs > 1:  # The longest first, so that nobody waits for a late one at the end.
        together.sort(key=lambda test: -getattr(test[1], "timeout_s", 60))
    try:
        yield from _share_out(together, jobs, keep)
        yield from _share_out(alone, 1, keep)
    finally:
        process.end_descendants()
