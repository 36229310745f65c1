# SPDX-License-Identifier: Apache-2.0
"""A batch script on Slurm's virtual cluster that is run again and again, on changing hosts: Slurm
has it queued again, or it is handed in once more, as its user would do it."""
import dataclasses
import re
import time

from support import fermata
from support.cases import Failed, check, check_equal

SAVED = "75:0"  # an exit code and a signal, as Slurm shows them
RUNNING = ("RUNNING", "COMPLETING", "CONFIGURING")
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL")
STOPPED = re.compile(r"^fermata: job work stopped at checkpoint (\d+)", re.M)
SIGNALS = ("TERM", "USR1", "USR2")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A way to end a job. `command`: of Slurm, with {job}, {hosts}, {count} and {signal} in it;
    none: the limit ends it. `exits`: the job ends by itself, so its exit code is what Slurm
    shows."""
    name: str
    command: str
    exits: bool


KINDS = {kind.name: kind for kind in (
    Kind("a signal to the script", "scancel --batch --signal={signal} {job}", True),
    Kind("a signal to all", "scancel --full --signal={signal} {job}", True),
    Kind("a signal to the steps", "scancel --signal={signal} {job}", True),
    Kind("queued again by Slurm", "scontrol requeue {job}", False),
    Kind("preempted", "sbatch -p urgent -w {hosts} -N {count} --ntasks-per-node=2 -o /dev/null "
                      "--wrap 'sleep 1'", False),
    Kind("cancelled", "scancel {job}", False),
    Kind("its limit", "", True),
)}


class Batch:
    """`script`: its text, in which the job's name is `work`. `options`: of sbatch."""

    def __init__(self, slurm, script, ranks, options=()):
        self.slurm, self.cluster, self.work = slurm, slurm.cluster, slurm.cluster.work
        self.ranks, self.options = ranks, options
        (self.work / "job.sh").write_text(script)
        self.number, self.where, self.begun_at = "", [], 0

    def text(self):
        path = self.work / "work.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def events(self):
        return fermata.events(self.work / "fermata/work")

    def submit(self, hosts):
        self.where = hosts
        self.number = self.slurm.submit(
            f"--nodes={len(hosts)}", f"--ntasks={self.ranks}",
            f"--ntasks-per-node={self.ranks // len(hosts)}", f"--nodelist={','.join(hosts)}",
            "--requeue", "--open-mode=append", "--output=work.out", *self.options, "job.sh")

    def proceed(self, state, hosts):
        """In another allocation, once the last one has ended so; None: there was none."""
        self.begun_at = len(self.text())
        if state == "PENDING":
            self.where = hosts
            self.slurm.release(self.number, hosts)
        else:
            self.submit(hosts)

    def wait_for(self, pattern, before=None, timeout_s=90):
        """Until the output of this run, or that beyond `before`, has it."""
        before = self.begun_at if before is None else before
        until = time.monotonic() + timeout_s
        while not re.search(pattern, self.text()[before:], re.M):
            state = self.slurm.state(self.number)
            if state in OVER:
                raise Failed(f"the job is {state}, without {pattern!r}\n{self.text()[before:]}")
            check(time.monotonic() < until, f"no {pattern!r}\n{self.text()[before:]}")
            time.sleep(0.1)

    def end(self, kind, signal="TERM"):
        """Ends the job, and waits until Slurm has it no longer. Returns Slurm's state, and what
        the job has printed."""
        before = len(self.text())
        if kind.command:
            command = kind.command.format(job=self.number, hosts=",".join(self.where),
                                          count=len(self.where), signal=signal)
            self.slurm.run(command).expect_success(command)
        until = time.monotonic() + 100
        while (state := self.slurm.state(self.number)) in RUNNING:
            check(time.monotonic() < until, f"{kind.name}: the job does not end\n{self.text()}")
            time.sleep(0.3)
        return state, self.text()[before:]

    def check_exit(self, kind, state, is_saved, requeues):
        """Of a job that has ended in this way: it is queued again if it was to be, or else says
        that it is saved, and not done."""
        if not kind.exits:
            return
        requeued = requeues and is_saved
        check_equal(state == "PENDING", requeued, f"{kind.name}: queued again, as {state}")
        if not requeued:
            code = self.slurm.ask(self.number)["ExitCode"]
            check_equal(code, SAVED, f"{kind.name}: exit code\n{self.text()}")

    def check_end(self):
        """The job ends well, now that its output is whole."""
        state = self.slurm.wait_for_state(self.number, OVER, 60)
        code = self.slurm.ask(self.number)["ExitCode"]
        check_equal((state, code), ("COMPLETED", "0:0"), f"the end\n{self.text()}")

    def once_more(self, hosts):
        """Handed in after its end, the job is not run again."""
        before = len(self.text())
        self.submit(hosts)
        state = self.slurm.wait_for_state(self.number, OVER)
        code, new = self.slurm.ask(self.number)["ExitCode"], self.text()[before:]
        check_equal((state, code), ("COMPLETED", "0:0"), f"once more\n{new}")
        check("has finished" in new, f"once more:\n{new}")
        return new
