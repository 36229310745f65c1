# SPDX-License-Identifier: Apache-2.0
"""What a job over several hosts may be doing when it is saved: messages under way over TCP, blocked
receives and collective calls, memory shared within a host, windows and their locks, programs that
nobody wrote for us. Each continues over the hosts under the other MPI, then with all ranks on one
host over shared memory, and over the hosts again. Only with --cluster."""
import os
import shutil

from support import fermata, mpis
from support.cases import Skipped, check, check_equal, slow, timeout
from support.cluster import Cluster
from support.cluster_job import STEP_MS, STEPS, Job, expected, hosts_of_ranks
from support.distribution import NETPIPE, NETPIPE_ROW, compare_thermo, lammps

PROGRAMS = ("inflight", "blocked", "collective", "host_shared", "mpi/win_locks",
            "mpi/win_contents", "mpi/win_posts")

LATE_CONTACTS = 8  # runs of which at least one hangs without the mend


def _check_hosts(cluster, job, hosts):
    found = hosts_of_ranks(fermata.newest_snapshot(job))
    each = job.ranks // hosts
    check_equal(found, [name for name in cluster.hosts[:hosts] for _ in range(each)],
                "hosts of ranks")


def _journey(program, count, first, second):
    @timeout(400)
    def test(work):
        with Cluster(work, count) as cluster:
            job = Job(cluster, first, program=program)
            job.start(first, count)
            for step, hosts, mpi, next_hosts in ((3, count, second, count), (7, count, first, 1),
                                                 (11, 1, second, count)):
                job.wait_for_step(step)
                job.stop()
                _check_hosts(cluster, job, hosts)
                job.restart(mpi, next_hosts)
            check_equal(job.checksum(), expected(program=program), "checksum")
    return test


def _several(first, second):
    @timeout(400)
    def test(work):
        """A job of two programs: one rank, and three behind it, in the order of the hosts."""
        program = mpis.program(first, "several")
        with Cluster(work, 2) as cluster:
            hold = ["--steps", STEPS, "--step-ms", STEP_MS, "--hold-file", work / "job.hold"]
            both = [program, "--role", 0, *hold, ":", "-n", 3, program, "--role", 1, *hold]
            job = Job(cluster, first, ranks=1, program=both)
            job.start(first, 2)
            job.ranks = 4
            for step, mpi in ((3, second), (9, first)):
                job.wait_for_step(step)
                job.stop()
                _check_hosts(cluster, job, 2)
                job.restart(mpi, 2)
            checksum = job.checksum()
            single = [program, "--role", 0, "--steps", STEPS, ":", "-n", 3, program, "--role", 1,
                      "--steps", STEPS]
            native = mpis.native(first, single, 1, work).expect_success("several")
            check_equal(checksum, mpis.checksum(native.out), "checksum")
    return test


def _late_member(first, second, steps):
    @timeout(300)
    def test(work):
        """Members wait for what a late one is to tell them by messages; when all are on one host it
        rings bells instead (docs/decisions/0064)."""
        program = mpis.program(first, "mpi/win_late")
        with Cluster(work, 2) as cluster:
            command = [program, "--steps", steps, "--hold-file", work / "job.hold"]
            job = Job(cluster, first, program=command)
            job.start(first, 2)
            job.wait_for_step(steps)
            job.stop()
            _check_hosts(cluster, job, 2)
            job.restart(second, 1)
            checksum = job.checksum()
        native = mpis.native(first, [program, "--steps", steps], 4, work).expect_success("win_late")
        check_equal(checksum, mpis.checksum(native.out), "checksum")
    return test


@timeout(200)
def test_files_of_one_path_are_written_back_on_their_own_hosts(work):
    """Each host has its own file of one path, and rank 0 is not on the host of the command, which
    writes its host's file back: not with what rank 0 had in its own. (Under MPICH: Open MPI puts
    rank 0 on the host of the command.)"""
    with Cluster(work, 2) as cluster:
        for host in cluster.hosts:
            cluster.run(host, "mkdir /tmp/of; cd /tmp/of; ln -s log log.0; ln -s log log.1"
                        ).expect_success("links")
        command = [mpis.program("mpich", "resources/files_append"), "--dir", "/tmp/of", "--steps",
                   STEPS, "--step-ms", STEP_MS, "--hold-file", work / "job.hold"]
        job = Job(cluster, "mpich", ranks=2, program=command)
        job.start("mpich", 1, "--host", "node1,node0", "--remote-shell", str(cluster.rsh),
                  "--files", "save")
        job.wait_for_step(6)
        job.stop()
        check_equal(hosts_of_ranks(fermata.newest_snapshot(job)), ["node1", "node0"],
                    "hosts of ranks")
        with open(cluster.tmp("node0") / "of/log", "r+b") as log:
            log.write(b"RANK")
        job.restart("mpich", None)
        job.finish("PASS ")  # each rank has found its own lines
        check_equal(job.running.err.count("/tmp/of/log: has the contents of the checkpoint again"),
                    1, "messages")


