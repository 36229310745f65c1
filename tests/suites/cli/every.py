# SPDX-License-Identifier: Apache-2.0
"""`--every auto`: a job is saved as often as is best by what fails and by what its checkpoints
have taken."""
import re

from support import fermata, mpis, process
from support.cases import check, check_equal, timeout

# A node fails twice a minute. A checkpoint is guessed to take 2 s; the first one takes some
# milliseconds, which brings the next ones closer.
MACHINE = """\
nodes = 1
bytes-per-node = "2GB"
relaunch = "1s"
bandwidth = { local = "2GB", network = "10GB" }
failure = [{ name = "node", mttf = "30s" }]
level = [{ kind = "shared", bandwidth = "1GB" }]
"""


def _start(work, mpi, *options):
    (work / "machine.toml").write_text(MACHINE)
    job = fermata.Job(work)
    job.start(mpi, [mpis.program("mpich", "selfcheck"), "--steps", 400, "--step-ms", 60],
              options=options)
    return job


def _checkpoints(job):
    return job.events("checkpoint")


def _planned_s(job):
    """The intervals that the coordinator has planned for, as its log tells."""
    log = (job.work / "fermata" / job.name / "coordinator.log").read_text()
    return [float(found) for found in re.findall(r"saves every ([0-9.]+) s from now on", log)]


@timeout(150)
def test_auto_goes_by_what_checkpoints_take(work):
    job = _start(work, "mpich", "--every", "auto", "--machine", "machine.toml")
    process.wait_until(lambda: len(_checkpoints(job)) >= 3, "three checkpoints by themselves")
    check_equal({line["asked_by"] for line in _checkpoints(job)}, {"time"}, "asked by")
    planned = _planned_s(job)
    check(planned, "no other plan after a checkpoint that took far less than was guessed")
    check(all(interval < 5 for interval in planned), f"2 s of guess give some 10 s: {planned}")
    job.checkpoint_and_stop()
    # A restart does the same, and tells that.
    again = job.restart("openmpi")
    count = len(_checkpoints(job))
    process.wait_until(lambda: len(_checkpoints(job)) > count, "a checkpoint of the second run")
    job.finish()
    check("--every auto" in again.err and "--machine" in again.err, again.err)


@timeout(60)
def test_a_machine_that_makes_no_sense_is_told_before_anything_is_made(work):
    (work / "machine.toml").write_text(re.sub("failure = .*", "failure = []", MACHINE))
    for machine, why in (("machine.toml", "there is no [[failure]]"), ("nowhere", "nowhere")):
        told = fermata.fermata(work, "run", "-n", "2", "--name", "job", "--every", "auto",
                               "--machine", machine, mpis.program("mpich", "selfcheck"))
        check(told.code != 0 and why in told.err, told.err)
        check(not (work / "fermata" / "job").exists(), "a job's directory was made")
