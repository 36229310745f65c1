# SPDX-License-Identifier: Apache-2.0
"""Outcomes and marks of tests."""
import contextlib
import signal


class Failed(Exception):
    """The test found something wrong; the text says what."""


class Skipped(Exception):
    """The test cannot run here; the text says why."""


class TestTimeout(BaseException):
    """The test's deadline passed. Not an Exception, so that no handler of a test swallows it."""


def check(condition, message):
    if not condition:
        raise Failed(message)


def check_equal(found, expected, what):
    if found != expected:
        raise Failed(f"{what}: found {found!r}, expected {expected!r}")


def timeout(seconds):
    """Decorator: the test may take this long (60 s without it)."""
    def mark(function):
        function.timeout_s = seconds
        return function
    return mark


def slow(function):
    """Decorator: left out by --quick."""
    function.slow = True
    return function


def alone(function):
    """Decorator: needs the machine for itself, for it measures time, or changes what others see."""
    function.alone = True
    return function


@contextlib.contextmanager
def deadline(seconds):
    def expire(_number, _frame):
        raise TestTimeout(f"took longer than {seconds} s")
    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
