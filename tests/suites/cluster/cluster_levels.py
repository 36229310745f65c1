# SPDX-License-Identifier: Apache-2.0
"""Snapshots that stay on the hosts of their job: hosts die with their disks, and the job continues
from what the others have. Only with --cluster."""
import pathlib
import re
import time

from support import mpis, process
from support.cases import check, check_equal, timeout
from support.cluster import Cluster
from support.cluster_job import Job, expected
from support.fermata import wait_until_restarted
from support.levels import (begun, check_on_hosts, kept_on_hosts, lose, store_of, wait_for_level,
                            wait_until_kept)

HOSTS = 4
HOW = {"partner": ("rank 2 of node2: from the copy on node",),
       "xor": ("rank 2 of node2: rebuilt from xor set 0 (node0, node1, node3)",),
       "rs2": ("rank 2 of node2: rebuilt from rs2 set 0 (node0, node1)",
               "rank 3 of node3: rebuilt from rs2 set 0 (node0, node1)")}
# Costs are measured; what fails makes it a checkpoint in about a second.
MACHINE = """\
nodes = 4
bytes-per-node = "2MB"
relaunch = "1s"
bandwidth = { local = "200MB", network = "200MB" }
failure = [{ name = "rank", mttf = "3m" }, { name = "node", mttf = "2d" },
           { name = "system", mttf = "1y" }]
level = [{ kind = "shared", bandwidth = "100MB" }]
"""
LOST = {"rs2": ("node2", "node3")}


def _lost_host(level, mpi):
    lost = LOST.get(level, ("node2",))
    left = HOSTS - len(lost)

    @timeout(300)
    def test(work):
        with Cluster(work, HOSTS) as cluster:
            job = begun(cluster, mpi, HOSTS, level)
            check_equal(job.snapshots(), [], "snapshots in the job's directory")
            for name in lost:
                lose(cluster, name)
            job.running.wait(90)
            check("checkpoint 1 is kept on its hosts; continue with: " in job.running.err,
                  job.running.err)
            # One that was lost is known to the record.
            job.restart(mpi, None if len(lost) == 1 else left)
            job.running.wait_for("checkpoint 1 is taken from the hosts", 90)
            wait_until_restarted(job)
            check("not restarted where images lie" not in job.running.err, job.running.err)
            for sentence in HOW[level]:
                check(sentence in job.running.err, job.running.err)
            check_on_hosts(cluster, job, 1, level if len(lost) == 1 else "xor")
            job.command("checkpoint", "job").expect_success("checkpoint on those left")
            wait_for_level(job, 2, level if len(lost) == 1 else "xor")
            check_equal(job.checksum(), expected(), "checksum")
    return test


def _retried(mpi):
    @timeout(300)
    def test(work):
        """Nobody types anything."""
        with Cluster(work, HOSTS) as cluster:
            job = begun(cluster, mpi, HOSTS, "xor", "--retries", "1")
            lose(cluster, "node2")
            job.running.wait_for("from checkpoint 1 (retry 1 of 1)", 150)
            check(HOW["xor"][0] in job.running.err, job.running.err)
            check_equal(job.checksum(), expected(), "checksum")
    return test


@timeout(300)
def test_a_plan_says_which_levels_are_made_when(work):
    """Where ranks fail much more often than hosts, not each snapshot is copied."""
    with Cluster(work, HOSTS) as cluster:
        (cluster.tmp("node0") / "machine.toml").write_text(MACHINE)
        job = Job(cluster, "mpich", directory="/tmp/jobs")
        job.start("mpich", HOSTS, *kept_on_hosts("partner,shared"), "--every", "auto",
                  "--machine", "/tmp/machine.toml")
        job.wait_for_step(4)
        copied = re.compile(r"checkpoint (\d+): partner is done")
        process.wait_until(lambda: len(copied.findall(job.log())) >= 2, "two copies", 120)
        first, second = map(int, copied.findall(job.log())[:2])
        check(second > first + 1, f"checkpoints {first} and {second} were copied\n{job.log()}")
        lose(cluster, "node2")
        job.running.wait(90)
        job.restart("mpich", None)
        job.running.wait_for("is taken from the hosts", 90)
        taken = re.search(r"checkpoint (\d+) is taken from the hosts", job.running.err)
        check(int(taken[1]) >= second, job.running.err)
        # What was made anew on the hosts that are left gets all levels, the directory's too.
        wait_for_level(job, int(taken[1]), "shared")
        check_equal(job.checksum(), expected(), "checksum")