def _variables(mpi):
    @timeout(200)
    def test(work):
        """Ranks of all hosts have the PATH of the shell that has started them."""
        with Cluster(work, 2) as cluster:
            place = f"--host node0,node1 --remote-shell {cluster.rsh}"
            path = f"{work}/own:{os.environ['PATH']}"
            line = (f"cd {work}; PATH={path} LD_LIBRARY_PATH=/own FERMATA_DIR={work}/fermata "
                    f"{fermata.FERMATA} run -n 2 --mpi {mpi} {place} -- "
                    """sh -c 'echo "$(hostname) $LD_LIBRARY_PATH $PATH"'""")
            result = cluster.run("node0", line, 90).expect_success("run")
            check_equal(sorted(result.out.splitlines()),
                        [f"{host} /own {path}" for host in ("node0", "node1")], "of each host")
    return test


def _late_contacts(mpi):
    @timeout(300)
    def test(work):
        """MPICH 4.0.2 hangs in MPI_Finalize then, in most runs: one rank waits there for the
        process manager and answers no other, which cannot close its connections."""
        with Cluster(work, 2) as cluster:
            for number in range(LATE_CONTACTS):
                job = Job(cluster, mpi, program=[mpis.program(mpi, "late_contacts")])
                job.start(mpi, 2, name=f"job{number}")
                job.finish("PASS ")
    return test


def _lammps(first, second):
    @timeout(400)
    def test(work):
        command = lammps(10, 600)
        native = mpis.native("openmpi", command, 2, work, 90).expect_success("lmp").out
        with Cluster(work, 2) as cluster:
            job = Job(cluster, first, ranks=2, program=command)
            job.start(first, 2)
            out = ""
            for step, hosts, mpi, next_hosts in ((100, 2, second, 2), (200, 2, second, 1),
                                                 (300, 1, first, 2)):
                job.running.wait_for_number(fermata.THERMO, step, 90)
                job.stop()
                _check_hosts(cluster, job, hosts)
                out += job.running.out
                job.restart(mpi, next_hosts)
            out += job.finish("\n     600 ")  # flushed; the rest only when the program exits
            compare_thermo(fermata.thermo(out), fermata.thermo(native))
    return test


def _netpipe(first, second):
    @timeout(400)
    def test(work):
        program = shutil.which(NETPIPE[first])
        if not program:
            raise Skipped(f"{NETPIPE[first]} is not installed")
        table = work / "np.out"
        with Cluster(work, 2) as cluster:
            command = [program, "-u", "20000", "-n", "500", "-o", table]
            job = Job(cluster, first, ranks=2, program=command)
            job.start(first, 2)
            # On one host it is over before anybody could save it.
            for line, mpi, hosts in ((4, second, 2), (8, first, 1)):
                job.running.wait_for_number(NETPIPE_ROW, line, 90)
                job.stop()
                job.restart(mpi, hosts)
            job.finish("\n 69: ", 200)
            check(table.stat().st_size > 100, "NetPIPE wrote its table")
    return test


def generate():
    tests = {}
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        for program in PROGRAMS:
            for count in (2, 4):
                test = _journey(program, count, first, second)
                sample = count == 2 and (first == "openmpi") == (program in PROGRAMS[::2])
                name = program.replace("/", "_")
                tests[f"test_{name}_{count}_hosts_{first}_then_{second}"] = (
                    test if sample else slow(test))
        tests[f"test_several_programs_{first}_then_{second}"] = _several(first, second)
        for what, steps in (("to_post_a_window", 3), ("to_begin_an_epoch", 4)):
            tests[f"test_late_{what}_{first}_then_{second}"] = _late_member(first, second, steps)
        tests[f"test_first_messages_before_mpi_finalize_{first}"] = _late_contacts(first)
        tests[f"test_variables_{first}"] = _variables(first)
        tests[f"test_lammps_{first}_then_{second}"] = slow(_lammps(first, second))
        tests[f"test_netpipe_{first}_then_{second}"] = slow(_netpipe(first, second))
    return tests
