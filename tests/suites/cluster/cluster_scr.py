# SPDX-License-Identifier: Apache-2.0
"""Programs that save themselves by the calls of SCR (lib/scr), over hosts: hosts are lost with
their caches, and the program continues on those that are left and others. Only with --cluster."""
import shlex

from support import mpis, scr
from support.cases import check, check_equal, slow, timeout
from support.cluster import Cluster
from support.cluster_job import ENVIRONMENT, LAUNCHERS
from support.levels import lose
from support.scr import check_continued

CACHE = "/tmp/cache"  # each host's own
EACH = 2  # ranks of a host
# How it is kept, hosts that are lost, and what is said of rank 2, which was on node1.
CASES = {
    "single": ({"SCR_COPY_TYPE": "SINGLE", "SCR_FLUSH": "2"}, ["node1"], ": fetched from "),
    "partner": ({"SCR_COPY_TYPE": "PARTNER"}, ["node1"],
                ": rank 2 of node1: from the copy that rank "),
    "xor": ({"SCR_COPY_TYPE": "XOR"}, ["node1"],
            ": rank 2 of node1: rebuilt from xor set 0 (rank 0 of node0, rank 4 of node2)"),
    "rs": ({"SCR_COPY_TYPE": "RS", "SCR_SET_FAILURES": "2"}, ["node1", "node2"],
           ": rank 2 of node1: rebuilt from rs2 set 0 (rank 0 of node0, rank 6 of node3)"),
}


class Job:
    """Runs of an example on these hosts, started on node0."""

    def __init__(self, cluster, mpi, language, keys):
        self.cluster, self.mpi = cluster, mpi
        self.program = scr.program(mpi, language)
        self.prefix = cluster.work / "prefix"
        self.prefix.mkdir()
        # Some variables stay on this host: what rank 0 has holds for all.
        self.keys = {**scr.KEYS, "SCR_PREFIX": str(self.prefix), "SCR_CACHE_BASE": CACHE, **keys}
        self.runs = 0

    def start(self, hosts):
        self.runs += 1
        slots = ",".join(f"{name}:{EACH}" for name in hosts)
        mpirun = LAUNCHERS[self.mpi].format(rsh=self.cluster.rsh, slots=slots,
                                            ranks=EACH * len(hosts))
        keys = " ".join(f"{key}={shlex.quote(value)}" for key, value in self.keys.items())
        line = (f"cd {self.prefix}; {ENVIRONMENT} {keys} {mpirun} {self.program} {scr.STEPS} "
                f"{scr.STEP_MS}")
        return self.cluster.shell("node0", line, self.cluster.work, f"run{self.runs}")


def _lost(case, mpi, language):
    keys, lost, sentence = CASES[case]
    count = 4 if len(lost) > 1 else 3

    @timeout(400)
    def test(work):
        wanted = scr.expected(work, EACH * count, language)
        with Cluster(work, 4) as cluster:
            job = Job(cluster, mpi, language, keys)
            hosts = cluster.hosts[:count]
            running = job.start(hosts)
            running.wait_for("saved ckpt.15", 120)
            for name in lost:
                lose(cluster, name)
            running.wait(120)
            saved = scr.newest_saved(running.out)
            if count == 4:  # they come back, with empty disks
                for name in lost:
                    cluster.boot(name)
            else:  # a spare stands in
                hosts[1] = "node3"
            if case == "single":
                saved -= saved % (2 * scr.INTERVAL)
            result = job.start(hosts)
            result.wait_for("finished", 250)
            if mpi == "openmpi":  # MPICH's MPI_Finalize may hang here (docs/decisions/0100)
                result.wait(60).expect_success("the run to its end")
            check_continued(result, saved, f"ckpt.{saved}{sentence}")
            check_equal(scr.checksum(result.out), wanted, "checksum")
            spare = cluster.tmp(hosts[1]) / "cache"
            check(list(spare.rglob("rank_2/rank_2.heat")), "the new host caches rank 2")
            check("would not outlive" not in result.err, result.err)
    return test


def generate():
    found = {}
    for mpi in mpis.MPIS:
        for case in CASES:
            found[f"test_{case}_c_{mpi}"] = _lost(case, mpi, "c")
            fortran = _lost(case, mpi, "fortran")
            found[f"test_{case}_fortran_{mpi}"] = fortran if case == "xor" else slow(fortran)
    return found
