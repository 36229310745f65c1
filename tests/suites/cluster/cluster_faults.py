# SPDX-License-Identifier: Apache-2.0
"""Hosts that are lost during a checkpoint, and strangers on the network. Nothing hangs, the message
names the host, the snapshot before continues with what is left. Only with --cluster."""
import json
import os
import pathlib
import re
import signal
import time

from support import errors, mpis, process
from support.cases import Failed, check, check_equal, slow, timeout
from support.cluster import Cluster
from support.cluster_job import Job, expected
from support.fermata import FERMATA, newest_snapshot

CLOCKS, IMAGES = "reading clocks", "writing images"
RESTARTED = "the snapshot before was restarted on the hosts that are left"


def _hold_a_rank(cluster):
    """A rank on node1 answers nothing any more."""
    os.kill(cluster.ranks("node1")[-1], signal.SIGSTOP)


def _hold_a_writer(cluster, until):
    """Stops the process that writes the image of a rank on node1, once there is one. False: it was
    over before it was seen."""
    ranks = cluster.ranks("node1")
    while time.monotonic() < until:
        for pid in ranks:
            for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                for child in children.read_text().split():
                    os.kill(int(child), signal.SIGSTOP)
                    return True
    return False


def _checkpoint(job, number):
    """`fermata checkpoint` in the background."""
    line = f"cd {job.work}; FERMATA_DIR={job.directory} {FERMATA} checkpoint job"
    return job.cluster.shell("node0", line, job.work, f"waiting{number}")


def _begin_and_hold(job, during):
    """Begins a checkpoint that stands still in this phase, because of a process on node1."""
    if during == CLOCKS:
        _hold_a_rank(job.cluster)
        waiting = _checkpoint(job, 1)
        until = time.monotonic() + 20
        while "checkpoint 2 begins" not in job.log():
            check(time.monotonic() < until, "checkpoint 2 did not begin")
            time.sleep(0.02)
        return waiting
    for number in range(1, 4):
        waiting = _checkpoint(job, number)
        if _hold_a_writer(job.cluster, time.monotonic() + 10):
            time.sleep(0.3)
            if waiting.process.poll() is None:
                return waiting
    raise Failed("no writer of an image could be stopped")


FAULTS = {  # how: what happens, and within how many seconds the checkpoint must have failed
    "killed_host": (lambda cluster: cluster.kill("node1"), 5),
    "cut_cable": (lambda cluster: cluster.cut("node1"), 25),
    "coordinators_cable": (lambda cluster: cluster.cut("node0"), 25),
    "killed_daemon": (lambda cluster: cluster.run(
        "node1", "kill -KILL $(pgrep -f 'fermata daemo[n]')"), 5),
}
CASES = {"killed_host": "a host dies", "cut_cable": "the network to a host is cut",
         "coordinators_cable": "the network of the coordinator's host is cut",
         "killed_daemon": "a host's daemon is killed"}


def _check_failed(job, waiting, how, during, within_s):
    began = time.monotonic()
    taken = waiting.wait(60)
    check(time.monotonic() - began < within_s, f"the answer took {time.monotonic() - began:.1f} s")
    case = f"{CASES[how]} while {during}"
    message = errors.record("Deaths during a checkpoint", case, taken, 1, RESTARTED)
    errors.expect(message, f"while {during}", "host node1 is lost with ranks 2, 3")


def _end(job):
    """Asks `fermata run` to end. Open MPI's mpirun waits for a silent host for a minute and more,
    whatever it is asked; MPICH's for ever."""
    began = time.monotonic()
    job.cluster.run("node0", "kill -TERM $(pgrep -x fermata)")
    job.running.wait(15)
    check(time.monotonic() - began < 12, f"the run ended in {time.monotonic() - began:.1f} s")
    until = time.monotonic() + 5
    while left := job.cluster.ranks("node0"):
        check(time.monotonic() < until, f"ranks that are left on node0: {left}")
        time.sleep(0.1)


def _restart(job, host, mpi):
    """On a host where ranks of the run that has lost its coordinator may still live."""
    line = f"restart job --here --mpi {mpi}"
    answer = job.command(line, host=host, timeout_s=90)
    if host == "node1" and answer.code == errors.REFUSED:
        errors.expect(answer.err, "rank 2 is process", f"on host {host}", "end them (kill)")
        for pid in job.cluster.ranks(host):
            os.kill(pid, signal.SIGKILL)
        answer = job.command(line, host=host, timeout_s=90)
    return answer.expect_success("restart")


