# SPDX-License-Identifier: Apache-2.0
"""Jobs of MPI programs whose collectives survive dead processes (lib/ftcoll/mpi): started so that a
death ends nobody else, killed at drawn moments, and compared call by call."""
import dataclasses
import functools
import os
import pathlib
import random
import shutil
import signal
import time

from support import mpis, process
from support.cases import Failed, check

LIBRARY = mpis.BUILD / "lib/ftcoll"
RANK_VARIABLES = {"openmpi": b"OMPI_COMM_WORLD_RANK=", "mpich": b"PMI_RANK="}
# Longer than a starved machine keeps a living process silent. A process that is killed is noticed
# by its connection, at once.
TIMEOUT_MS = 60_000
# Of MPI_Finalize too, which a process that dies in it holds up until then.
DEADLINE_MS = 100_000
TRANSPORTS = ("tcp", "ucx")
# UCX with what a machine for tests has, which is left out otherwise, as it listens to anybody. Who
# connects to that address comes from 127.0.0.1, so the others are on other hosts.
UCX = {"FTCOLL_TRANSPORT": "ucx", "FTCOLL_UCX_TLS": "tcp", "FTCOLL_UCX_NET_DEVICES": "lo",
       "FTCOLL_ADDRESS": "127.0.0.2"}
# Of a job's calls: victims die before, and wait there for it (kills.c).
LATEST = 0.8
OK, ROOT_DIED = 0, 1  # ftcoll.h
ALLREDUCE, BCAST, REDUCE, BARRIER, OTHER_ALLREDUCE = range(5)  # kills.c
WAIT_FOR_ALL = (ALLREDUCE, BARRIER, OTHER_ALLREDUCE)


def program(mpi, name):
    return mpis.program(mpi, f"ftcoll/{name}")


def over(transport):
    """What the environment of a job says for that."""
    return UCX if transport == "ucx" else {"FTCOLL_TRANSPORT": transport}


def environment(**more):
    return mpis.environment(FTCOLL_TIMEOUT_MS=str(TIMEOUT_MS),
                            FTCOLL_DEADLINE_MS=str(DEADLINE_MS), **more)


def surviving(mpi, ranks):
    """mpirun, up to the program, so that the others continue when one dies."""
    native = mpis.mpirun(mpi, ranks)
    if mpi == "openmpi":
        return [native[0], "--enable-recovery", *native[1:]]
    return [native[0], "-disable-auto-cleanup", *native[1:], LIBRARY / "survive"]


def ranks_of(mpi, root, program):
    """Rank -> pid of the living processes below `root` that run the program."""
    found = {}
    for pid in process.descendants(root):
        try:
            if not os.path.samefile(f"/proc/{pid}/exe", program):
                continue
            words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        name = RANK_VARIABLES[mpi]
        found.update({int(word[len(name):]): pid for word in words if word.startswith(name)})
    return found


def ranks_under_fermata(mpi, root):
    """The same of a job of Fermata's, whose ranks are its launcher."""
    launchers = mpis.BUILD / "libexec/fermata/launcher"
    return ranks_of(mpi, root, launchers)


def hold(work, ranks):
    """Keeps these from their last calls: they are to be killed, however late that comes."""
    for rank in ranks:
        (work / f"hold.{rank}").touch()


def kill(find, running, rank):
    """Kills a rank that `find` finds below a process. False: it was gone already."""
    pid = find(running.process.pid).get(rank)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@dataclasses.dataclass
class Outcome:
    """What has become of the calls of a job."""
    calls: int = 0      # of which some process has a result
    killed: int = 0
    hung: int = 0       # processes that had to be ended
    different: int = 0  # calls of which two processes know something else, or a value is wrong
    longest_us: int = 0
    why: str = ""

    def add(self, other):
        self.calls += other.calls
        self.killed += other.killed
        self.hung += other.hung
        self.different += other.different
        self.longest_us = max(self.longest_us, other.longest_us)
        self.why = self.why or other.why

    @property
    def is_good(self):
        return self.hung == 0 and self.different == 0


