# SPDX-License-Identifier: Apache-2.0
"""What no image can hold is refused by name at the checkpoint: by the message one finds it in the
program. The job continues to the right result, with the thing unharmed."""
from support import mpis
from support.cases import Failed, Skipped, check, check_equal, timeout
from support.errors import FAILED, HealthyJob, expect, record
from support.namespaces import own_mounts

KEPT = "What cannot be saved"
SOON_S = 15
FREED = "a request is kept on a communicator that has been freed"


def _refused(job, hold, case, words):
    try:
        job.begin(program="unsaveable", arguments=["--hold", hold])
    except Failed:
        if "no device" in job.running.out:
            raise Skipped("no such device here") from None
        raise
    result = job.try_checkpoint()
    check(result.seconds < SOON_S, f"the answer took {result.seconds:.1f} s")
    text = record(KEPT, case, result, FAILED, "the job continued to the right result")
    expect(text, "rank ", "the job continues", "hint", *words)
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the job")
    check_equal(job.snapshots(), [], "snapshots")


def _make(hold, case, *words):
    @timeout(120)
    def test(work):
        _refused(HealthyJob(work), hold, case, words)
    return test


class PoolJob(HealthyJob):
    """Sees a file system of the huge page pool at WORK/pool, in a mount namespace of its own."""

    def _launch(self, *arguments, **options):
        place = self.work / "pool"
        place.mkdir()
        script = 'mount -t hugetlbfs none "$1" || { echo no device; exit 1; }; shift; exec "$@"'
        options["under"] = [*own_mounts(), "sh", "-c", script, "sh", place]
        return super()._launch(*arguments, **options)


@timeout(120)
def test_huge_page_pool(work):
    _refused(PoolJob(work), f"pool={work}/pool/file", "a shared file of the huge page pool",
             ["huge page pool", "pool/file"])


def generate():
    return {
        "test_tcp": _make("tcp", "an open TCP connection", "TCP", "127.0.0.1"),
        "test_child": _make("child", "a living child process", "sleep"),
        "test_device": _make("device", "a mapping of a device", "perf_event"),
        "test_counter": _make("counter", "a performance counter", "perf_event"),
        "test_card": _make("card", "the ring of a network card", "device", "socket"),
        "test_receive": _make("receive", "a receive on a freed communicator", FREED),
        "test_ended_receive": _make(
            "ended", "a persistent receive, ended, on a freed communicator", FREED),
        "test_persistent_send": _make("send", "a persistent send on a freed communicator", FREED),
        "test_message_queue": _make("queue", "a System V message queue",
                                    "System V message queues cannot be saved (id "),
    }
