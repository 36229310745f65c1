# SPDX-License-Identifier: Apache-2.0
"""Every fault of spec/faults.toml at the points of a level, in the daemon of one host of four: it
is killed, or slow, or its disk is full. The job runs to its end; then another host is lost with its
disk, and the rest restarts from the newest snapshot that it can rebuild. Which that is,
docs/evidence/faults.md says. Only with --cluster."""
import time

from support import mpis
from support.cases import check, check_equal, timeout
from support.cluster import HOST, Cluster
from support.cluster_job import expected
from support.faults import ON_HOSTS, POINTS, RAN_ON, record, wanted
from support.levels import begun, lose, wait_for_log

HOSTS = 4
SLEEP_MS = 2500
NO_SPACE = 28
DAEMON = "pgrep -f 'fermata daemo[n]'"
WHAT = {"kill": "kill", "sleep": f"sleep:{SLEEP_MS}", "error": f"error:{NO_SPACE}"}
RSH = """#!/bin/sh
while case $1 in -*) true ;; *) false ;; esac; do shift; done
host=$1
shift
[ "$host" != node2 ] || set -- "export FERMATA_FAULT={fault};" "$@"
exec python3 {python} shell {state} "$host" "$@"
"""


def _arm(cluster, fault):
    """Whatever mpirun starts on node2 has it; a daemon is started by the first rank there."""
    cluster.rsh = cluster.state / "faulty-rsh"
    cluster.rsh.write_text(RSH.format(fault=fault, python=HOST, state=cluster.state))
    cluster.rsh.chmod(0o755)


def _meet(job, point, action):
    """The second checkpoint. True: all of it is done."""
    began = time.monotonic()
    answer = job.command("checkpoint", "job")
    said = "checkpoint 2: no xor"
    if answer.code == 0:
        said = wait_for_log(job, "checkpoint 2: xor is done", said)
    if action == "sleep":
        took = time.monotonic() - began
        check(took > SLEEP_MS / 1000, f"nobody slept: {took:.1f} s")
    elif action == "error":
        check("No space left" in answer.err + job.log(), f"no disk was full: {answer.err}")
    killed = job.cluster.run("node2", DAEMON).code != 0
    check_equal(killed, action == "kill", f"the daemon of node2 is killed\n{answer.err}")
    is_kept = action == "sleep" or not point["name"].startswith("keep-")
    check_equal(answer.code == 0, is_kept, f"the checkpoint succeeds\n{answer.err}")
    return said.endswith("done")


def _restart_without_another(job):
    """The number of the snapshot that is restarted."""
    lose(job.cluster, "node3")
    job.restart(job.mpi, HOSTS - 1)
    job.running.wait_for("is taken from the hosts", 90)
    number = 2 if "checkpoint 2 is taken" in job.running.err else 1
    check_equal(job.checksum(), expected(), "checksum after the restart")
    return number


def _case(number, point, action):
    mpi = mpis.MPIS[number % 2]

    @timeout(300)
    def test(work):
        with Cluster(work, HOSTS) as cluster:
            _arm(cluster, f"{point['name']}#2={WHAT[action]}")
            job = begun(cluster, mpi, HOSTS, "xor")
            is_done = _meet(job, point, action)
            job.hold.unlink()
            job.running.wait_for("PASS ", 90)
            job.running.wait(60)
            check_equal(mpis.checksum(job.running.out), expected(), "checksum of the run")
            left = _restart_without_another(job)
            check(left == 2 or not is_done, "what was said to be done is not there")
        name = f"{point['name']}_{action}".replace("-", "_")
        record(name, point, action, "new" if left == 2 else "before", RAN_ON)
    return test


def generate():
    cases = [(point, action) for point in POINTS if point["part"] == ON_HOSTS
             for action in wanted(point)]
    return {f"test_{point['name']}_{action}".replace("-", "_"): _case(number, point, action)
            for number, (point, action) in enumerate(cases)}