@timeout(300)
def test_levels_take_no_more_than_they_may(work):
    """Of bandwidth and of processors."""
    rate = 1_000_000
    with Cluster(work, HOSTS) as cluster:
        job = begun(cluster, "mpich", HOSTS, "partner", "--level-rate", f"{rate}",
                    "--service-cores", "0")
        job.command("checkpoint", "job").expect_success("checkpoint")
        since = time.monotonic()
        wait_for_level(job, 2, "partner")
        took = time.monotonic() - since
        images = [path.stat().st_size for path in store_of(cluster, "node0").glob("2-*/rank-*")]
        most = max(images) / rate
        check(most - 1 < took < 3 * most + 5, f"{took:.1f} s for images of {images} bytes")
        for name in cluster.hosts:
            daemon, = (pid for pid in process.descendants(cluster.booted[name].pid)
                       if b"\0daemon\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
            status = pathlib.Path(f"/proc/{daemon}/status").read_text()
            check("Cpus_allowed_list:\t0\n" in status, status)
        check_equal(job.checksum(), expected(), "checksum")


def _shared(mpi):
    @timeout(300)
    def test(work):
        """The last level is a snapshot as any other, and older ones go. With it in the directory
        the hosts are not needed: all but the first are lost."""
        with Cluster(work, HOSTS) as cluster:
            job = begun(cluster, mpi, HOSTS, "xor,shared", "--keep", "1")
            check_equal([path.name for path in job.snapshots()], ["1"], "snapshots")
            job.command("checkpoint", "job").expect_success("checkpoint")
            wait_for_level(job, 2, "shared")
            check_equal([path.name for path in job.snapshots()], ["2"], "snapshots")
            job.command("verify", str(job.directory) + "/job/snapshots/2").expect_success("verify")
            for name in ("node1", "node2", "node3"):
                wait_until_kept(cluster, name, ["2"])
                lose(cluster, name)
            job.running.wait(90)
            job.restart(mpi, 1)
            check_equal(job.checksum(), expected(), "checksum")
    return test


@timeout(300)
def test_what_earlier_runs_have_left_goes(work):
    with Cluster(work, HOSTS) as cluster:
        job = begun(cluster, "mpich", HOSTS, "xor", "--keep", "1")
        job.stop()
        job.restart("mpich", None)
        job.running.wait_for("checkpoint 2 is taken from the hosts", 90)
        wait_until_restarted(job)
        job.command("checkpoint", "job").expect_success("checkpoint")
        wait_for_level(job, 3, "xor")
        for name in cluster.hosts:
            wait_until_kept(cluster, name, ["3"])
        check_equal(job.checksum(), expected(), "checksum")


@timeout(300)
def test_two_jobs_of_one_name_each_have_their_own(work):
    with Cluster(work, HOSTS) as cluster:
        jobs = [begun(cluster, "mpich", HOSTS, "xor", directory=directory)
                for directory in ("/tmp/jobs", "/tmp/jobs.2")]
        jobs[1].command("checkpoint", "job").expect_success("checkpoint of the second alone")
        for job in jobs:
            job.stop()
        for job, newest in zip(jobs, (2, 3)):
            job.restart("mpich", None)
            job.running.wait_for(f"checkpoint {newest} is taken from the hosts", 90)
            wait_until_restarted(job)
        for job in jobs:
            check_equal(job.checksum(), expected(), "checksum")


def _changed(hosts, taken, *sentences):
    @timeout(300)
    def test(work):
        """A byte of what these hosts keep has changed: it is rebuilt, or the snapshot before is
        restarted."""
        with Cluster(work, HOSTS) as cluster:
            job = begun(cluster, "openmpi", HOSTS, "xor")
            job.command("checkpoint", "job").expect_success("checkpoint")
            wait_for_level(job, 2, "xor")
            job.finish("PASS ")
            for name in hosts:
                path, = store_of(cluster, name).glob(f"2-*/rank-{name[4:]}.img")
                data = bytearray(path.read_bytes())
                data[len(data) // 2] ^= 1
                path.write_bytes(data)
            job.restart("openmpi", None)
            job.running.wait_for(f"checkpoint {taken} is taken from the hosts", 90)
            for sentence in sentences:
                check(sentence in job.running.err, job.running.err)
            check_equal(job.checksum(), expected(), "checksum")
    return test


def generate():
    tests = {
        "test_a_changed_image_is_rebuilt": _changed(
            ["node1"], 2, "checkpoint 2, images on node1: ",
            "rank 1 of node1: rebuilt from xor set 0 (node0, node2, node3)"),
        "test_two_changed_images_of_a_set_are_not": _changed(["node1", "node2"], 1),
    }
    for mpi in mpis.MPIS:
        tests[f"test_a_lost_host_is_retried_{mpi}"] = _retried(mpi)
        tests[f"test_the_shared_directory_is_the_last_level_{mpi}"] = _shared(mpi)
        for level in HOW:
            tests[f"test_lost_with_their_disks_{level}_{mpi}"] = _lost_host(level, mpi)
    return tests
