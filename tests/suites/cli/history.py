# SPDX-License-Identifier: Apache-2.0
"""The history of a job: an event a line, over all its runs, that nothing overwrites; and what the
commands show of it, no wider than a terminal."""
import datetime
import os
import signal

from support import errors, fermata, mpis, process
from support.cases import check, check_equal, timeout

STEPS = 12
WIDTH = 80


def _path(job):
    return job.work / "fermata" / job.name / "events.jsonl"


def _events(job):
    return job.events()


def _kinds(job):
    return [(line["run"], line["event"]) for line in _events(job)]


def _start(work, mpi="mpich", steps=STEPS, options=()):
    job = fermata.Job(work)
    job.start(mpi, [mpis.program("mpich", "selfcheck"), "--steps", steps, "--step-ms", 60],
              options=options)
    fermata.wait_for_step(job, 2)
    return job


def _checkpoint_is_complete(line):
    """Every figure is there, and they fit to each other."""
    phases = line["phases_ms"]
    check_equal(sorted(phases), ["commit", "drain", "park", "save", "wait"], "phases")
    check(abs(sum(phases.values()) - line["total_ms"]) <= 1, f"the phases are the whole: {line}")
    for name in ("rank_bytes", "rank_pause_us", "rank_park_ms", "rank_save_ms"):
        spread = line[name]
        check(spread["min"] <= spread["median"] <= spread["max"], f"{name}: {line}")
        check(spread["rank"] in (0, 1), f"{name}: {line}")
    check(line["rank_bytes"]["min"] + line["rank_bytes"]["max"] == line["bytes"] > 0, line)
    check(line["rank_save_ms"]["max"] <= phases["save"] and line["attempts"] >= 1, line)


