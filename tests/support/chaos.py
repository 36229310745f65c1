# SPDX-License-Identifier: Apache-2.0
"""Random programs under random treatment: tests/programs/chaos, saved at random calls and moments,
killed in random ways and restarted under random MPIs. All of it follows from a seed, but for the
moment that a timer hits. The result must be that of the same program run natively without
disturbance."""
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import signal
import time

from support import errors, fermata, mpis, process
from support.cases import Failed, TestTimeout, check

RECORDS = mpis.BUILD / "tests/chaos"
POINTS = mpis.BUILD / "tests/checkpoint_points.so"
STEPS, STEP_MS = 120, 30
REST = 15  # steps after which a program that asks for checkpoints does so
MOST_RANKS = 6
MOST_SERVING = 4  # ranks, each with a thread that waits: natively it takes a processor
DEADLINE_S = 300
# What ends a hop. All but the first leave the snapshot before as the latest, or the one in the
# making. The coordinator lives in the process that is the launcher, `fermata run`.
ENDS = ("stop", "kill a rank", "kill mpirun", "kill the coordinator", "kill all",
        "kill a rank during a checkpoint", "kill all during a checkpoint")
DAEMON_ENDS = ("kill the daemon", "kill the daemon during a checkpoint")
CHECKPOINT = ("--json", "checkpoint", "job", "--timeout", "20s")
# A checkpoint may be refused or given up for these reasons, and the job continues
# (docs/reference/limits.md).
EARLY = ("there is no job", "is not running", "just being started", "returned from MPI_Init")
GIVEN_UP = ("not done so in time", "not called it in time")
LATE = ("MPI_Finalize", "left the job", "come to its end", "come to the end",
        "the job has ended", "job 'job' has ended", "went away before it answered",
        "the job ended (code 0)")
TAKEN = "is already being taken"  # one that the program has asked for
GONE = ("the coordinator is gone", "the coordinator cannot be reached")  # in a life that was killed
# What is to be seen of a checkpoint on disk when something is killed during it.
MET = ("unwritten", "being_written", "committed")
MOST_GIVEN_UP = 3  # of one checkpoint


@dataclasses.dataclass
class Options:
    """What replaces a part of what a seed says; shrinking changes these."""
    steps: int = STEPS
    first: int = 1
    without: tuple = ()
    ranks: int = 0
    hops: int = -1
    wrong: str = ""
    plain: bool = False  # no daemon, no two phases, no thread, does not ask for checkpoints

    def words(self):
        words = ["--steps", self.steps]
        for name, value, none in (("--from", self.first, 1), ("--ranks", self.ranks, 0),
                                  ("--hops", self.hops, -1), ("--wrong", self.wrong, ""),
                                  ("--without", ",".join(self.without), "")):
            words += [name, value] if value != none else []
        return words + ["--plain"] * self.plain


@dataclasses.dataclass
class Hop:
    """A life of the job: some checkpoints, at calls or after a while, and an end; one during a
    checkpoint comes after that part of the time that the one before took."""
    pauses_s: list
    end: str
    during: float
    victim: float
    next_mpi: str


def kinds():
    """The kinds of steps that a program has."""
    source = mpis.ROOT / "tests/programs/chaos/main.c"
    return re.findall(r'^    {"(\w+)", \1, \d+},$', source.read_text(), re.M)


