# SPDX-License-Identifier: Apache-2.0
"""Jobs in a control group that limits their memory, as batch systems and containers do it. The job
writes to all its memory all the time, so that a copy of each page would be needed by a checkpoint
that lets it go on."""
import contextlib
import os
import pathlib
import time

from support import fermata, mpis, process
from support.cases import Skipped, alone, check, check_equal, timeout

MIB = 120  # of each rank
STEPS = 60
# Where the version has its groups, and the file of its limit.
GROUPS = pathlib.Path("/sys/fs/cgroup")
VERSIONS = ((GROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            (GROUPS, "memory.max", "memory.current"))


class Group:
    """A control group of the test's own, entered by what is started `under` it."""

    def __init__(self, name):
        if os.geteuid() != 0:
            raise Skipped("control groups are made by root")
        usable = [version for version in VERSIONS if (version[0] / "cgroup.procs").exists()]
        if not usable:
            raise Skipped("no control groups are mounted at /sys/fs/cgroup")
        root, self.limit, self.usage = usable[0]
        self.path = root / f"fermata-{os.getpid()}-{name}"
        try:
            self.path.mkdir()
        except OSError as error:
            raise Skipped(f"no control group can be made: {error}") from error
        if not (self.path / self.limit).exists():
            self.path.rmdir()
            raise Skipped("control groups do not limit memory here")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing of it outlives a test that has failed."""
        for _ in range(100):
            for pid in self.pids():
                process.kill_tree(int(pid))
            with contextlib.suppress(OSError):
                return self.path.rmdir()
            time.sleep(0.1)

    def under(self):
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"]

    def pids(self):
        return set((self.path / "cgroup.procs").read_text().split())

    def used_mib(self):
        return int((self.path / self.usage).read_text()) >> 20

    def set_mib(self, mib):
        (self.path / self.limit).write_text(f"{mib << 20}\n")


def _begun(work, group, lower):
    job = fermata.Job(work)
    job.start(lower, [mpis.program(lower, "rewrites"), "--mib", MIB, "--steps", STEPS, "--step-ms",
                      50], under=group.under())
    fermata.wait_for_step(job, 5)
    return job


def _expected(work, lower):
    command = [mpis.program(lower, "rewrites"), "--mib", MIB, "--steps", STEPS]
    return mpis.checksum(mpis.native(lower, command, 2, work).expect_success("rewrites").out)


def _make_fits(lower):
    """There is room for the job and not for copies of its pages: it stands still meanwhile."""
    @alone
    @timeout(150)
    def test(work):
        with Group(lower) as group:
            job = _begun(work, group, lower)
            group.set_mib(group.used_mib() + MIB // 2)
            for _ in range(3):
                job.checkpoint()
            check_equal(mpis.checksum(job.finish()), _expected(work, lower), "checksum")
            check(len(job.snapshots()) >= 2, "three checkpoints in a row")
            job.restart(mpis.OTHER[lower])
            check_equal(mpis.checksum(job.finish()), _expected(work, lower), "restarted")
    return test


def _score(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


@alone
@timeout(120)
def test_the_kernel_is_to_take_the_writer(work):
    """Where memory runs out all the same: it took a rank, and so the job."""
    with Group("score") as group:
        job = _begun(work, group, "openmpi")
        before = group.pids()
        check_equal({_score(pid) for pid in before} - {"0", None}, set(), "the job's scores")
        saving = process.Running([fermata.FERMATA, "checkpoint", "job"], work, name="saving",
                                 env=mpis.environment(FERMATA_DIR=str(work / "fermata")), cwd=work)
        seen = set()
        while saving.process.poll() is None:
            seen |= {_score(pid) for pid in group.pids() - before}
        saving.wait(30).expect_success("the checkpoint")
        check("1000" in seen, f"scores of the writers: {seen}")
        check_equal({_score(pid) for pid in before} - {"0", None}, set(), "the job's scores")
        check_equal(mpis.checksum(job.finish()), _expected(work, "openmpi"), "checksum")


def generate():
    return {f"test_a_checkpoint_that_fits_{lower}": _make_fits(lower) for lower in mpis.MPIS}
