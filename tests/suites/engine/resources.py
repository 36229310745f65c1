# SPDX-License-Identifier: Apache-2.0
"""One small program per thing a rank may hold (tests/programs/resources), saved at every k-th MPI
call of one rank (tests/harness/checkpoint_points.cpp) and from a timer in between, k from a seed.
After a checkpoint the job continues, or is stopped and restarted under the other or the same MPI,
or is killed a while later and restarted. The checksum must be that of an uninterrupted native run.

FERMATA_SEED repeats a run; a failure prints it. What happened goes to build/tests/resources, from
which `./x resources` makes the table docs/reference/resources.md. The head of a program says what
is particular about it:

    // Row: one line for the table
    // Refused: text      it cannot be saved: each checkpoint must fail with this text, the job
    //                    must run on to the same end
    // Flags: ...         further arguments of the compiler
    // Killed: text       why it cannot continue from where it was before
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
from support.cases import Failed, TestTimeout, alone, check, check_equal, slow, timeout

SOURCES = mpis.ROOT / "tests/programs/resources"
RESULTS = mpis.BUILD / "tests/resources"
POINTS = mpis.BUILD / "tests/checkpoint_points.so"
STEPS, STEP_MS = 24, 120
# Checkpoints lie in this part of a run, where the thing that is tested is held. There the program
# waits for the last of them, if it comes late.
LATEST, HOLD = 0.8, 0.9
# What follows a checkpoint: the process continues, or it is stopped and restarted, or it continues,
# is killed, and restarted under the other MPI.
ON, OTHER, SAME, KILLED = "continues", "other MPI", "same MPI", "killed"
# By number of the checkpoint; call and timer take turns, call first.
QUICK = ((ON, OTHER, ON, KILLED), (ON, KILLED, OTHER, SAME))
THOROUGH = (ON, KILLED, OTHER, ON, SAME, ON, KILLED, OTHER)
# They change what other programs of the machine see: which process ids are given out next.
ALONE = ("processes_child_number",)
EARLY = ("is not running", "is just being started", "returned from MPI_Init")
LONGEST_LIFE_S = 0.3  # of what is killed after a checkpoint


class Resource:
    def __init__(self, source):
        self.name = source.stem
        self.head = dict(re.findall(r"^// (\w+): (.*)$", source.read_text(), re.M))
        self.ranks = int(self.head.get("Ranks", 2))
        self.refused = self.head.get("Refused")
        self.may_be_killed = "Killed" not in self.head
        self.env = dict(word.split("=", 1) for word in self.head.get("Environment", "").split())

    def command(self, mpi, directory):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return [mpis.program(mpi, f"resources/{self.name}"), "--steps", STEPS,
                "--step-ms", STEP_MS, "--dir", directory]


def resources():
    return [Resource(source) for source in sorted(SOURCES.glob("*.c"))]


@functools.cache
def _native(name):
    """Checksum and number of MPI calls of a native run (the rank with the fewest counts)."""
    resource = Resource(SOURCES / f"{name}.c")
    with mpis.scratch() as work:
        command = resource.command("openmpi", work / "files")
        command[command.index("--step-ms") + 1] = 2
        env = mpis.environment(LD_PRELOAD=str(POINTS), FERMATA_POINTS_COUNT=str(work / "calls"),
                               **resource.env)
        command = [*mpis.mpirun("openmpi", resource.ranks), *map(str, command)]
        result = process.run(command, 60, env, work)
        counts = [int(path.read_text()) for path in work.glob("calls.*")]
    checksum = mpis.checksum(result.expect_success(f"{name}, native").out)
    check_equal(len(counts), resource.ranks, f"{name}: ranks that counted their MPI calls")
    return checksum, min(counts)


def wait_until(job, happened, what, timeout_s=40):
    until = time.monotonic() + timeout_s
    while not happened():
        if job.running.process.poll() is not None or time.monotonic() > until:
            raise Failed(f"the job did not come to {what}\n" + process.tail(job.running.out)
                         + process.tail(job.running.err))
        time.sleep(0.003)


class CheckpointPoints:
    """When to save, `count` times: at MPI calls k, 2k, 3k, ... of one rank, which waits there for
    the checkpoint, and after each of them once more, a while later."""

    def __init__(self, resource, chance, count, work):
        total = _native(resource.name)[1]
        calls, self.hold = int(total * LATEST), int(total * HOLD)
        self.rank, self.directory = chance.randrange(resource.ranks), work / "points"
        self.directory.mkdir()
        wanted = (count + 1) // 2
        largest = calls // wanted
        check(largest >= 2, f"{resource.name} makes too few MPI calls: {calls}")
        self.k = chance.randint(min(largest, calls // (wanted + 1) + 1), largest)
        self.calls = [self.k * (i + 1) for i in range(wanted)]
        between_s = STEPS * STEP_MS * LATEST / 1000 / wanted
        self.lives = [chance.random() * LONGEST_LIFE_S for _ in range(count)]
        self.pauses = [chance.random() * between_s / 2 for _ in range(count // 2)]

    def environment(self):
        plan = f"{self.rank}:{','.join(map(str, self.calls))}"
        return {"LD_PRELOAD": str(POINTS), "FERMATA_POINTS": plan,
                "FERMATA_POINTS_DIR": str(self.directory),
                "FERMATA_POINTS_HOLD": str(self.hold)}

    def over(self):
        (self.directory / "done").touch()

    def wait(self, job, number):
        """Waits for one of them. Returns what it is."""
        if number % 2:
            time.sleep(self.pauses[number // 2])
            return "timer"
        call = number // 2
        wait_until(job, self._marker(call).exists, f"call {self.calls[call]} of rank {self.rank}")
        return "call"

    def forget(self):
        """Before a restart: the new life tells which calls lie behind it. What the ended one came
        to while its checkpoint was being committed need not be in the snapshot."""
        for marker in self.directory.glob("point.*"):
            marker.unlink()

    def _marker(self, call):
        return self.directory / f"point.{call + 1}"

    def __str__(self):
        pauses = ", ".join(f"{pause * 1000:.0f}" for pause in self.pauses)
        return f"every {self.k} calls of rank {self.rank}, and {pauses} ms later"


def _checkpoint(job, stop):
    """As soon as the job can be saved; at the start and after a restart that takes a moment."""
    until = time.monotonic() + 30
    while True:
        words = ["checkpoint", job.name] + (["--stop"] if stop else [])
        result = fermata.fermata(job.work, *words)
        early = any(text in result.err for text in EARLY)
        if not early or time.monotonic() > until:
            break
        time.sleep(0.02)
    result.expect_success("fermata checkpoint")
    if stop:
        job.running.wait(30)
        check("PASS" not in job.running.out, "the run ended on its own before it was stopped")


def _kill(job):
    """Ends the job at once: its ranks, their parents, the coordinator."""
    process.kill_tree(job.running.process.pid)
    job.running.wait(30)
    check("PASS" not in job.running.out, "the run ended on its own before it was killed")


def _save_and_restart(job, points, plan, route, taken):
    """Takes every checkpoint and does what the plan says. `route`: the MPI at the start
    and the other one. `taken` receives (call or timer, what followed), the last perhaps not in
    full."""
    current, other = route
    for number, then in enumerate(plan):
        taken.append((points.wait(job, number), then))
        _checkpoint(job, stop=then in (OTHER, SAME))
        if then == KILLED:
            time.sleep(points.lives[number])
            _kill(job)
        if then in (OTHER, KILLED):
            current, other = other, current
        if then != ON:
            points.forget()
            job.restart(current)


def _be_refused(resource, job, points, plan, taken):
    for number in range(len(plan)):
        taken.append((points.wait(job, number), ON))
        result = fermata.fermata(job.work, "checkpoint", job.name)
        check(result.code != 0, "the checkpoint was not refused")
        check(resource.refused in result.err,
              f"the refusal names {resource.refused!r}: {result.err}")
    check_equal(len(job.snapshots()), 0, "snapshots")


def _run(resource, front, route, thorough, work, seed, taken):
    chance = random.Random(f"{resource.name} {front} {' '.join(route)} {seed}")
    plan = THOROUGH if thorough else chance.choice(QUICK)
    if not resource.may_be_killed:
        plan = tuple(OTHER if then == KILLED else then for then in plan)
    points = CheckpointPoints(resource, chance, len(plan), work)
    print(f"seed {seed}: {points}")
    job = fermata.Job(work)
    job.start(route[0], resource.command(front, work / "files"), resource.ranks,
              env={**resource.env, **points.environment()})
    try:
        if resource.refused:
            _be_refused(resource, job, points, plan, taken)
        else:
            _save_and_restart(job, points, plan, route, taken)
        points.over()
        check_equal(mpis.checksum(job.finish()), _native(resource.name)[0], "checksum")
    except Failed as reason:
        raise Failed(f"FERMATA_SEED={seed}: {points}\n{reason}") from None


def _make(resource, front, first, second, thorough):
    @timeout(240 if thorough else 120)
    def test(work):
        seed = os.environ.get("FERMATA_SEED") or str(time.time_ns() % 1_000_000)
        record = {"resource": resource.name, "front": front, "first": first, "second": second,
                  "seed": seed, "result": "FAIL", "taken": []}
        try:
            _run(resource, front, (first, second), thorough, work, seed, record["taken"])
            record["result"] = "ok"
        except (Failed, TestTimeout) as reason:
            record["why"] = str(reason)
            raise
        finally:
            RESULTS.mkdir(parents=True, exist_ok=True)
            path = RESULTS / f"{resource.name}.{front}.{first}.{second}.json"
            path.write_text(json.dumps(record))
    if resource.name in ALONE:
        test = alone(test)
    return test if not thorough else slow(test)


def generate():
    """Every resource once, in alternating directions; all four routes with more checkpoints when
    there is time."""
    tests = {}
    for number, resource in enumerate(resources()):
        for front in mpis.MPIS:
            for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
                quick = front == first == mpis.MPIS[number % 2]
                tests[f"test_{resource.name}_{front}_{first}_then_{second}"] = _make(
                    resource, front, first, second, not quick)
    return tests