@timeout(150)
def test_a_life_of_two_runs(work):
    before = datetime.datetime.now(datetime.timezone.utc)
    job = _start(work, steps=150, options=["--every", "1s"])
    process.wait_until(job.snapshots, "a checkpoint by itself")
    job.checkpoint_and_stop()
    first = _path(job).read_bytes()
    job.restart("openmpi", options=["--every", "0"])
    fermata.wait_for_step(job, 1)  # before, there is nothing to save
    job.checkpoint()
    mpis.checksum(job.finish())
    check(_path(job).read_bytes().startswith(first), "what was there is as it was")
    lines = _events(job)
    kinds = _kinds(job)
    check_equal((kinds[0], kinds[-1]), ((1, "started"), (2, "ended")), "first and last")
    check_equal([line for line in kinds if line[1] != "checkpoint"],
                [(1, "started"), (1, "ended"), (2, "resumed"), (2, "ended")], "the others")
    taken = [line for line in lines if line["event"] == "checkpoint"]
    check_equal((taken[0]["asked_by"], taken[-1]["asked_by"]), ("time", "command"), "asked by")
    for line in taken:
        _checkpoint_is_complete(line)
    saved, resumed = lines[kinds.index((1, "ended"))], lines[kinds.index((2, "resumed"))]
    check_equal((saved["how"], saved["epoch"]), ("saved", resumed["snapshot"]), "the stop")
    check_equal((lines[0]["mpi"], resumed["mpi"], lines[-1]["how"]),
                ("mpich", "openmpi", "finished"), "MPIs and the end")
    times = [datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")) for line in lines]
    check(before - datetime.timedelta(seconds=1) <= times[0] and times == sorted(times), times)
    for time, line in zip(times, lines, strict=True):
        check_equal(round(time.timestamp() * 1000), line["unix_ms"], "the same time")
    _is_shown(work, job, lines)


def _is_shown(work, job, lines):
    told = fermata.fermata(work, "history", job.name).expect_success("history").out
    check(all(len(line) <= WIDTH for line in told.split("\n")), told)
    for words in ("started", "2 ranks on mpich", "resumed", "on openmpi", "saved", "finished"):
        check(words in told, told)
    as_json = fermata.as_json(fermata.fermata(work, "history", job.name, "--json"))
    check_equal(as_json, lines, "as JSON")


@timeout(90)
def test_a_checkpoint_that_fails_says_why(work):
    job = _start(work)
    stopped = errors.ranks_of(job)[1]
    os.kill(stopped, signal.SIGSTOP)
    failed = fermata.fermata(work, "checkpoint", "job", "--timeout", "2s")
    os.kill(stopped, signal.SIGCONT)
    check(failed.code != 0, failed.out)
    mpis.checksum(job.finish())
    (line,) = [line for line in _events(job) if line["event"] == "failed_checkpoint"]
    check("rank 1" in line["reason"] and line["reason"] in failed.err
          and line["phase"] in failed.err, f"{line}\n{failed.err}")
    told = fermata.fermata(work, "history", "job").out
    check("no checkpoint" in told and "failed while" in told, told)


@timeout(90)
def test_a_torn_line_costs_nothing(work):
    """As a full disk leaves it."""
    job = _start(work)
    job.checkpoint()
    whole = _path(job).read_bytes()
    os.truncate(_path(job), len(whole) - 20)
    job.checkpoint_and_stop()
    lines = fermata.as_json(fermata.fermata(work, "history", "job", "--json"))
    check_equal([line["event"] for line in lines], ["started", "checkpoint", "ended"], "events")
    check_equal(lines[1]["epoch"], 2, "the checkpoint after the torn line")


@timeout(90)
def test_a_history_that_cannot_be_written_harms_no_job(work):
    job = fermata.Job(work)
    _path(job).mkdir(parents=True)
    for directory in (work / "fermata", work / "fermata/job"):
        directory.chmod(0o700)
    job.start("mpich", [mpis.program("mpich", "selfcheck"), "--steps", STEPS, "--step-ms", 60])
    fermata.wait_for_step(job, 2)
    job.checkpoint()
    job.checkpoint()
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")
    check_equal(len(job.snapshots()), 2, "snapshots")
    log = (work / "fermata/job/coordinator.log").read_text()
    check_equal(log.count("events are missing in the job's history"), 1, f"told in\n{log}")


@timeout(90)
def test_a_job_of_a_foreign_mpirun_has_one_as_well(work):
    job = fermata.Job(work)
    command = [*mpis.mpirun("mpich", 2), fermata.FERMATA, "exec", "--mpi", "mpich", "--name", "job",
               mpis.program("mpich", "selfcheck"), "--steps", STEPS, "--step-ms", 60]
    job.hold.touch()
    job.running = process.Running(command, work, name="exec", cwd=work, env=mpis.environment(
        FERMATA_DIR=str(work / "fermata"), CHECK_HOLD=str(job.hold)))
    fermata.wait_for_step(job, 2)
    job.checkpoint()
    mpis.checksum(job.finish())
    process.wait_until(lambda: _kinds(job)[-1][1] == "ended", "the end of the coordinator")
    check_equal(_kinds(job), [(1, "started"), (1, "checkpoint"), (1, "ended")], "events")
    check_equal(_events(job)[-1]["how"], "finished", "the end")


@timeout(120)
def test_jobs_are_a_table(work):
    """With a heading, no wider than a terminal, a row for each, whatever is in its name."""
    job = _start(work)
    job.checkpoint_and_stop()
    longest = fermata.Job(work, "n" * 63)
    longest.start("mpich", [mpis.program("mpich", "selfcheck"), "--steps", 4])
    mpis.checksum(longest.finish())
    strange = work / "fermata" / "two\nlines\x1b[2J"
    strange.mkdir()
    (strange / "job.json").write_text("{}")
    told = fermata.fermata(work, "jobs").expect_success("jobs").out
    lines = told.rstrip("\n").split("\n")
    check(all(len(line) <= WIDTH for line in lines), told)
    check_equal(lines[0].split(), "JOB STATE RANKS MPI SAVED SIZE AGE".split(), "heading")
    check("\x1b" not in told and "two\\nlines" in told, told)
    (row,) = [line for line in lines if line.startswith("job ")]
    check("saved" in row and "#1" in row and "mpich" in row and "iB" in row, row)
    check("finished" in told and told.count("n" * 10) >= 1, told)
    rows = {row["path"].rpartition("/")[2]: row
            for row in fermata.as_json(fermata.fermata(work, "jobs", "--json"))}
    check_equal(rows["job"]["ended"], {"how": "saved", "epoch": 1}, "how it ended")
    check_equal((rows["job"]["newest"]["epoch"], rows["job"]["run"]), (1, 1), "the newest")
    check_equal(rows["n" * 63]["ended"], {"how": "finished"}, "how the other one ended")
