# SPDX-License-Identifier: Apache-2.0
"""Jobs over hosts of the virtual cluster that keep their snapshots there, level by level."""
import shutil
import time

from support.cases import check
from support.cluster_job import Job

LOCAL_DIR = "/tmp/images"


def kept_on_hosts(levels):
    """Options of a run. `levels`: those after `local`."""
    return ["--local-dir", LOCAL_DIR, "--levels", f"local,{levels}"]


def wait_for_log(job, *said, timeout_s=60):
    """Until the coordinator's log has one of these, which is returned."""
    until = time.monotonic() + timeout_s
    while True:
        log = job.log()
        found = [text for text in said if text in log]
        if found:
            return found[0]
        check(time.monotonic() < until, f"none of {said} in the log:\n{log}")
        time.sleep(0.05)


def wait_for_level(job, number, level, timeout_s=60):
    wait_for_log(job, f"checkpoint {number}: {level} is done", timeout_s=timeout_s)


def begun(cluster, mpi, hosts, levels, *more, directory="/tmp/jobs"):
    """With a checkpoint that has reached the last of these levels."""
    job = Job(cluster, mpi, directory=directory)
    job.start(mpi, hosts, *kept_on_hosts(levels), *more)
    job.wait_for_step(4)
    job.command("checkpoint", "job").expect_success("checkpoint")
    wait_for_level(job, 1, levels.split(",")[-1])
    return job


def lose(cluster, name):
    """A host with all that it has."""
    cluster.kill(name)
    shutil.rmtree(cluster.tmp(name))


def store_of(cluster, name):
    """What a host keeps of the job, seen from the test."""
    found = list((cluster.tmp(name) / "images").glob("levels-*/job.*@*"))
    check(len(found) == 1, f"{name} keeps {found}")
    return found[0]


def check_on_hosts(cluster, job, number, level):
    """The snapshot that the job was restarted from lies on its hosts, and gets to a level there.
    The job's directory has no more than the heads of its images."""
    wait_for_log(job, f"checkpoint {number}: {level} is done")
    snapshot, = (path for path in job.snapshots() if path.name == str(number))
    for image in snapshot.glob("rank-*.img"):
        held = image.stat().st_blocks * 512
        check(held < image.stat().st_size // 2, f"{image} holds {held} bytes")
    job.command("verify", f"{job.directory}/job/snapshots/{number}").expect_success("verify")
    refused = job.command("restart", f"{job.directory}/job/snapshots/{number}")
    check("lie on" in refused.err and refused.code != 0, refused.err)


def wait_until_kept(cluster, name, numbers):
    """Until a host has just these snapshots: what is old goes behind the job."""
    until = time.monotonic() + 20
    while True:
        found = sorted(path.name.split("-")[0] for path in store_of(cluster, name).iterdir())
        if found == numbers:
            return
        check(time.monotonic() < until, f"{name} keeps {found}, not {numbers}")
        time.sleep(0.05)
