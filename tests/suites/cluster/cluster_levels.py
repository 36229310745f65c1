# SPDX-License-Identifier: Apache-2.0
"""Snapshots that stay on the hosts of their job: a host dies with its disk, and the job continues
from what the others have. Only with --cluster."""
import shutil
import time

from support import errors, mpis
from support.cases import check, check_equal, timeout
from support.cluster import Cluster
from support.cluster_job import Job, expected

HOSTS = 4
HOW = {"partner": "rank 2 of node2: from the copy on node",
       "xor": "rank 2 of node2: rebuilt from xor set 0 (node0, node1, node3)"}


def _wait_for_level(job, number, level):
    until, said = time.monotonic() + 60, f"checkpoint {number}: {level} is done"
    while said not in job.log():
        check(time.monotonic() < until, f"no {said!r} in the log:\n{job.log()}")
        time.sleep(0.05)


def _own(level):
    return ["--local-dir", "/tmp/images", "--levels", f"local,{level}"]


def _begun(cluster, mpi, level, *more):
    """With a checkpoint that has reached this level."""
    job = Job(cluster, mpi, directory="/tmp/jobs")
    job.start(mpi, HOSTS, *_own(level), *more)
    job.wait_for_step(4)
    job.command("checkpoint", "job").expect_success("checkpoint")
    _wait_for_level(job, 1, level)
    return job


def _lose(cluster, name):
    """With all that it has."""
    cluster.kill(name)
    shutil.rmtree(cluster.tmp(name))


def _lost_host(level, mpi):
    @timeout(300)
    def test(work):
        with Cluster(work, HOSTS) as cluster:
            job = _begun(cluster, mpi, level)
            check_equal(job.snapshots(), [], "snapshots in the job's directory")
            _lose(cluster, "node2")
            job.running.wait(90)
            job.restart(mpi, None)
            job.running.wait_for("checkpoint 1 is taken from the hosts", 90)
            job.wait_for_step(8)
            check(HOW[level] in job.running.err, job.running.err)
            job.command("checkpoint", "job").expect_success("checkpoint on three hosts")
            _wait_for_level(job, 2, level)
            check_equal(job.checksum(), expected(), "checksum")
    return test


def _retried(mpi):
    @timeout(300)
    def test(work):
        """Nobody types anything."""
        with Cluster(work, HOSTS) as cluster:
            job = _begun(cluster, mpi, "xor", "--retries", "1")
            _lose(cluster, "node2")
            job.running.wait_for("from checkpoint 1 (retry 1 of 1)", 150)
            check(HOW["xor"] in job.running.err, job.running.err)
            check_equal(job.checksum(), expected(), "checksum")
    return test


@timeout(120)
def test_levels_are_refused_where_there_are_none(work):
    with Cluster(work, 1) as cluster:
        job = Job(cluster, "openmpi")
        words = ["run", "--mpi", "openmpi", "--name", "job"]
        for more, said in (
                (["--levels", "local,xor"], "nobody says where"),
                (["--levels", "local,xor", "--local-dir", "/tmp/i"], "this one is on one"),
                (["--levels", "xor", "--local-dir", "/tmp/i"], "the first level is local"),
                (["--levels", "local,rs2", "--local-dir", "/tmp/i", "--host", "a,b", "-n", "2"],
                 "2 parities need 3 hosts")):
            answer = job.command(*words, *more, "--", *job.program)
            check_equal(answer.code, errors.USAGE, f"code: {answer.err}")
            check(said in answer.err, answer.err)


def generate():
    tests = {}
    for mpi in mpis.MPIS:
        tests[f"test_a_lost_host_is_retried_{mpi}"] = _retried(mpi)
        for level in HOW:
            tests[f"test_a_host_and_its_disk_are_lost_{level}_{mpi}"] = _lost_host(level, mpi)
    return tests