def read(work, ranks):
    """Rank -> its calls: [what all have to agree on, microseconds]. The last line of one who was
    killed may be half a line."""
    said = {}
    for rank in range(ranks):
        path = work / str(rank)
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        said[rank] = [line.rsplit(" ", 1) for line in lines]
    return said


def kind_of(text, is_mixed):
    return int(text.split()[0]) % 5 if is_mixed else ALLREDUCE


def certain(lines, calls, is_mixed):
    """The calls of a process that all must agree with. Who died may have had results of its last
    calls that no living process has heard of: of all that came after the last but one for which it
    had to wait for the others."""
    if len(lines) == calls:
        return lines
    waited = [at for at, (text, _took) in enumerate(lines)
              if kind_of(text, is_mixed) in WAIT_FOR_ALL]
    return lines[:waited[-2] + 1] if len(waited) > 1 else []


def is_right(text, ranks):
    """Whether an allreduce of one value holds those who are not missing, each once."""
    _call, code, value, missing = text.split()
    if int(code) != OK:
        return False
    return int(value, 16) + int(missing, 16) == (1 << ranks) - 1


def judge(said, ranks, is_mixed, outcome):
    """Compares what the processes have said, call by call."""
    calls = max((len(lines) for lines in said.values()), default=0)
    outcome.calls = calls
    said = {rank: certain(lines, calls, is_mixed) for rank, lines in said.items()}
    for call in range(calls):
        texts = {lines[call][0] for lines in said.values() if len(lines) > call}
        text = min(texts)
        kind = kind_of(text, is_mixed)
        code = int(text.split()[1])
        # A broadcast or a reduction whose root has died has no result.
        is_known = code == OK or code == ROOT_DIED and kind in (BCAST, REDUCE)
        if len(texts) > 1 or not is_known or kind == ALLREDUCE and not is_right(text, ranks):
            outcome.different += 1
            outcome.why = outcome.why or f"call {call}: {sorted(texts)}"
    outcome.longest_us = max((int(took) for lines in said.values() for _text, took in lines),
                             default=0)


def run(mpi, work, seed, ranks, calls, kills, is_mixed, transport="tcp", limit_s=240):
    """One job of so many ranks, of which `kills` are killed after drawn numbers of calls."""
    draw = random.Random(seed)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    path, outcome = program(mpi, "kills"), Outcome()
    victims = draw.sample(range(ranks), kills)
    hold(work, victims)
    command = [*surviving(mpi, ranks), path, calls, 0, int(is_mixed), work]
    env = environment(**over(transport))
    running = process.Running(command, work, env=env, cwd=work)
    find = functools.partial(ranks_of, mpi, program=path)
    moments = sorted(draw.randrange(1, max(2, int(calls * LATEST))) for _ in victims)
    until = time.monotonic() + limit_s
    for victim, moment in zip(victims, moments, strict=True):
        while running.process.poll() is None and time.monotonic() < until:
            if has_reached(work / str(victim), moment):
                time.sleep(draw.random() * 0.002)
                outcome.killed += kill(find, running, victim)
                break
            time.sleep(0.001)
    while running.process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    if running.process.poll() is None:
        outcome.hung = len(ranks_of(mpi, running.process.pid, path)) or 1
        outcome.why = f"still running after {limit_s} s\n{process.tail(running.err)}"
        process.kill_tree(running.process.pid)
        running.process.wait()
    said = read(work, ranks)
    judge(said, ranks, is_mixed, outcome)
    ended = sum(len(lines) == calls for lines in said.values())
    if not outcome.hung and ended < ranks - outcome.killed:
        # Whoever was not killed has to come to its end.
        outcome.hung = ranks - outcome.killed - ended
        outcome.why = outcome.why or (f"{ended} of {ranks} ended, {outcome.killed} were killed\n"
                                      f"{process.tail(running.out)}\n{process.tail(running.err)}")
    return outcome


def has_reached(path, calls):
    """Whether a process has written so many calls into its file."""
    try:
        return path.read_bytes().count(b"\n") >= calls
    except OSError:
        return False


def expect_good(outcome, what):
    check(outcome.is_good, f"{what}: {outcome}")
    if outcome.calls == 0:
        raise Failed(f"{what}: no call has ended")
