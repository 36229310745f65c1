# SPDX-License-Identifier: Apache-2.0
"""Signals that are to save the job (FERMATA_SAVE_ON) reach its processes: none dies of one, no call
of the program ends, and the coordinator is told (runtime/launcher/threads/held_signals.cpp)."""
import os
import re
import shlex
import signal
import threading

from support import fermata, mpis, process
from support.cases import check, slow, timeout

STEPS, STEP_MS = 60, 40
TERM, USER = signal.SIGTERM, signal.SIGUSR1
ENVIRONMENT = {"FERMATA_SAVE_ON": f"{int(USER)},{int(TERM)}"}


def _command(lower, *options):
    return [mpis.program(lower, "held_signals"), "--steps", STEPS, "--step-ms", STEP_MS, *options]


def _start(work, lower, *options, command=None):
    job = fermata.Job(work)
    job.start(lower, command or _command(lower, *options), env=ENVIRONMENT)
    fermata.wait_for_step(job, 3)
    return job


def _send(job, number):
    """To each rank, to what it was started by or has started, and to who writes its image."""
    for pid in process.descendants(job.running.process.pid):
        try:
            if process.is_launcher(pid):
                os.kill(pid, number)
        except ProcessLookupError:
            pass  # it has ended by now


def _log(job):
    return (job.work / "fermata" / job.name / "coordinator.log").read_text()


def _wait_told(job, number, times=1):
    text = rf"signal {int(number)} has come to rank (\d)"
    process.wait_until(
        lambda: all(re.findall(text, _log(job)).count(rank) >= times for rank in "01"),
        f"word of signal {number}", 20)


def _make(lower, other):
    @timeout(90)
    def test_lives(work):
        job = _start(work, lower)
        for _ in range(5):
            _send(job, TERM)
        _wait_told(job, TERM)
        _send(job, USER)
        _wait_told(job, USER)
        job.finish()

    @timeout(120)
    def test_saved(work):
        """Before, while and after the job is saved, and while it is restarted."""
        job = _start(work, lower)
        over = threading.Event()

        def send_all_the_time():
            while not over.wait(0.02):
                _send(job, TERM)
        sender = threading.Thread(target=send_all_the_time)
        sender.start()
        try:
            for _ in range(3):
                job.checkpoint()
            job.checkpoint_and_stop()
            job.restart(other, env=ENVIRONMENT)
            fermata.wait_for_step(job, 10)
            job.checkpoint()
        finally:
            over.set()
            sender.join()
        before = _log(job).count("signal 15")
        _send(job, TERM)
        process.wait_until(lambda: _log(job).count("signal 15") > before, "word of it", 20)
        job.finish()

    @timeout(90)
    def test_handled(work):
        job = _start(work, lower, "--handle")
        _send(job, USER)
        _wait_told(job, USER)
        job.running.wait_for("handled 0", 20)
        job.checkpoint_and_stop()
        job.restart(other, env=ENVIRONMENT)
        fermata.wait_for_step(job, 10)
        _send(job, USER)
        _wait_told(job, USER)
        job.finish()

    @timeout(90)
    def test_handled_by_who_waits_for_it(work):
        job = _start(work, lower, "--suspend")
        _send(job, USER)
        job.running.wait_for("handled 0", 20)
        job.running.wait_for("handled 1", 20)
        _wait_told(job, USER)
        job.checkpoint_and_stop()
        job.restart(other)
        fermata.wait_for_step(job, 10)
        job.finish()

    @timeout(90)
    def test_taken(work):
        """The program takes it itself: nobody else does, and nobody is told."""
        job = _start(work, lower, "--take")
        _send(job, USER)
        job.running.wait_for("handled 0", 20)
        job.running.wait_for("handled 1", 20)
        check("signal 10" not in _log(job), _log(job))
        job.finish()

    @timeout(90)
    def test_not_held_after_a_restart_without_them(work):
        job = _start(work, lower)
        job.checkpoint_and_stop()
        job.restart(other)
        fermata.wait_for_step(job, 10)
        _send(job, TERM)
        result = job.running.wait(60)
        check(result.code != 0 and "PASS" not in result.out, "it dies of it, as ever")

    @timeout(90)
    def test_wrapped(work):
        """The shell that waits for the program lives as well; what else it has started does not."""
        program = shlex.join(map(str, _command(lower)))
        script = f"sleep 300 & {program}; wait $!; echo sleep $?"
        job = _start(work, lower, command=["sh", "-c", script])
        _send(job, TERM)
        _wait_told(job, TERM)
        check(job.finish().count("sleep 143") == 2, job.running.out)

    return {"wrapped": test_wrapped, "lives": test_lives, "saved": test_saved,
            "handled": test_handled, "handled_by_who_waits": test_handled_by_who_waits_for_it,
            "taken": test_taken, "not_held_without_them":
            test_not_held_after_a_restart_without_them}


def generate():
    return {f"test_{name}_{lower}": test if lower == "openmpi" else slow(test)
            for lower, other in (mpis.MPIS, mpis.MPIS[::-1])
            for name, test in _make(lower, other).items()}
