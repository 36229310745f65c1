# SPDX-License-Identifier: Apache-2.0
"""One small program per thing a rank may hold (tests/programs/items), saved at moments from a seed
and restarted under the other MPI. A moment is a timer, anywhere in the program, or the k-th MPI
call of one rank (tests/moments). The checksum must be that of an uninterrupted native run.

FERMATA_SEED repeats a run; a failure prints it. What happened goes to build/tests/items, from which
`./x items` makes the table docs/items.md. The head of a program says what is particular about it:

    // Item: one line for the table
    // Refused: text      it cannot be saved: each checkpoint must fail with this text, the job
    //                    must run on to the same end
    // Flags: ...         further arguments of the compiler
    // Environment: NAME=VALUE
    // Ranks: N           2 without it

Each program gets --steps, --step-ms and --dir DIR, an empty directory for what it writes.
"""
import functools
import json
import os
import random
import re
import shutil
import time

from support import fermata, mpis, process
from support.cases import Failed, TestTimeout, check, check_equal, slow, timeout

SOURCES = mpis.ROOT / "tests/programs/items"
RESULTS = mpis.BUILD / "tests/items"
MOMENTS = mpis.BUILD / "tests/moments/moments.so"
STEPS, STEP_MS = 24, 120
# Moments lie between these parts of a run: MPI_Init is over, and the end is far enough.
EARLIEST, LATEST = 0.05, 0.5


class Item:
    def __init__(self, source):
        self.name = source.stem
        self.head = dict(re.findall(r"^// (\w+): (.*)$", source.read_text(), re.M))
        self.ranks = int(self.head.get("Ranks", 2))
        self.refused = self.head.get("Refused")
        self.env = dict(word.split("=", 1) for word in self.head.get("Environment", "").split())

    def command(self, mpi, directory):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return [mpis.program(mpi, f"items/{self.name}"), "--steps", STEPS, "--step-ms", STEP_MS,
                "--dir", directory]


def items():
    return [Item(source) for source in sorted(SOURCES.glob("*.c"))]


@functools.cache
def _native(name):
    """Checksum and number of MPI calls of a native run (the rank with the fewest counts)."""
    item = Item(SOURCES / f"{name}.c")
    with mpis.scratch() as work:
        command = item.command("openmpi", work / "files")
        command[command.index("--step-ms") + 1] = 2
        env = mpis.environment(LD_PRELOAD=str(MOMENTS), FERMATA_MOMENTS_COUNT=str(work / "calls"),
                               **item.env)
        command = [*mpis.mpirun("openmpi", item.ranks), *map(str, command)]
        result = process.run(command, 60, env, work)
        counts = [int(path.read_text()) for path in work.glob("calls.*")]
    checksum = mpis.checksum(result.expect_success(f"{name}, native").out)
    check_equal(len(counts), item.ranks, f"{name}: ranks that counted their MPI calls")
    return checksum, min(counts)


def wait_until(job, happened, what, timeout_s=40):
    until = time.monotonic() + timeout_s
    while not happened():
        if job.running.process.poll() is not None or time.monotonic() > until:
            raise Failed(f"the job did not come to {what}\n" + process.tail(job.running.out)
                         + process.tail(job.running.err))
        time.sleep(0.003)


def last_step(job):
    """The last step this run has reported."""
    return max(map(int, re.findall(r"^step (\d+)$", job.running.out, re.M)), default=0)


