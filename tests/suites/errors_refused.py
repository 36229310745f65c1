# SPDX-License-Identifier: Apache-2.0
"""What no image can hold is refused by name at the checkpoint: by the message one finds it in the
program. The job runs on to the right result, with the thing unharmed."""
from support import mpis
from support.cases import Failed, Skipped, check, check_equal, timeout
from support.errors import FAILED, HealthyJob, expect, record

KEPT = "What cannot be saved"
SOON_S = 15


def _make(hold, case, *words):
    @timeout(120)
    def test(work):
        job = HealthyJob(work)
        try:
            job.begin(program="unsaveable", arguments=["--hold", hold])
        except Failed:
            if "no device" in job.running.out:
                raise Skipped("no performance counters here") from None
            raise
        result = job.try_checkpoint()
        check(result.seconds < SOON_S, f"the answer took {result.seconds:.1f} s")
        text = record(KEPT, case, result, FAILED, "the job ran on to the right result")
        expect(text, "rank ", "the job runs on", "hint", *words)
        check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the job")
        check_equal(job.snapshots(), [], "snapshots")
    return test


def generate():
    return {
        "test_tcp": _make("tcp", "an open TCP connection", "TCP", "127.0.0.1"),
        "test_child": _make("child", "a living child process", "sleep"),
        "test_device": _make("device", "a mapping of a device", "perf_event"),
    }
