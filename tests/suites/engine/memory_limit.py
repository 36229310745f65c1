# SPDX-License-Identifier: Apache-2.0
"""Jobs in a control group that limits their memory, as batch systems and containers do it. The job
writes to all its memory all the time, so that a copy of each page would be needed by a checkpoint
that lets it continue."""
import contextlib
import os
import pathlib
import shutil
import tempfile
import time

from support import fermata, mpis, process
from support.cases import Skipped, alone, check, check_equal, timeout
from support.errors import FAILED, expect

MIB = 120  # of each rank
STEPS = 60
# Where the version has its groups, and its files: the limit, what is used, what tells of kills.
GROUPS = pathlib.Path("/sys/fs/cgroup")
VERSIONS = (
    (GROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control"),
    (GROUPS, "memory.max", "memory.current", "memory.events"))
# In memory.stat: the page cache, which the kernel takes back when there is need.
CACHE = {"memory.limit_in_bytes": ("total_inactive_file", "total_active_file"),
         "memory.max": ("inactive_file", "active_file")}
PAUSE_MS = 1000  # by which a writer is held up
MEMORY = pathlib.Path("/dev/shm")  # a file system of memory


class Group:
    """A control group of the test's own, entered by what is started `under` it."""

    def __init__(self, name):
        if os.geteuid() != 0:
            raise Skipped("control groups are made by root")
        usable = [version for version in VERSIONS if (version[0] / "cgroup.procs").exists()]
        if not usable:
            raise Skipped("no control groups are mounted at /sys/fs/cgroup")
        root, self.limit, self.usage, self.events = usable[0]
        self.path = root / f"fermata-{os.getpid()}-{name}"
        try:
            self.path.mkdir()
        except OSError as error:
            raise Skipped(f"no control group can be made: {error}") from error
        if not (self.path / self.limit).exists():
            self.path.rmdir()
            raise Skipped("control groups do not limit memory here")
        swap = self.path / "memory.swap.max"  # else it would end no process, only become slow
        if swap.exists():
            swap.write_text("0\n")

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

    def _numbers(self, name):
        lines = (self.path / name).read_text().splitlines()
        return {word: int(number) for word, number in map(str.split, lines)}

    def leave_mib(self, mib):
        """Limits the group to what it cannot give back, and so much more."""
        stat = self._numbers("memory.stat")
        kept = int((self.path / self.usage).read_text()) - sum(stat[it] for it in CACHE[self.limit])
        (self.path / self.limit).write_text(f"{kept + (mib << 20)}\n")

    def kills(self):
        """How many processes the kernel has killed for want of memory."""
        return self._numbers(self.events)["oom_kill"]


def _begun(work, group, lower, env=None):
    job = fermata.Job(work)
    job.start(lower, [mpis.program(lower, "rewrites"), "--mib", MIB, "--steps", STEPS, "--step-ms",
                      50], under=group.under(), env=env)
    fermata.wait_for_step(job, 5)
    return job


def _expected(work, lower):
    command = [mpis.program(lower, "rewrites"), "--mib", MIB, "--steps", STEPS]
    return mpis.checksum(mpis.native(lower, command, 2, work).expect_success("rewrites").out)


def _pause_ms(job):
    result = fermata.fermata(job.work, "checkpoint", job.name, "--json")
    figures = fermata.as_json(result.expect_success("checkpoint"))["figures"]
    return figures["pause_ns_max"] // 1_000_000


def _make_fits(lower):
    """There is room for the job and not for copies of its pages: it stands still meanwhile. A
    writer that is held up before it has written the pages so holds up the job, in each of three
    checkpoints, and the kernel never has to kill."""
    @alone
    @timeout(150)
    def test(work):
        with Group(f"fits-{lower}") as group:
            held_up = {"FERMATA_FAULT": f"writer-pages@0=sleep:{PAUSE_MS}"}
            job = _begun(work, group, lower, env=held_up)
            group.leave_mib(MIB // 2)
            for _ in range(3):
                pause = _pause_ms(job)
                check(pause >= PAUSE_MS, f"the job stood still for {pause} ms alone")
            check_equal(group.kills(), 0, "processes that the kernel has killed")
            check_equal(mpis.checksum(job.finish()), _expected(work, lower), "checksum")
            check(len(job.snapshots()) >= 2, "three checkpoints in a row")
            job.restart(mpis.OTHER[lower])
            check_equal(mpis.checksum(job.finish()), _expected(work, lower), "restarted")
    return test


@contextlib.contextmanager
def _in_memory():
    """A directory whose files are memory of whoever writes them, which cannot be given back."""
    if shutil.disk_usage(MEMORY).free < 1 << 30:
        raise Skipped(f"{MEMORY} has less than 1 GiB")
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="fermata-memory-limit-") as directory:
        yield pathlib.Path(directory)


def _is_given_up(job, group, *words):
    """A checkpoint that fails, and takes no process of the job with it. Returns what was said."""
    before = group.pids()
    result = fermata.fermata(job.work, "checkpoint", job.name)
    check_equal(result.code, FAILED, "exit code")
    expect(result.err, "failed while writing images", *words, "the job continues", "ask for more")
    check_equal(before - group.pids(), set(), "processes of the job that have ended")
    return result.err


def _make_killed(lower):
    """Each image is twice as large as what the group has left, and the snapshots lie in memory, so
    no standing still helps: the kernel kills. It takes writers, and the job continues, as does the
    snapshot before."""
    @alone
    @timeout(150)
    def test(work):
        with _in_memory() as place, Group(f"killed-{lower}") as group:
            job = _begun(place, group, lower)
            job.checkpoint()
            group.leave_mib(MIB // 2)
            _is_given_up(job, group, "the image writer was killed")
            check(group.kills() > 0, "the kernel has killed")
            check_equal([path.name for path in job.snapshots()], ["1"], "snapshots")
            check_equal(mpis.checksum(job.finish()), _expected(work, lower), "checksum")
            job.restart(mpis.OTHER[lower])
            check_equal(mpis.checksum(job.finish()), _expected(work, lower), "restarted")
    return test


def _make_refused(lower):
    """Where not even a writer can be forked the kernel took a rank, as no writer had volunteered:
    now none is forked, nothing is killed, and once there is room the job can be saved."""
    @alone
    @timeout(150)
    def test(work):
        with Group(f"refused-{lower}") as group:
            job = _begun(work, group, lower)
            for _ in range(3):
                group.leave_mib(3)
                said = _is_given_up(job, group, "leaves no room for a writer")
                check("hint: raise that limit" in said and "dmesg" not in said, said)
            check_equal(group.kills(), 0, "processes that the kernel has killed")
            group.leave_mib(4 * MIB)
            job.checkpoint()
            check_equal(mpis.checksum(job.finish()), _expected(work, lower), "checksum")
    return test


def _score(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _make_score(lower):
    """Where memory runs out all the same: it took a rank, and so the job."""
    @alone
    @timeout(120)
    def test(work):
        with Group(f"score-{lower}") as group:
            # Held up, so that no writer ends unseen.
            job = _begun(work, group, lower, {"FERMATA_FAULT": f"writer-pages=sleep:{PAUSE_MS}"})
            before = group.pids()
            check_equal({_score(pid) for pid in before} - {"0", None}, set(), "the job's scores")
            saving = process.Running([fermata.FERMATA, "checkpoint", "job"], work, name="saving",
                                     env=mpis.environment(FERMATA_DIR=str(work / "fermata")),
                                     cwd=work)
            seen = {}
            while saving.process.poll() is None:
                seen |= {pid: _score(pid) or seen.get(pid) for pid in group.pids() - before}
            saving.wait(30).expect_success("the checkpoint")
            scores = list(seen.values())
            check_equal(scores.count("1000"), 2, f"writers that have volunteered, of {scores}")
            check_equal({_score(pid) for pid in before} - {"0", None}, set(), "the job's scores")
            check_equal(mpis.checksum(job.finish()), _expected(work, lower), "checksum")
    return test


def generate():
    families = {"a_checkpoint_that_fits": _make_fits,
                "the_kernel_kills_the_writer_and_the_job_lives": _make_killed,
                "without_room_for_a_writer_none_is_forked": _make_refused,
                "the_kernel_is_to_take_the_writer": _make_score}
    return {f"test_{name}_{lower}": make(lower)
            for name, make in families.items() for lower in mpis.MPIS}