class Moments:
    """When to save: `count` moments in a run's progress, each a step and a while, or an MPI call of
    one rank, which waits there for the checkpoint."""

    def __init__(self, item, chance, count, work):
        calls = _native(item.name)[1]
        self.rank, self.directory = chance.randrange(item.ranks), work / "moments"
        self.directory.mkdir()
        self.count, self.calls, self.timers = count, [], []
        for i, part in enumerate(sorted(chance.uniform(EARLIEST, LATEST) for _ in range(count))):
            if (i + chance.randrange(2)) % 2:
                self.calls.append(max(int(part * calls), 2, *[k + 1 for k in self.calls[-1:]]))
            else:
                self.timers.append((max(1, int(part * STEPS)), chance.random() * 0.05))
        self.taken = [0, 0]  # calls, timers

    def environment(self):
        plan = f"{self.rank}:{','.join(map(str, self.calls))}"
        return {"LD_PRELOAD": str(MOMENTS), "FERMATA_MOMENTS": plan,
                "FERMATA_MOMENTS_DIR": str(self.directory)} if self.calls else {}

    def wait(self, job):
        """Waits for the next one, of either sort."""
        timer = self.timers[self.taken[1]] if self.taken[1] < len(self.timers) else None
        marker = self.directory / f"moment.{self.taken[0] + 1}"
        wait_until(job, lambda: marker.exists() or (timer and last_step(job) >= timer[0]),
                   f"the next of {self}")
        is_timer = not marker.exists()
        self.taken[is_timer] += 1
        if is_timer:
            time.sleep(timer[1])

    def __str__(self):
        return ", ".join([f"call {call} of rank {self.rank}" for call in self.calls]
                         + [f"step {step} + {pause * 1000:.0f} ms" for step, pause in self.timers])


def _checkpoint(job, stop):
    """As soon as the job can be saved; at the start and after a restart that takes a moment."""
    until = time.monotonic() + 30
    while True:
        words = ["checkpoint", job.name] + (["--stop"] if stop else [])
        result = fermata.fermata(job.work, *words)
        early = "is not running" in result.err or "returned from MPI_Init" in result.err
        if not early or time.monotonic() > until:
            break
        time.sleep(0.02)
    result.expect_success("fermata checkpoint")
    if stop:
        job.running.wait(30)
        check("PASS" not in job.running.out, "the run ended on its own before it was stopped")


def _save_and_restart(job, moments, route, stops):
    """Takes every moment's checkpoint. After those in `stops` the job goes on in the next MPI."""
    route = iter(route)
    for number in range(moments.count):
        moments.wait(job)
        _checkpoint(job, stop=number in stops)
        if number in stops:
            job.restart(next(route))


def _be_refused(item, job, moments):
    for _ in range(moments.count):
        moments.wait(job)
        result = fermata.fermata(job.work, "checkpoint", job.name)
        check(result.code != 0, "the checkpoint was not refused")
        check(item.refused in result.err, f"the refusal names {item.refused!r}: {result.err}")
    check_equal(len(job.snapshots()), 0, "snapshots")


def _run(item, front, first, second, thorough, work, seed):
    chance = random.Random(f"{item.name} {front} {first} {second} {seed}")
    moments = Moments(item, chance, 5 if thorough else 3, work)
    print(f"seed {seed}: {moments}")
    job = fermata.Job(work)
    job.start(first, item.command(front, work / "files"), item.ranks,
              env={**item.env, **moments.environment()})
    try:
        if item.refused:
            _be_refused(item, job, moments)
        else:
            stops = (3, 4) if thorough else (2,)
            _save_and_restart(job, moments, (second, first), stops)
        check_equal(mpis.checksum(job.finish()), _native(item.name)[0], "checksum")
    except Failed as reason:
        raise Failed(f"FERMATA_SEED={seed}: {moments}\n{reason}") from None
    return moments.count


def _make(item, front, first, second, thorough):
    @timeout(240 if thorough else 120)
    def test(work):
        seed = os.environ.get("FERMATA_SEED") or str(time.time_ns() % 1_000_000)
        record = {"item": item.name, "what": item.head.get("Item", ""), "front": front,
                  "first": first, "second": second, "seed": seed, "refused": item.refused,
                  "result": "FAIL", "moments": 0}
        try:
            record["moments"] = _run(item, front, first, second, thorough, work, seed)
            record["result"] = "ok"
        except (Failed, TestTimeout) as reason:
            record["why"] = str(reason)
            raise
        finally:
            RESULTS.mkdir(parents=True, exist_ok=True)
            path = RESULTS / f"{item.name}.{front}.{first}.{second}.json"
            path.write_text(json.dumps(record))
    return test if not thorough else slow(test)


def generate():
    """Every item once, in alternating directions; all four routes with more moments when there is
    time."""
    tests = {}
    for number, item in enumerate(items()):
        for front in mpis.MPIS:
            for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
                quick = front == first == mpis.MPIS[number % 2]
                tests[f"test_{item.name}_{front}_{first}_then_{second}"] = _make(
                    item, front, first, second, not quick)
    return tests
