# SPDX-License-Identifier: Apache-2.0
"""`fermata site`: jobs that save to one file system one after the other; what they do when the
service is killed; whom it hears, and whom they believe."""
import json
import re
import time

from support import fermata, mpis, process
from support.cases import check, check_equal, timeout
from support.site import Service

EVERY_S = 4
# A client gives an offer up after 2 s, and the service after two offers. It asks half an interval
# before it is due, or when it was told to, which may be as late as that.
LATE_S = 2 * 2 + 1.5
REFUSED, USAGE = 3, 2


def _start(work, name, mpi, *options):
    job = fermata.Job(work, name)
    job.start(mpi, [mpis.program(mpi, "selfcheck"), "--steps", 40, "--step-ms", 50],
              options=("--every", f"{EVERY_S}s", "--site", work / "site", *options))
    return job


def _log(job):
    path = job.work / "fermata" / job.name / "coordinator.log"
    return path.read_text() if path.exists() else ""


def _leases(job):
    return [int(found) for found in re.findall(r"the site has given lease (\d+)", _log(job))]


def _own_plans(job):
    """How late each checkpoint was that a job took without an answer, seconds."""
    found = re.findall(r"saved as planned, ([\d.]+) s (before|after) due", _log(job))
    return [float(late) * (1 if when == "after" else -1) for late, when in found]


def _status(work):
    result = fermata.fermata(work, "--json", "site", "status", "--site", work / "site")
    return fermata.as_json(result.expect_success("site status"))


def _finish(job):
    check("\nPASS " in "\n" + job.finish(), f"the program of {job.name} has not come to its end")


@timeout(150)
def test_one_lease_at_a_time_for_jobs_of_both_mpis(work):
    service = Service(work).wait_until_it_leads()
    jobs = [_start(work, name, mpi) for name, mpi in (("a", "openmpi"), ("b", "mpich"))]
    most = 0
    until = time.monotonic() + 90
    while not all(len(_leases(job)) >= 3 for job in jobs):
        check(time.monotonic() < until, f"three leases each\n{_log(jobs[0])}\n{_log(jobs[1])}")
        held = [job for job in _status(work)["jobs"] if job["lease"] is not None]
        most = max(most, len(held))
        time.sleep(0.1)
    check(most <= 1, f"{most} leases were held at once")
    text = fermata.fermata(work, "site", "status", "--site", work / "site").out
    check(all(len(line) <= 80 for line in text.split("\n")), text)
    check("served by" in text and re.search(r"^a ", text, re.M), text)
    numbers = [number for job in jobs for number in _leases(job)]
    check_equal(len(set(numbers)), len(numbers), "leases with numbers of their own")
    for job in jobs:
        _finish(job)
    check_equal(_status(work)["jobs"], [], "a job that has ended is there no more")
    service.end()


@timeout(150)
def test_a_killed_service_keeps_nobody_waiting(work):
    """In the middle of a lease; another replica leads soon, and jobs find it."""
    service = Service(work).wait_until_it_leads()
    jobs = [_start(work, name, mpi) for name, mpi in (("a", "mpich"), ("b", "openmpi"))]
    process.wait_until(lambda: any(job["lease"] is not None for job in _status(work)["jobs"]),
                       "a lease", 60)
    service.kill()
    process.wait_until(lambda: all(_own_plans(job) for job in jobs), "checkpoints by own plans", 60)
    for job in jobs:
        late = _own_plans(job)
        check(all(0 <= one <= LATE_S for one in late), f"own plans are on time: {late}")
    before = [len(_leases(job)) for job in jobs]
    other = Service(work, 2).wait_until_it_leads()
    process.wait_until(lambda: all(len(_leases(job)) > had for job, had in zip(jobs, before)),
                       "leases of the new service", 60)
    for job in jobs:
        _finish(job)
    other.end()


@timeout(60)
def test_of_two_replicas_one_leads_and_the_other_takes_over(work):
    first = Service(work).wait_until_it_leads()
    second = Service(work, 2)
    time.sleep(5)
    check("leads" not in second.running.err, second.running.err)
    first.kill()
    second.wait_until_it_leads()
    second.end()
    check(not (work / "site/lead").exists(), "whoever ends by a signal says that it leads no more")


def _is_alone(job):
    process.wait_until(lambda: _own_plans(job), "a checkpoint by its own plan", 40)
    check_equal(_leases(job), [], "leases")


@timeout(100)
def test_a_wrong_key_is_refused(work):
    service = Service(work).wait_until_it_leads()
    key = work / "site/key"
    key.write_text("ab" * 32)
    result = fermata.fermata(work, "site", "status", "--site", work / "site")
    check_equal(result.code, REFUSED, f"exit code\n{result.err}")
    check("does not know this job's secret" in result.err or "no service" in result.err, result.err)
    process.wait_until(lambda: "turned a guest away" in service.running.err, "the stranger is told")
    job = _start(work, "a", "openmpi")
    _is_alone(job)
    _finish(job)
    service.end()


@timeout(100)
def test_a_strangers_files_are_not_trusted(work):
    service = Service(work).wait_until_it_leads()
    job = _start(work, "a", "mpich")
    place = work / "site"
    place.chmod(0o777)
    result = fermata.fermata(work, "site", "status", "--site", place)
    check_equal(result.code, REFUSED, f"exit code\n{result.err}")
    check("nobody else can write to" in result.err, result.err)
    _is_alone(job)
    check("nobody else can write to" in _log(job), _log(job))
    place.chmod(0o700)
    (place / "key").chmod(0o644)
    result = fermata.fermata(work, "site", "status", "--site", place)
    check(result.code == REFUSED and "its mode must be 0600" in result.err, result.err)
    result = fermata.fermata(work, "site", "serve", "--site", place, "--bandwidth", "1GB/s")
    check(result.code == REFUSED and "its mode must be 0600" in result.err, result.err)
    _finish(job)
    service.end()


def test_where_nobody_serves(work):
    for arguments, code, words in (
            (("--site", work / "nowhere"), REFUSED, "is not there"),
            ((), USAGE, "hint: --site DIR")):
        result = fermata.fermata(work, "site", "status", *arguments)
        check_equal(result.code, code, f"exit code\n{result.err}")
        check(words in result.err, result.err)


@timeout(100)
def test_a_restart_asks_the_same_service(work):
    service = Service(work).wait_until_it_leads()
    job = _start(work, "a", "openmpi")
    process.wait_until(lambda: len(_leases(job)) >= 1, "a lease", 40)
    process.wait_until(job.snapshots, "a snapshot", 40)
    job.checkpoint_and_stop()
    record = json.loads((work / "fermata/a/job.json").read_text())
    check_equal(record["site"], str(work / "site"), "the directory, in the job's record")
    had = len(_leases(job))
    again = job.restart("mpich")
    process.wait_until(lambda: len(_leases(job)) > had, "a lease of the second run", 40)
    job.finish()
    check("--site" in again.err, again.err)
    service.end()