class Plan:
    """What follows from a seed."""

    def __init__(self, seed, options):
        chance = random.Random(f"chaos {seed}")
        self.seed, self.options = seed, options
        self.ranks = options.ranks or chance.randint(2, MOST_RANKS)
        self.front, self.first = chance.choice(mpis.MPIS), chance.choice(mpis.MPIS)
        self.caller, self.calls = chance.random(), chance.randint(4, 7)
        mpi, self.hops = self.first, []
        two_phases, has_daemon = chance.random() < 0.25, chance.random() < 0.25
        self.two_phases = two_phases and not options.plain
        self.has_daemon = has_daemon and not options.plain
        for _ in range(chance.randint(2, 4)):
            if chance.random() < 0.8:
                mpi = mpis.OTHER[mpi]
            pauses = [0.6 * chance.random() ** 2 for _ in range(chance.randint(2, 5))]
            end, daemon_end = chance.choice(ENDS), chance.choice(ENDS + DAEMON_ENDS)
            self.hops.append(Hop(pauses, daemon_end if self.has_daemon else end,
                                 1.2 * chance.random(), chance.random(), mpi))
        # Drawn apart, so that what older seeds say stays what it was.
        manner = random.Random(f"manner {seed}").random()
        self.rest = REST if manner < 0.2 and not self.has_daemon and not options.plain else 0
        self.saves_itself = bool(self.rest) and manner < 0.1
        self.serves = 0.2 <= manner < 0.45 and not options.plain
        if self.serves and not options.ranks:
            self.ranks = min(self.ranks, MOST_SERVING)
        if options.hops >= 0:
            self.hops = self.hops[:options.hops]

    def command(self, mpi, directory, step_ms):
        """Without pauses, the undisturbed run; only the other one may be wrong."""
        directory.mkdir()
        o = self.options
        words = [mpis.program(mpi, "chaos"), "--seed", self.seed, "--from", o.first,
                 "--steps", o.first + o.steps - 1, "--step-ms", step_ms, "--dir", directory]
        words += ["--rest", self.rest] if self.rest else []
        words += ["--serve"] * self.serves
        words += ["--without", ",".join(o.without)] if o.without else []
        return words + (["--wrong", o.wrong] if o.wrong and step_ms else [])

    def reproduce(self):
        return " ".join(map(str, ["./x chaos --seed", self.seed, *self.options.words()]))

    def __str__(self):
        route = ">".join([self.first, *(hop.next_mpi for hop in self.hops)])
        ways = (", 2pc" * self.two_phases + ", daemon" * self.has_daemon +
                ", asks" * bool(self.rest) + ", saves itself" * self.saves_itself +
                ", serves" * self.serves)
        return f"seed {self.seed}: {self.ranks} ranks, built for {self.front}, {route}{ways}"


def sums(text):
    """What the ranks say at their end, in their order."""
    lines = sorted(line for line in text.split("\n") if re.match(r"rank \d+ [0-9a-f]{16}$", line))
    return [*lines, mpis.checksum(text)]


def native(plan, work):
    """The result without disturbance, and the fewest MPI calls that a rank makes. Debian's MPICH
    4.0.2 may let two threads into one part of UCX (seed 50192: "worker->inprogress++ == 0"). Open
    MPI 4.1's osc/rdma names a window's shared memory by its communicator's number, which groups
    without a common member share: one takes the other's (seed 48155; limits.md, windows); its
    osc/ucx may wait for ever in MPI_Win_wait (seed 173818); pt2pt, its third, serves one thread."""
    env = mpis.environment(LD_PRELOAD=str(POINTS), FERMATA_POINTS_COUNT=str(work / "calls"),
                           OMPI_MCA_osc="^rdma" if plan.serves else "^rdma,ucx")
    mpi = "openmpi" if plan.serves else mpis.OTHER[plan.front]
    command = plan.command(mpi, work / "native", 0)
    result = process.run([*mpis.mpirun(mpi, plan.ranks), *map(str, command)], 90, env, work)
    counts = [int(path.read_text()) for path in work.glob("calls.*")]
    return sums(result.expect_success("the native run").out), min(counts)


