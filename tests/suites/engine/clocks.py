# SPDX-License-Identifier: Apache-2.0
"""Clocks that count from the start of the machine (tests/programs/process/clocks.c), on hosts that
were started at different times: time namespaces. They never go back, and what waits for one of
their times wakes up. Name: host_front_first_then_second."""
from support import fermata, mpis, process
from support.cases import Skipped, check_equal, slow, timeout

STEPS = 10
HOUR = 3600


def _booted(hours_ago):
    """Starts a command on a host that was started so many hours before this one."""
    if not hours_ago:
        return ()
    seconds = str(hours_ago * HOUR)
    return ("unshare", "--time", "--monotonic", seconds, "--boottime", seconds)


def _need_time_namespaces(work):
    probe = process.run([*_booted(1), "true"], 30, mpis.environment(), work)
    if probe.code != 0:
        raise Skipped("time namespaces cannot be made here: root and Linux 5.6")


def _make(front, route, hosts):
    """route: the MPIs one after the other; hosts: how many hours ago theirs were started."""
    @timeout(180)
    def test(work):
        _need_time_namespaces(work)
        steps = STEPS * (len(route) - 1)
        job = fermata.Job(work)
        job.start(route[0], [mpis.program(front, "clocks"), "--steps", steps, "--step-ms", 60],
                  under=_booted(hosts[0]))
        for hop in range(1, len(route)):
            fermata.wait_for_step(job, STEPS * (hop - 1) + 4)
            job.checkpoint_and_stop()
            job.restart(route[hop], under=_booted(hosts[hop]))
        check_equal(mpis.checksum(job.finish()), mpis.expected("clocks", 2, steps), "checksum")
    return test


def generate():
    tests = {}
    for front in mpis.MPIS:
        for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
            name = f"{front}_{first}_then_{second}"
            later, chain = f"test_booted_later_{name}", f"test_later_and_later_{name}"
            tests[later] = _make(front, (first, second), (30, 0))
            # An offset is added to an offset; then the kernel's clock is ahead again, and behind.
            tests[chain] = _make(front, (first, second, first, second, first), (60, 30, 0, 90, 10))
            if front != first:
                tests[later] = slow(tests[later])
            if front != first or front != mpis.MPIS[0]:
                tests[chain] = slow(tests[chain])
    return tests