def _lose(how, during, mpi):
    @timeout(300)
    def test(work):
        with Cluster(work, 2) as cluster:
            job = Job(cluster, mpi)
            job.start(mpi, 2)
            job.wait_for_step(4)
            job.command("checkpoint", "job").expect_success("first checkpoint")
            waiting = _begin_and_hold(job, during)
            before = newest_snapshot(job)
            happen, within_s = FAULTS[how]
            happen(cluster)
            _check_failed(job, waiting, how, during, within_s)
            check_equal(newest_snapshot(job), before, "newest snapshot")
            check_equal([p.name for p in before.parent.iterdir() if p.name.endswith(".partial")],
                        [], "rests")
            if job.running.process.poll() is None:
                _end(job)
            job.hold.unlink()
            host = "node1" if how == "coordinators_cable" else "node0"
            rest = _restart(job, host, mpis.OTHER[mpi])
            check_equal(mpis.checksum(rest.out), expected(), "checksum")
    return test


@timeout(300)
def test_a_host_with_images_of_its_own_dies(work):
    """Before the images are collected the checkpoint fails; a snapshot that exists needs none of
    the hosts' own disks. What the host left goes when it is used again."""
    with Cluster(work, 2) as cluster:
        job = Job(cluster, "openmpi", directory="/tmp/jobs")
        own = ["--local-dir", "/tmp/images"]
        job.start("openmpi", 2, *own)
        job.wait_for_step(4)
        job.command("checkpoint", "job").expect_success("first checkpoint")
        waiting = _begin_and_hold(job, IMAGES)
        cluster.kill("node1")
        errors.expect(waiting.wait(10).err, "writing images: host node1 is lost with ranks 2, 3",
                      "fermata restart job")
        job.running.wait(30)
        left = list((cluster.tmp("node1") / "images").iterdir())
        check_equal(len(left), 1, f"what node1 left: {left}")
        job.restart("mpich", 1)
        job.wait_for_step(8)
        job.stop()
        cluster.boot("node1")
        job.restart("openmpi", 2, *own)
        check_equal(job.checksum(), expected(), "checksum")
        until = time.monotonic() + 20
        while (left := list((cluster.tmp("node1") / "images").iterdir())):
            check(time.monotonic() < until, f"images that stay behind: {left}")
            time.sleep(0.2)


def _begun(work, cluster, mpi):
    """A job on two hosts, with one snapshot."""
    job = Job(cluster, mpi)
    job.start(mpi, 2)
    job.wait_for_step(4)
    job.command("checkpoint", "job").expect_success("checkpoint")
    return job


def _resumed(job, ended, why):
    """The run has not ended well, and says how to continue without the lost host."""
    check(ended.code != 0, f"the run's exit code is {ended.code}\n{ended.err}")
    check(f"job job has not ended well: {why}" in ended.err, ended.err)
    last = re.search(r"continue with: fermata (restart job --host node0 .*)$", ended.err.rstrip())
    check(last, f"the last line:\n{ended.err}")
    job.hold.unlink()
    rest = job.command(last[1]).expect_success("the command of the last line")
    check_equal(mpis.checksum(rest.out), expected(), "checksum")


def _silent(mpi):
    @slow
    @timeout(300)
    def test(work):
        """No mpirun ends by itself; nobody presses any key."""
        with Cluster(work, 2) as cluster:
            job = _begun(work, cluster, mpi)
            cluster.cut("node1")
            ended = job.running.wait(150)
            check("host node1 is silent" in ended.err, ended.err)
            _resumed(job, ended, "host node1 is lost with ranks 2, 3")
    return test


def _dead(mpi):
    @timeout(200)
    def test(work):
        with Cluster(work, 2) as cluster:
            job = _begun(work, cluster, mpi)
            cluster.kill("node1")
            _resumed(job, job.running.wait(60), "host node1 is lost with ranks 2, 3")
    return test


def _without_daemon(mpi):
    @timeout(200)
    def test(work):
        """Its ranks have nobody to tell that they come to MPI_Finalize."""
        with Cluster(work, 2) as cluster:
            job = _begun(work, cluster, mpi)
            FAULTS["killed_daemon"][0](cluster)
            job.running.wait_for("the daemon of host node1 has ended", 30)
            job.finish("PASS ")
            check("has not ended well" not in job.running.err, job.running.err)
    return test


