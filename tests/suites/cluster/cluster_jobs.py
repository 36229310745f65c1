# SPDX-License-Identifier: Apache-2.0
"""Jobs over several hosts of a virtual cluster (tests/cluster), under the mpirun of each MPI:
saved, continued with all ranks on one host, and back; hosts that share no disk.
Only with --cluster."""
import json
import time

from support import mpis, process
from support.cases import check, check_equal, timeout
from support.cluster import Cluster
from support.cluster_job import Job, expected, hosts_of_ranks
from support.fermata import newest_snapshot

def _there_and_back(count, first, second):
    @timeout(400)
    def test(work):
        with Cluster(work, count) as cluster:
            job = Job(cluster, first)
            job.start(first, count)
            job.wait_for_step(4)
            job.stop()
            each = 4 // count
            check_equal(hosts_of_ranks(newest_snapshot(job)),
                        [name for name in cluster.hosts for _ in range(each)], "hosts of ranks")
            job.restart(second, 1)
            job.wait_for_step(9)
            job.stop()
            check_equal(set(hosts_of_ranks(newest_snapshot(job))), {"node0"}, "hosts of ranks")
            job.restart(first, count)
            job.wait_for_step(14)
            check_equal(job.checksum(), expected(), "checksum")
    return test


@timeout(200)
def test_the_hosts_of_a_job_tell_how_they_fare(work):
    with Cluster(work, 2) as cluster:
        job = Job(cluster, "openmpi")
        job.start("openmpi", 2)
        job.wait_for_step(4)

        def hosts():
            told = job.command("nodes", "job", "--json", host="node1").expect_success("nodes")
            return json.loads(told.out)

        # What a daemon has told is there some seconds after it has begun.
        process.wait_until(lambda: all(host["memory"] for host in hosts()), "each host's memory")
        check_equal([(host["host"], host["ranks"]) for host in hosts()],
                    [("node0", [0, 1]), ("node1", [2, 3])], "hosts")
        check(all(0 <= host["cpu"] <= 1 and host["space"] > 0 for host in hosts()), hosts())
        job.stop()


def _under_foreign_mpirun(mpi):
    @timeout(200)
    def test(work):
        with Cluster(work, 2) as cluster:
            job = Job(cluster, mpi)
            job.exec(mpi, 2)
            job.wait_for_step(4)
            # From the host that has no coordinator: over TCP, with the secret of the directory.
            taken = job.command("checkpoint", "job", host="node1")
            taken.expect_success("checkpoint from another host")
            job.wait_for_step(8)
            job.stop()
            check_equal(len(set(hosts_of_ranks(newest_snapshot(job)))), 2, "hosts")
            job.exec(mpi, 2, "--restore", str(newest_snapshot(job)))
            check_equal(job.checksum(), expected(), "checksum")
    return test


def _without_shared_directory(first, second):
    @timeout(300)
    def test(work):
        """Jobs in node0's own /tmp; every host keeps images in its own /tmp first."""
        with Cluster(work, 2) as cluster:
            job = Job(cluster, first, directory="/tmp/jobs")
            job.start(first, 2, "--local-dir", "/tmp/images")
            job.wait_for_step(4)
            job.stop()
            job.command("verify", "job").expect_success("verify")
            job.restart(second, 2, "--local-dir", "/tmp/images")
            job.wait_for_step(9)
            job.stop()
            job.restart(first, 1)
            check_equal(job.checksum(), expected(), "checksum")
            time.sleep(1)
            for name in cluster.hosts:
                left = cluster.run(name, "ls -A /tmp/images 2>/dev/null").out
                check_equal(left, "", f"images that stay behind on {name}")
    return test


@timeout(100)
def test_a_directory_that_is_not_shared_is_refused(work):
    """At the start, with host, directory and hint; even if something of that name is there."""
    with Cluster(work, 2) as cluster:
        cluster.run("node1", "mkdir -p /tmp/jobs/job/snapshots")
        job = Job(cluster, "openmpi", directory="/tmp/jobs")
        job.start("openmpi", 2)
        ended = job.running.wait(40)
        check(ended.code != 0, "the run is refused")
        for word in ("host node1", "/tmp/jobs/job", "of host node0", "--local-dir"):
            check(word in ended.err, f"{word!r} in {ended.err!r}")
        check("step 1" not in ended.out, "nothing has run")


