# SPDX-License-Identifier: Apache-2.0
"""What the tests of errors share: the record of each case, from which `./x errors` makes
docs/reference/errors.md, and a job that must come through unharmed."""
import json
import re

from support import fermata, mpis, process
from support.cases import check, check_equal
from support.mpis import BUILD, ROOT, WORK

RECORDS = BUILD / "tests/errors"
FAILED, USAGE, REFUSED, DAMAGED = 1, 2, 3, 4
STEPS = 30
UNHARMED = "the job continued to the right result; the snapshot before was verified and restarted"
NOTHING_RAN = "nothing was started"


def message_of(result):
    """What the command said, without what differs between machines and runs."""
    lines = result.err.rstrip().split("\n")
    begins = [i for i, line in enumerate(lines) if line.startswith("fermata: ")]
    check(begins, f"no message of ours: {result.err!r}")
    text = "\n".join(lines[begins[-1]:]).removeprefix("fermata: ")
    text = re.sub(re.escape(str(WORK)) + r"/[\w.]+", "DIR", text)
    text = text.replace(str(ROOT), "FERMATA")
    return re.sub(r"\b(errno|process|pid|child) \d{2,}", r"\1 N", text)


def _lasting(text):
    """Without what differs from run to run: who was found first, addresses, numbers, names."""
    for pattern, general in ((r"\b(ranks?) \d+(, \d+)*", r"\1 N"), (r"\b0x[0-9a-f]+", "ADDRESS"),
                             (r"^checkpoint \d+ failed", "checkpoint N failed"),
                             (r"(\d\.\d):\d+", r"\1:PORT"), (r"\b[0-9a-f]{40}\b", "BUILD-ID"),
                             (r"\b(socket|pipe):\[\d+\]", r"\1:[N]"), (r"\(id \d+\)", "(id N)"),
                             (r"/file\.\d+", "/file.N"), (r"\bon host [\w.-]+", "on host HOST"),
                             (r"\b\d+ bytes of \d+", "N bytes of M"),
                             (r"(is registered; there are: ).*", r"\1NAMES"),
                             (r"(is lost with ranks N) \(.*\)", r"\1 (CAUSE)"),
                             (r"this program reads \d+", "this program reads N")):
        text = re.sub(pattern, general, text)
    return text


def record(group, case, result, code, stays):
    """Checks the exit code, that what, where and what to do are said, and keeps it."""
    check_equal(result.code, code, f"exit code of '{case}'\n{result.out}{result.err}")
    text = message_of(result)
    RECORDS.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "_", f"{group} {case}").strip("_")
    value = {"group": group, "case": case, "message": _lasting(text), "code": code, "stays": stays}
    (RECORDS / f"{name}.json").write_text(json.dumps(value, indent=1))
    return text


def expect(text, *words):
    for word in words:
        check(word in text, f"the message names {word!r}:\n{text}")


class HealthyJob(fermata.Job):
    """A running job with one good snapshot. What is done to its next checkpoint must harm neither:
    `came_through` waits for its end, verifies that snapshot and restarts from it."""

    def __init__(self, work, name="job"):
        super().__init__(work, name)
        self.program = "selfcheck"

    def begin(self, lower="openmpi", program="selfcheck", arguments=(), ranks=2, env=None,
              under=()):
        self.program, self.ranks = program, ranks
        self.start(lower, [mpis.program(lower, program), "--steps", STEPS, "--step-ms", 80,
                           *arguments], ranks, env=env, under=under)
        fermata.wait_for_step(self, 1)
        return self

    def with_snapshot(self):
        self.checkpoint()
        check_equal(len(self.snapshots()), 1, "snapshots")
        return self

    def try_checkpoint(self, *arguments, timeout_s=45):
        """A checkpoint that is not expected to succeed."""
        return fermata.fermata(self.work, "checkpoint", self.name, *arguments, timeout_s=timeout_s)

    def expected(self):
        return mpis.expected(self.program, self.ranks, STEPS)

    def came_through(self, snapshots=1, restart="mpich"):
        check_equal(mpis.checksum(self.finish()), self.expected(), "checksum of the job")
        check_equal(len(self.snapshots()), snapshots, f"snapshots: {self.snapshots()}")
        self.snapshot_is_good(restart)

    def snapshot_is_good(self, restart="mpich"):
        first = self.snapshots()[0]
        fermata.fermata(self.work, "verify", first).expect_success("verify")
        self._launch("restart", first, "--mpi", restart)
        check_equal(mpis.checksum(self.finish()), self.expected(), "checksum after the restart")


def ranks_of(job):
    """Pids of the job's ranks: descendants of its run whose program is the launcher, in the order
    of their rank. They show the environment that the program was started with."""
    found = {}
    for pid in filter(process.is_launcher, process.descendants(job.running.process.pid)):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = dict(word.partition(b"=")[::2] for word in file.read().split(b"\0"))
        except OSError:
            continue
        rank = variables.get(b"OMPI_COMM_WORLD_RANK", variables.get(b"PMI_RANK"))
        if rank is not None:
            found.setdefault(int(rank), pid)
    return [found[rank] for rank in sorted(found)]