@slow
@timeout(300)
def test_a_host_that_is_silent_for_a_while_is_not_lost(work):
    with Cluster(work, 2) as cluster:
        job = _begun(work, cluster, "openmpi")
        cluster.cut("node1")
        job.running.wait_for("host node1 is silent", 60)
        cluster.mend("node1")
        until = time.monotonic() + 60
        while job.command("checkpoint", "job").code:
            check(time.monotonic() < until, "no checkpoint after the host came back")
            time.sleep(0.5)
        check_equal(mpis.checksum(job.finish("PASS ")), expected(), "checksum")


STRANGER = '''
import os, socket, sys, time
host, port, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def line():
    s = socket.create_connection((host, port), 5)
    s.settimeout(10)
    return s
def closed(s):
    began = time.monotonic()
    try:
        while s.recv(4096): pass
    except ConnectionError: pass
    return time.monotonic() - began
if how == "garbage":
    for head in (b"", b"\\0\\x30", b"GET / HTTP/1.1\\r\\n\\r\\n", b"\\xff\\xff"):
        s = line()
        try: s.sendall(head + os.urandom(100000))
        except ConnectionError: pass
        print(f"{closed(s):.1f}")
elif how == "silent":
    print(f"{closed(line()):.1f}")
elif how == "slow":
    s, began = line(), time.monotonic()
    try:
        s.sendall(b"\\0\\x30")
        while time.monotonic() - began < 15:
            s.sendall(b"x")
            time.sleep(0.5)
    except ConnectionError: pass
    print(f"{time.monotonic() - began:.1f}")
else:
    many = [line() for _ in range(200)]
    print("there", flush=True)
    for s in many: closed(s)
    print("gone")
'''


def _ports(cluster, host):
    return [line for line in cluster.run(host, "ss -Htlnp").out.split("\n") if "fermata" in line]


@timeout(120)
def test_strangers_on_the_network(work):
    """Only the coordinator listens. Who does not know the secret is sent away at the first message
    or after seconds, and harms nobody."""
    stranger = work / "stranger.py"
    stranger.write_text(STRANGER)
    with Cluster(work, 2) as cluster:
        job = Job(cluster, "openmpi")  # waits for its hold file, however long strangers take
        job.start("openmpi", 2)
        job.wait_for_step(2)
        check_equal([len(_ports(cluster, name)) for name in cluster.hosts], [1, 0], "open ports")
        addresses = json.loads((job.place / "job.json").read_text())["addresses"]
        address = next(a for a in addresses if a.startswith("10.99.0.1:"))
        line = f"python3 {stranger} {address.replace(':', ' ')}"
        for how in ("garbage", "silent", "slow"):
            said = cluster.run("node1", f"{line} {how}").expect_success(how).out.split()
            check(said and all(float(word) < 7 for word in said), f"{how}: seconds {said}")
        many = cluster.shell("node1", f"{line} many", work, "many")
        many.wait_for("there", 20)
        job.command("checkpoint", "job").expect_success("checkpoint beside strangers")
        many.wait_for("gone", 20)
        job.command("checkpoint", "job", host="node1").expect_success("checkpoint over TCP")
        job.stop()
        for words in ("turned a guest away", "more away in a minute"):  # a few are told each
            check(words in job.log(), f"{words!r} in the log:\n{job.log()}")
        job.restart("openmpi", 1)
        process.wait_until(lambda: job.log().count("ranks are ready") == 2, "the restart", 60)
        check_equal(_ports(cluster, "node0"), [], "open ports of a job on one host")
        job.stop()


def generate():
    tests = {}
    for mpi in mpis.MPIS:
        tests[f"test_a_silent_host_ends_the_run_{mpi}"] = _silent(mpi)
        tests[f"test_a_dead_host_is_no_good_end_{mpi}"] = _dead(mpi)
        tests[f"test_a_killed_daemon_does_not_harm_the_job_{mpi}"] = _without_daemon(mpi)
    for how in FAULTS:
        for during in (CLOCKS, IMAGES):
            for mpi in mpis.MPIS:
                test = _lose(how, during, mpi)
                sample = mpi == "openmpi" and during == IMAGES
                name = f"test_{how}_while_{during.replace(' ', '_')}_{mpi}"
                tests[name] = test if sample else slow(test)
    return tests