@timeout(120)
def test_the_secret_is_for_several_hosts_and_on_no_command_line(work):
    with Cluster(work, 2) as cluster:
        job = Job(cluster, "openmpi", ranks=2)
        job.start("mpich", 1)
        job.wait_for_step(2)
        check(not (work / "fermata/job/secret").exists(), "a secret for one host")
        job.stop()
        job.restart("openmpi", 2)
        job.wait_for_step(6)
        secret = (work / "fermata/job/secret").read_text()
        check_equal((work / "fermata/job/secret").stat().st_mode & 0o777, 0o600, "mode")
        for name in cluster.hosts:
            lines = cluster.run(name, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").out
            check("--steps" in lines, f"ranks run on {name}")
            check(secret not in lines, f"the secret is on a command line of {name}")
        ranks = cluster.run("node1", "for p in /proc/[0-9]*; do "
                            "case $(readlink $p/exe) in */fermata/launcher) "
                            "tr '\\0' '\\n' < $p/environ | grep -c FERMATA_SECRET;; esac; done").out
        check_equal(set(ranks.split()), {"0"}, "the application does not see the secret")
        check_equal(job.checksum(), expected(2), "checksum")


# Writes what passes a port of the switch to a file.
SNIFFER = """
import socket, sys
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
port.bind((sys.argv[1], 0))
print("listens", flush=True)
with open(sys.argv[2], "wb", buffering=0) as heard:
    while True:
        heard.write(port.recv(65536))
"""


def _make_secret_on_the_network(mpi):
    @timeout(120)
    def test(work):
        """Who hears the network could be a command of the run. mpirun handed the secret over."""
        (work / "sniffer.py").write_text(SNIFFER)
        heard = work / "heard"
        with Cluster(work, 2) as cluster:
            sniffer = process.Running(
                ["nsenter", "-t", cluster.switch.pid, "-n", "python3", work / "sniffer.py", "v1",
                 heard], work, "sniffer")
            sniffer.wait_for("listens")
            job = Job(cluster, mpi, ranks=2)
            job.start(mpi, 2)
            job.wait_for_step(2)
            secret = (job.place / "secret").read_bytes()
            job.stop()
            process.kill_tree(sniffer.process.pid)
            crossed = heard.read_bytes()
            check(b"--job-dir" in crossed, "mpirun's own messages were not heard")
            check(secret not in crossed, "the secret of the run crosses the network in clear")
            check(b"FERMATA_SECRET" not in crossed, "its name does")
            job.restart(mpi, 1)
            check_equal(job.checksum(), expected(2), "checksum")
    return test


@timeout(150)
def test_directories_of_sockets_that_another_user_has_made(work):
    """On both hosts: ranks and daemon of a host come to the same other name."""
    with Cluster(work, 2) as cluster:
        for name in cluster.hosts:
            cluster.run(name, "mkdir -m 755 /tmp/fermata-0 && chown 65534 /tmp/fermata-0"
                        ).expect_success("mkdir")
        job = Job(cluster, "openmpi")
        job.start("openmpi", 2)
        job.wait_for_step(2)
        for name in cluster.hosts:
            made = cluster.run(name, "ls -d /tmp/fermata-0-*").out.split()
            check_equal(len(made), 1, f"directories of sockets on {name}: {made}")
        job.stop()
        job.restart("openmpi", 1)
        check_equal(job.checksum(), expected(), "checksum")


def generate():
    tests = {}
    for mpi in mpis.MPIS:
        name = f"test_the_secret_does_not_cross_the_network_{mpi}"
        tests[name] = _make_secret_on_the_network(mpi)
    for count in (2, 4):
        for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
            tests[f"test_{count}_hosts_{first}_then_one_{second}_and_back"] = _there_and_back(
                count, first, second)
    for mpi in mpis.MPIS:
        tests[f"test_under_the_mpirun_of_{mpi}"] = _under_foreign_mpirun(mpi)
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        tests[f"test_own_disks_{first}_then_{second}"] = _without_shared_directory(first, second)
    return tests
