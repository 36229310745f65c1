# SPDX-License-Identifier: Apache-2.0
"""Jobs are found and saved from where they do not run: other directories, other hosts."""
import json
import os

from support import errors, fermata, mpis, process
from support.cases import Skipped, check, check_equal, timeout

STEPS = ["--steps", 100, "--step-ms", 60]


def _run(work, name, **env):
    command = [fermata.FERMATA, "run", "-n", "2", "--name", name, "--mpi", "mpich",
               mpis.program("mpich", "selfcheck"), "--steps", "2"]
    return process.run(list(map(str, command)), 60, mpis.environment(**env), work)


def test_jobs_of_all_directories_are_listed(work):
    env = {"XDG_STATE_HOME": str(work / "state")}
    for place in ("one", "two"):
        (work / place).mkdir()
        _run(work / place, f"in-{place}", **env).expect_success("run")
    _run(work / "one", "second", **env).expect_success("run")
    check_equal(len(list((work / "state/fermata/places").iterdir())), 2, "places")

    def ask(*words):
        return process.run([fermata.FERMATA, "jobs", *words], 60, mpis.environment(**env), work)

    check("no jobs in" in ask().out, "none is here")
    listed = [(job["job"], os.path.dirname(job["path"]))
              for job in fermata.as_json(ask("--all", "--json"))]
    check_equal(listed, [("in-one", f"{work}/one/fermata"), ("second", f"{work}/one/fermata"),
                         ("in-two", f"{work}/two/fermata")], "as JSON")
    lines = ask("--all").out.split("\n")
    check_equal([lines[0], lines[5]], [f"{work}/one/fermata", f"{work}/two/fermata"], "headings")
    (work / "two").rename(work / "gone")
    check("in-two" not in ask("--all").out, "what is gone is passed over")


def _begin_on_another_host(work, **env):
    """A job with a host name, and a directory of sockets, that is not ours. That has a short path:
    under a long one sockets would lie in /tmp, which is ours too."""
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    apart = ["unshare", "--uts", "--mount", *user]
    if process.run([*apart, "hostname", "other"]).code != 0:
        raise Skipped("unshare --uts --mount is not allowed here")
    script = ('hostname other && mount -t tmpfs -o mode=0700 none "$0" && '
              'XDG_RUNTIME_DIR=$0 exec "$@"')
    command = [*apart, "sh", "-c", script, "/mnt", fermata.FERMATA, "run", "-n", "2",
               "--name", "job", "--mpi", "openmpi", mpis.program("openmpi", "selfcheck"), *STEPS]
    running = process.Running(command, work, env=mpis.environment(**env), cwd=work)
    running.wait_for("step 2\n")
    return running


@timeout(90)
def test_a_job_out_of_reach_is_elsewhere(work):
    running = _begin_on_another_host(work)
    (job,) = fermata.as_json(fermata.fermata(work, "jobs", "--json"))
    check_equal((job["state"], job["host"]), ("elsewhere", "other"), "as JSON")
    told = fermata.fermata(work, "jobs").out
    check("elsewhere: other" in told, told)
    again = ["run", "-n", "2", "--name", "job", mpis.program("openmpi", "selfcheck")]
    for command in (["checkpoint", "job"], again):
        refused = fermata.fermata(work, *command)
        check_equal(refused.code, errors.REFUSED, refused.err)
        for words in ("runs on host other as process", "cannot be reached from here",
                      f"ssh other fermata checkpoint job --dir {work}/fermata"):
            check(words in refused.err, refused.err)
    mpis.checksum(running.wait(60).expect_success("the job").out)
    (job,) = fermata.as_json(fermata.fermata(work, "jobs", "--json"))
    check_equal(job["state"], "ended", "afterwards")


@timeout(90)
def test_a_batch_job_on_one_host_is_saved_from_another(work):
    running = _begin_on_another_host(work, LSB_JOBID="7")
    record = json.loads((work / "fermata/job/job.json").read_text())
    check(record["host"] == "other" and record["addresses"], record)
    (job,) = fermata.as_json(fermata.fermata(work, "jobs", "--json"))
    check_equal(job["state"], "running", "from here")
    fermata.fermata(work, "checkpoint", "job", "--stop").expect_success("checkpoint")
    running.wait(60)
    check((work / "fermata/job/snapshots/1/manifest.json").exists(), "it is saved")
    mode = (work / "fermata/job").stat().st_mode & 0o777
    check_equal(mode, 0o700, "nobody else can read the secret")


@timeout(90)
def test_the_host_of_a_job_is_shown(work):
    """Also of a job on one host, which has no daemon."""
    job = fermata.Job(work)
    job.start("mpich", [mpis.program("mpich", "selfcheck"), *STEPS])
    fermata.wait_for_step(job, 2)
    (host,) = fermata.as_json(fermata.fermata(work, "nodes", "job", "--json"))
    check_equal((host["host"], host["ranks"]), (os.uname().nodename, [0, 1]), "host and ranks")
    check(0 <= host["cpu"] <= 1 and host["memory"] > 1 << 20 and host["space"] > 0, host)
    told = fermata.fermata(work, "nodes", "job").expect_success("nodes").out
    check("0-1" in told and "FREE DISK" in told, told)
    check(all(len(line) <= 80 for line in told.split("\n")), told)
    job.finish()
    refused = fermata.fermata(work, "nodes", "job")
    check_equal(refused.code, errors.REFUSED, refused.err)