class Chaos:
    """A job that is treated as its plan says."""

    def __init__(self, plan, work):
        self.plan, self.work = plan, work
        self.job = fermata.Job(work)
        self.calls = work / "calls"
        self.local = ["--local-dir", work / "images"] if plan.has_daemon else []
        self.early = (*EARLY, TAKEN) if plan.rest else EARLY
        self.answered = set()
        self.checkpoints = self.given_up = self.restarts = self.crossings = 0
        self.calls_met = self.asked = 0
        self.killed = False  # something of this life, by the test
        self.met = dict.fromkeys(MET, 0)
        self.newest = self.promised = 0  # the checkpoint answered last, now and in the life before
        self.took_s = 0.0  # from its request to the answer

    def start(self, total_calls):
        plan = self.plan
        self.calls.mkdir()
        k = max(1, int(total_calls * 0.9 / plan.calls))
        chosen = ",".join(str(k * (i + 1)) for i in range(plan.calls))
        env = {"LD_PRELOAD": str(POINTS), "FERMATA_POINTS_DIR": str(self.calls),
               "FERMATA_POINTS": f"{int(plan.caller * plan.ranks)}:{chosen}"}
        command = plan.command(plan.front, self.work / "files", STEP_MS)
        if plan.serves:  # which call is the k-th depends on the two threads of a rank
            env = {}
        if plan.saves_itself:  # nowhere but in fermata_checkpoint, and begins anew without `env`
            env = {}
            command += ["--hold-file", self.job.hold]
        options = (self.local + ["--collectives", "2pc"] * plan.two_phases +
                   ["--checkpointer", "self"] * plan.saves_itself)
        self.job.start(plan.first, command, plan.ranks, env=env, options=options)

    def be_well(self):
        job = self.job.running
        check("FAIL" not in job.out and job.process.poll() is None,
              f"the job ended (code {job.process.poll()})\n"
              f"{process.tail(job.out)}\n{process.tail(job.err)}")

    # ---- checkpoints ----------------------------------------------------------------------------

    def checkpoint(self, *arguments):
        """Takes one; as soon as the job can be saved, which at its start takes a moment."""
        until, given_up = time.monotonic() + 60, 0
        while True:
            result = fermata.fermata(self.work, *CHECKPOINT, *arguments)
            if result.code == 0:
                return self.committed(result)
            if not any(text in result.err for text in self.early):
                check(any(text in result.err for text in GIVEN_UP), result.err)
                given_up, self.given_up = given_up + 1, self.given_up + 1
            self.be_well()
            check(given_up < MOST_GIVEN_UP and time.monotonic() < until, result.err)
            time.sleep(0.02)

    def committed(self, result):
        self.checkpoints += 1
        self.took_s = result.seconds
        self.check_origin()
        self.newest = int(pathlib.Path(fermata.as_json(result)["snapshot"]).name)

    def check_origin(self):
        """A restart takes up the snapshot that was promised last, or one that came after it."""
        record = json.loads((self.work / "fermata/job/job.json").read_text())
        check(record["restored_epoch"] >= self.promised,
              f"life {self.restarts} began with checkpoint {record['restored_epoch']}, "
              f"though {self.promised} was committed")

    def a_call_waits(self):
        """Is there a rank that waits in one of the chosen calls?"""
        fresh = {path.name for path in self.calls.glob("point.*")} - self.answered
        self.answered |= fresh
        self.calls_met += len(fresh)
        return bool(fresh)

    def hop(self, hop):
        """Checkpoints, each after its pause or when a call waits for one."""
        for pause in hop.pauses_s:
            until = time.monotonic() + pause
            while not self.a_call_waits() and time.monotonic() < until:
                time.sleep(0.003)
            self.checkpoint()
        if hop.end == "stop":
            self.checkpoint("--stop")
            self.job.running.wait(40)
            check("PASS" not in self.job.running.out, "the run ended before it was stopped")
        else:
            self.kill(hop)
        for marker in self.calls.glob("point.*"):
            marker.unlink()  # The ranks go back to before some of them.
        self.answered.clear()

    # ---- deaths ---------------------------------------------------------------------------------

    def daemons(self):
        """Those of this job, which have left their parents. One whose coordinator was killed looks
        for it for a minute; restarts continue beside it."""
        images = os.fsencode(self.work / "images")
        return [pid for pid in process.descendants()
                if {b"daemon", images} <= set(process.command_line(pid))]

    def victims(self, hop):
        run = self.job.running.process.pid
        if "daemon" in hop.end:
            return self.daemons()
        if "a rank" in hop.end:
            ranks = errors.ranks_of(self.job)
            return ranks[int(hop.victim * len(ranks)):][:1]
        if "mpirun" in hop.end:
            return [pid for pid in process.descendants(run)
                    if re.search(rb"/?(mpirun|mpiexec)[^/]*$", process.command_line(pid)[0])][:1]
        if "coordinator" in hop.end:
            return [run]
        return [run, *process.descendants(run), *self.daemons()]

    def be_lost(self):
        """A job whose daemon is gone cannot be saved, says so, and runs on."""
        answer = fermata.fermata(self.work, *CHECKPOINT)
        check(answer.code != 0 and re.search("is lost|left the job", answer.err),
              f"a checkpoint without a daemon: exit code {answer.code}\n{answer.err}")
        self.be_well()

    def progress_on_disk(self, before):
        """One of MET, of a checkpoint that began when that snapshot was the newest."""
        if fermata.newest_snapshot(self.job) != before:
            return "committed"
        return "being_written" if list(before.parent.glob("*.partial/*")) else "unwritten"

    def kill(self, hop):
        """Kills what the hop says; what that leaves behind is killed a little later, as a batch
        system would."""
        run = self.job.running
        everybody = [run.process.pid, *process.descendants(run.process.pid)]
        victims = self.victims(hop)
        check(victims and bool(self.daemons()) == self.plan.has_daemon,
              f"nobody to kill: {hop.end}")
        asked = None
        if "during" in hop.end:
            env = mpis.environment(FERMATA_DIR=str(self.work / "fermata"))
            before = fermata.newest_snapshot(self.job)
            asked = process.Running([fermata.FERMATA, *CHECKPOINT], self.work,
                                    name=f"killed{self.restarts}", env=env, cwd=self.work)
            time.sleep(hop.during * self.took_s)
            self.met[self.progress_on_disk(before)] += 1
        # Later it may well complain: the MPI tells ranks of a dead one by errors (seed 31342).
        check(not self.complaints(), process.tail(run.out))
        _kill(victims)
        self.killed = True
        answer = asked.wait(60) if asked else None
        if answer and answer.code == 0:
            self.committed(answer)
        if "a rank" in hop.end:
            check(run.wait(60).code != 0, "the job has lost a rank and says so")
        elif "daemon" in hop.end:
            self.be_lost()
        else:
            time.sleep(0.2 * hop.during)
        if "coordinator" in hop.end:
            check(not self.complaints(), process.tail(run.out))
        _kill(everybody)
        run.wait(30)
        _bury(pid for pid in everybody if pid != run.process.pid)

    # ---- the end --------------------------------------------------------------------------------

    def complaints(self):
        """What the program has found wrong: often the reason why something else failed."""
        run = self.job.running
        return re.findall(r"^FAIL .*$", run.out, re.M) if run else []

    def restart(self, mpi, before):
        self.check_asked()
        self.job.restart(mpi, self.local)
        self.restarts += 1
        self.promised = self.newest
        self.crossings += mpi != before

    def finish(self):
        """Lets the job end; calls that wait for a checkpoint get it."""
        run = self.job.running
        until = time.monotonic() + 120
        self.job.release()
        while run.process.poll() is None and time.monotonic() < until:
            if self.a_call_waits():
                self.checkpoint_if_not_too_late()
            time.sleep(0.003)
        out = self.job.finish(20)
        self.check_origin()
        self.check_asked()
        return sums(out)

    def checkpoint_if_not_too_late(self):
        try:
            self.checkpoint()
        except Failed as reason:
            if not any(text in str(reason) for text in LATE):
                raise

    def check_asked(self):
        """The program's own checkpoints, of this life."""
        answers = re.findall(r"^asked: (.*)\n", self.job.running.out, re.M)
        self.asked += answers.count("taken")
        good = (*GIVEN_UP, *LATE, TAKEN, *GONE * self.killed)
        for answer in answers:
            check(answer == "taken" or any(text in answer for text in good),
                  f"fermata_checkpoint: {answer}")
        self.killed = False


