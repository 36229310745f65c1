# SPDX-License-Identifier: Apache-2.0
"""A job over hosts of the virtual cluster, driven through commands on them. The programs of this
project do not end before `finish` (tests/programs/check.h)."""
import json
import pathlib
import re
import shlex
import time

from support import mpis
from support.cases import check
from support.fermata import FERMATA, STEP

STEPS = 24
STEP_MS = 80
LAUNCHERS = {
    "openmpi": "mpirun.openmpi --allow-run-as-root --oversubscribe --mca plm_rsh_agent {rsh} "
               "--host {slots} -n {ranks}",
    "mpich": "mpiexec.mpich -launcher ssh -launcher-exec {rsh} -hosts {slots} -n {ranks}",
}
# What an MPI over TCP needs on hosts that have fewer cores than ranks.
ENVIRONMENT = "OMPI_MCA_mpi_yield_when_idle=1"


class Job:
    """A job of the name `job`. `program` is one of tests/programs, or the words of a command."""

    def __init__(self, cluster, front, directory=None, ranks=4, program="selfcheck"):
        self.cluster, self.work, self.ranks = cluster, cluster.work, ranks
        self.directory = directory or self.work / "fermata"
        self.hold = self.work / "job.hold"
        self.hold.touch()
        self.program = program
        if isinstance(program, str):  # no mpirun of Open MPI takes $CHECK_HOLD to other hosts
            self.program = [mpis.program(front, program), "--steps", STEPS, "--step-ms", STEP_MS,
                            "--hold-file", self.hold]
        self.program = [str(word) for word in self.program]
        self.runs, self.running, self.mpi = 0, None, None
        self.earlier = ""  # what the runs before this one printed

    def command(self, *words, host="node0", timeout_s=90):
        line = f"cd {self.work}; FERMATA_DIR={self.directory} {FERMATA} " + " ".join(words)
        return self.cluster.run(host, line, timeout_s)

    def _launch(self, line, mpi):
        self.runs, self.mpi = self.runs + 1, mpi
        if self.running:
            self.earlier += self.running.out
        line = f"cd {self.work}; {ENVIRONMENT} FERMATA_DIR={self.directory} {line}"
        self.running = self.cluster.shell("node0", line, self.work,
                                          f"{pathlib.Path(self.directory).name}.run{self.runs}")

    def _place(self, hosts):
        if hosts == 1:
            return []
        names = ",".join(self.cluster.hosts[:hosts])
        return ["--host", names, "--remote-shell", str(self.cluster.rsh)]

    def start(self, mpi, hosts, *more, name="job"):
        words = ["run", "-n", str(self.ranks), "--mpi", mpi, "--name", name, *self._place(hosts),
                 *more, "--", *self.program]
        self._launch(f"{FERMATA} " + shlex.join(words), mpi)

    def restart(self, mpi, hosts, *more):
        """hosts: None for those of before."""
        place = [] if hosts is None else self._place(hosts) or ["--here"]
        words = ["restart", "job", "--mpi", mpi, *place, *more]
        self._launch(f"{FERMATA} " + " ".join(words), mpi)

    def exec(self, mpi, hosts, *more):
        """Under the MPI's own mpirun, as somebody would who knows no `fermata run`."""
        each = self.ranks // hosts
        slots = ",".join(f"{name}:{each}" for name in self.cluster.hosts[:hosts])
        mpirun = LAUNCHERS[mpi].format(rsh=self.cluster.rsh, slots=slots, ranks=self.ranks)
        directory = f"--dir {self.directory}"
        self._launch(f"{mpirun} {FERMATA} {directory} exec --name job {' '.join(more)} "
                     + shlex.join(self.program), mpi)

    def wait_for_step(self, step):
        """Returns at once if an earlier run came that far, before it was stopped."""
        if all(int(number) < step for number in re.findall(STEP, self.earlier, re.M)):
            self.running.wait_for_number(STEP, step)

    def stop(self):
        """As soon as all ranks can be saved: some may be slower to come up than the one that was
        seen."""
        until = time.monotonic() + 30
        while True:
            answer = self.command("checkpoint", "job", "--stop")
            coming_up = "returned from MPI_Init" in answer.err or "is not running" in answer.err
            if not coming_up or time.monotonic() > until:
                break
            time.sleep(0.1)
        answer.expect_success("checkpoint --stop")
        self.running.wait(60)
        check("PASS" not in self.running.out, "the run ended on its own before it was stopped")

    def checksum(self):
        return mpis.checksum(self.finish("PASS "))

    def finish(self, last, timeout_s=90):
        """Waits for the end, which comes after the output `last`, and returns the output."""
        self.hold.unlink(missing_ok=True)
        self.running.wait_for(last, timeout_s)
        self.running.wait(60).expect_success("the job")
        return self.running.out

    @property
    def place(self):
        """The job's directory, seen from the test: a directory in /tmp is node0's own."""
        if str(self.directory).startswith("/tmp/jobs"):
            return self.cluster.tmp("node0") / pathlib.Path(self.directory).name / "job"
        return self.directory / "job"

    def log(self):
        return (self.place / "coordinator.log").read_text()

    def snapshots(self):
        root = self.place / "snapshots"
        return sorted((p for p in root.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))


def expected(ranks=4, program="selfcheck"):
    return mpis.expected(program, ranks, STEPS)


def hosts_of_ranks(snapshot):
    images = json.loads((snapshot / "manifest.json").read_text())["manifest"]["images"]
    return [image["host"] for image in images]
