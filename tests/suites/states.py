# SPDX-License-Identifier: Apache-2.0
"""State of a process that no file or memory shows (tests/programs/states.c): a checkpoint refuses
it by name, a restart brings it back, or it is lost as docs/limits.md says. docs/process-state.md
has the table."""
from support import fermata, mpis, process
from support.cases import Skipped, check, check_equal, slow, timeout

STEPS = 24

# What a checkpoint says; None: it is kept, or lost in the way that the program checks.
KINDS = {
    "multicast": "a membership in a multicast group", "packet_info": "(IPV6_PKTINFO)",
    "signatures": "keys (TCP_MD5SIG", "namespaces": "entered other namespaces",
    "root": "another root directory", "landlock": "given up rights (landlock)",
    "filter": "a filter of system calls", "new_session_keys": "keys of its own",
    "ports": "access to ports", "layout": "its personality(2)",
    "capabilities_kept": "its secure bits", "memory_errors": "what memory errors do",
    "mitigation": "a mitigation", "no_time_stamps": "the use of rdtsc",
    "deadline": "SCHED_DEADLINE", "not_dumped": None, "merged": None, "sealed": None,
    "removed_file": None, "sender": None, "processor_time": None, "sequences": None,
    "dispatch": None, "tracing": None, "directory_notices": None,
}
QUICK = ("multicast", "landlock", "layout", "sealed", "removed_file", "sender")


def _run(kind, refusal, first, second, work):
    job = fermata.Job(work)
    (work / "files").mkdir()
    job.start(first, [mpis.program(first, "states"), "--steps", STEPS, "--step-ms", 40, "--dir",
                      work / "files", "--kind", kind])
    process.wait_until(lambda: "UNABLE" in job.running.out or "step 3" in job.running.out,
                       "step 3", 60)
    if "UNABLE" in job.running.out:
        raise Skipped(f"this machine has none: {job.running.out}")
    if refusal:
        result = fermata.fermata(work, "checkpoint", "job")
        check(result.code != 0 and refusal in result.err, f"{refusal!r} is said: {result.err}")
        check_equal(len(job.snapshots()), 0, "snapshots")
    else:
        job.checkpoint()
        job.checkpoint_and_stop()
        job.restart(second)
        fermata.wait_for_step(job, 10)
        job.checkpoint()
    check("PASS" in job.finish(), "it runs to its end")


def _make(kind, refusal, first, second):
    @timeout(90)
    def test(work):
        _run(kind, refusal, first, second, work)
    return test if kind in QUICK and first == "openmpi" else slow(test)


def generate():
    return {f"test_{kind}_{first}_then_{second}": _make(kind, refusal, first, second)
            for kind, refusal in KINDS.items()
            for first, second in (mpis.MPIS, mpis.MPIS[::-1])}