def _kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _bury(pids, timeout_s=20):
    """Waits until they have ended. Some have become children of ours."""
    until = time.monotonic() + timeout_s
    for pid in pids:
        while os.path.exists(f"/proc/{pid}"):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            check(time.monotonic() < until, f"process {pid} does not end")
            time.sleep(0.002)


def run(seed, options, work):
    """One seed. Prints its line; fails with what reproduces it."""
    plan = Plan(seed, options)
    chaos = Chaos(plan, work)
    began, why = time.monotonic(), "did not come to its end"
    try:
        expected, calls = native(plan, work)
        chaos.start(calls)
        mpi = plan.first
        for hop in plan.hops:
            chaos.hop(hop)
            chaos.restart(hop.next_mpi, mpi)
            mpi = hop.next_mpi
        found = chaos.finish()
        check(found == expected, f"sums {found}, natively {expected}")
        check(not plan.rest or options.steps < 2 * REST or chaos.asked > 0,
              "no checkpoint that the program asked for was taken")
        why = None
    except (Failed, TestTimeout) as reason:
        why = "\n".join([str(reason), *chaos.complaints()])
        ends = ", ".join(hop.end for hop in plan.hops)
        raise Failed(f"{plan} ({ends})\n{plan.reproduce()}\n{why}") from None
    finally:
        verdict = "FAIL" if why else "ok"
        record = {"seed": seed, "ranks": plan.ranks, "verdict": verdict, "why": why,
                  "checkpoints": chaos.checkpoints, "given_up": chaos.given_up,
                  "restarts": chaos.restarts, "crossings": chaos.crossings,
                  "calls": chaos.calls_met, "asked": chaos.asked,
                  **chaos.met,
                  "two_phases": int(plan.two_phases), "daemon": int(plan.has_daemon),
                  "asks": int(bool(plan.rest)), "itself": int(plan.saves_itself),
                  "serves": int(plan.serves),
                  "seconds": round(time.monotonic() - began, 1)}
        RECORDS.mkdir(parents=True, exist_ok=True)
        (RECORDS / f"{seed}.json").write_text(json.dumps(record))
        print(f"{plan}, {chaos.checkpoints} checkpoints ({chaos.given_up} given up), "
              f"{chaos.restarts} restarts ({chaos.crossings} under the other MPI): {verdict}")
