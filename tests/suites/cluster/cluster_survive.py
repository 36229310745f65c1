# SPDX-License-Identifier: Apache-2.0
"""Collectives that survive, over several hosts of a virtual cluster: ranks that are killed there,
hosts of which one is lost, and jobs that move to other hosts. Only with --cluster."""
import functools
import os
import signal
import time

from support import kills, process
from support.cases import check, check_equal, timeout
from support.cluster import Cluster
from support.cluster_job import LAUNCHERS, Job
from support.fermata import FERMATA

HOSTS, CALLS, MOMENT, VICTIM, SLOW = 4, 400, 60, 3, 1
MOVED_CALLS = 2000
# Longer than a silent host is waited for where the job would be begun again without it.
AFTER_SILENCE_S = 8
RECOVERY = {"openmpi": "--enable-recovery", "mpich": "-disable-auto-cleanup"}


# The only network between these hosts that UCX knows, and is told to take.
UCX = {"FTCOLL_TRANSPORT": "ucx", "FTCOLL_UCX_TLS": "tcp"}


def _environment(mpi, more=()):
    """For all hosts. Open MPI's mpirun takes there what it is told to."""
    values = {"FTCOLL_TIMEOUT_MS": str(kills.TIMEOUT_MS // 3),
              "FTCOLL_DEADLINE_MS": str(kills.DEADLINE_MS), **dict(more)}
    if mpi == "mpich":
        return "".join(f"{name}={value} " for name, value in values.items()), ""
    return "", " ".join(f"-x {name}={value}" for name, value in values.items())


def _start(cluster, mpi, said, networks, more):
    before, words = _environment(mpi, more)
    slots = ",".join(f"{name}:1" for name in cluster.hosts)
    mpirun = LAUNCHERS[mpi].format(rsh=cluster.rsh, slots=slots, ranks=HOSTS)
    if mpi == "openmpi" and networks > 1:
        words += " --mca btl_tcp_if_include eth0"
    mpirun = mpirun.replace(" ", f" {RECOVERY[mpi]} ", 1)
    survive = kills.LIBRARY / "survive" if mpi == "mpich" else ""
    line = (f"cd {cluster.work}; {before}{mpirun} {words} {survive} "
            f"{kills.program(mpi, 'kills')} {CALLS} 0 1 {said}")
    return cluster.shell("node0", line, cluster.work, "mpirun")


def _kill_the_rank(cluster, mpi):
    host = cluster.booted[cluster.hosts[VICTIM]].pid
    os.kill(kills.ranks_of(mpi, host, kills.program(mpi, "kills"))[VICTIM], signal.SIGKILL)


def _lose_the_host(cluster, _mpi):
    """No connection breaks, as when it loses power: nothing comes from it any more."""
    cluster.cut(cluster.hosts[VICTIM])
    cluster.kill(cluster.hosts[VICTIM])


def _has_ended(said):
    return all(kills.has_reached(said / str(rank), CALLS) for rank in range(HOSTS)
               if rank != VICTIM)


def _lost(mpi, networks, lose, more=()):
    @timeout(300)
    def test(work):
        said = work / "calls"
        said.mkdir()
        kills.hold(said, [VICTIM])
        with Cluster(work, HOSTS, networks) as cluster:
            running = _start(cluster, mpi, said, networks, more)
            reached = functools.partial(kills.has_reached, said / str(VICTIM), MOMENT)
            process.wait_until(reached, f"call {MOMENT} of rank {VICTIM}", 100)
            lose(cluster, mpi)
            process.wait_until(functools.partial(_has_ended, said), "the end of the others", 150)
            # The last rank's line may come after its calls; mpirun may wait for a lost host.
            for rank in set(range(HOSTS)) - {VICTIM}:
                running.wait_for(f"rank {rank} has come to its end", 60)
        outcome = kills.Outcome()
        kills.judge(kills.read(said, HOSTS), HOSTS, True, outcome)
        check_equal(outcome.different, 0, f"calls that differ: {outcome.why}\n{running.err}")
    return test


def _start_under_fermata(cluster, mpi, said):
    before, _ = _environment("mpich")  # fermata hands them to all hosts, under either MPI
    line = (f"cd {cluster.work}; {before} FERMATA_DIR={cluster.work / 'fermata'} {FERMATA} run "
            f"--survive --retries 1 --mpi {mpi} -n {HOSTS} --name job "
            f"--host {','.join(cluster.hosts)} --remote-shell {cluster.rsh} -- "
            f"{kills.program(mpi, 'kills')} {CALLS} 0 1 {said}")
    return cluster.shell("node0", line, cluster.work, "run")


def _silent_under_fermata(mpi):
    """One rank needs so long that the job would have been given up."""
    @timeout(300)
    def test(work):
        said = work / "calls"
        said.mkdir()
        kills.hold(said, [VICTIM, SLOW])
        with Cluster(work, HOSTS) as cluster:
            running = _start_under_fermata(cluster, mpi, said)
            reached = functools.partial(kills.has_reached, said / str(VICTIM), MOMENT)
            process.wait_until(reached, f"call {MOMENT} of rank {VICTIM}", 100)
            cluster.cut(cluster.hosts[VICTIM])
            last = functools.partial(kills.has_reached, said / str(SLOW), CALLS // 5 * 4)
            process.wait_until(last, f"the last calls but those that rank {SLOW} waits with", 100)
            time.sleep(AFTER_SILENCE_S)
            (said / f"hold.{SLOW}").unlink()
            result = running.wait(150)
        outcome = kills.Outcome()
        kills.judge(kills.read(said, HOSTS), HOSTS, True, outcome)
        check_equal(outcome.different, 0, f"calls that differ: {outcome.why}\n{result.err}")
        check_equal(result.code, 0, f"exit code\n{result.err}")
        check("the others have come to their end" in result.err, result.err)
        check("begun again" not in result.err, result.err)
    return test


def _moved(mpi, other):
    """From one host to all, and from there to two, each time in the midst of calls."""
    @timeout(300)
    def test(work):
        said = work / "calls"
        said.mkdir()
        kills.hold(said, range(HOSTS))

        def get_on():
            """Each comes some calls further than it has ever been."""
            for rank, before in kills.read(said, HOSTS).items():
                call = min(len(before) + MOMENT, MOVED_CALLS // 5 * 4)
                reached = functools.partial(kills.has_reached, said / str(rank), call)
                process.wait_until(reached, f"call {call} of rank {rank}", 100)
        settings, _ = _environment("mpich")
        words = [kills.program(mpi, "kills"), MOVED_CALLS, 0, 1, said]
        with Cluster(work, HOSTS) as cluster:
            job = Job(cluster, mpi, ranks=HOSTS, program=["env", *settings.split(), *words])
            job.start(mpi, 1, "--survive")
            for next_mpi, hosts in [(other, HOSTS), (mpi, 2)]:
                get_on()
                job.stop()
                job.restart(next_mpi, hosts, "--survive")
            get_on()
            for rank in range(HOSTS):
                (said / f"hold.{rank}").unlink()
            job.finish("has come to its end", 150)
        outcome = kills.Outcome()
        kills.judge(kills.read(said, HOSTS), HOSTS, True, outcome)
        check_equal(outcome.different, 0, f"calls that differ: {outcome.why}")
    return test


def generate():
    return {"test_a_rank_is_killed_openmpi": _lost("openmpi", 1, _kill_the_rank),
            "test_a_rank_is_killed_mpich": _lost("mpich", 2, _kill_the_rank),
            # Open MPI's mpirun ends the job when a remote shell that it has started breaks off.
            "test_a_host_is_lost_mpich": _lost("mpich", 1, _lose_the_host),
            "test_a_rank_is_killed_openmpi_ucx": _lost("openmpi", 1, _kill_the_rank, UCX),
            "test_a_host_is_lost_mpich_ucx": _lost("mpich", 1, _lose_the_host, UCX),
            "test_a_host_is_silent_openmpi": _silent_under_fermata("openmpi"),
            "test_a_host_is_silent_mpich": _silent_under_fermata("mpich"),
            "test_moved_openmpi": _moved("openmpi", "mpich"),
            "test_moved_mpich": _moved("mpich", "openmpi")}
