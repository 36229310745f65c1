# SPDX-License-Identifier: Apache-2.0
"""State of a process that no file or memory shows (tests/programs/process/process_state.c): a
checkpoint refuses it by name, a restart brings it back, or it is lost as docs/reference/limits.md
says. docs/reference/process-state.md has the table."""
from support import fermata, kinds
from support.cases import check

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


def _run(work, kind, refusal, first, second):
    job = kinds.start(work, first, "process_state", kind)
    if refusal:
        kinds.check_refused(job, refusal)
    else:
        job.checkpoint()
        job.checkpoint_and_stop()
        job.restart(second)
        fermata.wait_for_step(job, 10)
        job.checkpoint()
    check("PASS" in job.finish(), "it runs to its end")


def generate():
    return kinds.generate("", KINDS, QUICK, _run)
