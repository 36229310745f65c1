# SPDX-License-Identifier: Apache-2.0
"""fermata.toml, commands that hear of a job, and its figures."""
import json
import os

from support import errors, fermata, mpis, process
from support.cases import check, check_equal, timeout

NOBODY = 65534


def _environment(work):
    """Nobody's configuration but that of the test."""
    home = work / "home"
    home.mkdir(exist_ok=True)
    env = mpis.environment(HOME=str(home), XDG_CONFIG_HOME=str(home / "config"))
    env.pop("FERMATA_DIR", None)
    return env


def _ask(work, *words):
    return process.run([fermata.FERMATA, *words], env=_environment(work), cwd=work)


def _write(path, text, mode=0o600):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_what_holds_and_where_from(work):
    user = _write(work / "home/config/fermata/fermata.toml", 'every = "30m"\nkeep = 5\n')
    project = _write(work / "fermata.toml", 'keep = 7\ndir = "jobs"\n')
    told = fermata.as_json(_ask(work, "config", "--json"))
    settings = {name: (it["value"], it["from"]) for name, it in told["settings"].items()}
    check_equal(settings, {"every": ("30m", str(user)), "keep": (7, project.name),
                           "dir": ("jobs", project.name)}, "settings")
    shown = _ask(work, "config").expect_success("config").out
    check("SETTING" in shown and "30m" in shown and "not there" in shown, shown)
    check_equal(fermata.as_json(_ask(work, "config", "--json", "--dir", "x"))["settings"]["dir"],
                {"value": "x", "from": "--dir"}, "a flag")
    check("no jobs in jobs" in _ask(work, "jobs").out, "where jobs are")
    files = [(it["path"], it["state"]) for it in told["files"]]
    check_equal(files[1:], [(str(user), "read"), (project.name, "read")], "files")
    env = _environment(work) | {"FERMATA_DIR": "y"}
    told = fermata.as_json(process.run([fermata.FERMATA, "config", "--json"], env=env, cwd=work))
    check_equal(told["settings"]["dir"], {"value": "y", "from": "$FERMATA_DIR"}, "environment")


def test_a_file_that_others_may_have_written_is_not_read(work):
    _write(work / "home/config/fermata/fermata.toml", "keep = 5\n")
    project = work / "fermata.toml"

    def expect(why):
        told = _ask(work, "config", "--json")
        check(f"fermata.toml is not read: {why}" in told.err, told.err)
        check_equal(fermata.as_json(told)["settings"]["keep"]["value"], 5, "the user's own")
        check_equal(fermata.as_json(told)["files"][2]["state"], f"not read: {why}", "its state")

    for mode in (0o620, 0o602):
        _write(project, "keep = 7\n", mode)
        expect(f"others may write to it (mode {mode:o})")
    project.unlink()
    project.symlink_to(_write(work / "other.toml", "keep = 7\n"))
    expect("is a link")
    project.unlink()
    if os.getuid() == 0:
        os.chown(_write(project, "keep = 7\n"), NOBODY, NOBODY)
        expect(f"belongs to user {NOBODY}")


def test_what_makes_no_sense_is_refused_with_its_place(work):
    for text, words in (("keep = 3\nkepe = 3\n", ":2: there is no setting 'kepe'\n  hint: 'keep'?"),
                        ("every = 'soon'\n", ":1: every: "),
                        ("keep = [\n", "fermata.toml:")):
        _write(work / "fermata.toml", text)
        refused = _ask(work, "jobs")
        check_equal(refused.code, errors.USAGE, f"{text}{refused.err}")
        check("fermata.toml:" in refused.err and words in refused.err, refused.err)


@timeout(120)
def test_a_run_takes_what_it_says_and_tells_those_who_listen(work):
    words = "$FERMATA_EVENT $FERMATA_JOB $FERMATA_EPOCH"
    _write(work / "fermata.toml", f"""
mpi = "mpich"
dir = "jobs"
metrics = "figures.prom"
on-commit = 'echo {words} >> {work}/told; test -e "$FERMATA_SNAPSHOT/manifest.json"; fermata jobs'
on-failure = 'echo {words} "$FERMATA_HOW" >> {work}/told; echo heard; exit 4'
""")
    hold = work / "hold"
    hold.touch()
    env = _environment(work) | {"CHECK_HOLD": str(hold),
                                "PATH": f"{fermata.FERMATA.parent}:{os.environ['PATH']}"}
    program = [mpis.program("mpich", "leaves"), "--how", "exit"]
    running = process.Running([fermata.FERMATA, "run", "-np", "2", "--name", "job", *program], work,
                              env=env, cwd=work)
    running.wait_for("step 2\n")
    _ask(work, "checkpoint", "job").expect_success("checkpoint")
    process.wait_until((work / "told").exists, "the command")
    figures = (work / "figures.prom").read_text()
    check('fermata_checkpoints_total{job="job"} 1\n' in figures, figures)
    check('fermata_job_up{job="job"} 1\n' in figures and figures.endswith("# EOF\n"), figures)
    hold.unlink()
    ended = running.wait(60)
    check(ended.code != 0, "the program fails")
    check_equal(json.loads((work / "jobs/job/job.json").read_text())["lower"], "mpich", "the MPI")
    check("--on-failure: the command has failed (exit status: 4)" in ended.err, ended.err)
    lines = (work / "told").read_text().split("\n")
    check_equal(lines[0], "on-commit job 1", "after the checkpoint")
    check(lines[1].startswith("on-failure job 1 failed"), f"after the failure: {lines}")
    log = (work / "jobs/job/coordinator.log").read_text()
    check("on-commit: JOB" in log and "on-failure: heard" in log, log)
    check("on-commit: has failed" not in log, log)
    check('how="failed"} 1\n' in (work / "figures.prom").read_text(), "figures of the end")
    check(not list(work.glob(".figures*")), "nothing is left of a file that was written")


@timeout(120)
def test_a_command_that_fails_is_told_of_once_and_harms_nothing(work):
    figures = work / "figures"
    figures.mkdir()
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", 60, "--step-ms", 60],
              options=["--on-commit", "echo said; exit 3", "--metrics", figures])
    for step in (2, 4):
        fermata.wait_for_step(job, step)
        job.checkpoint()
    mpis.checksum(job.finish())
    told = job.running.err
    check_equal(told.count("--on-commit: the command has failed (exit status: 3)"), 1, told)
    log = (work / "fermata/job/coordinator.log").read_text()
    check_equal((log.count("on-commit: said"), log.count("on-commit: has failed")), (2, 2), log)
    (text,) = [path.read_text() for path in figures.iterdir()]
    for line in ('fermata_checkpoints_total{job="job"} 2', 'fermata_job_up{job="job"} 0',
                 'fermata_job_ended{job="job",how="finished"} 1'):
        check(line in text.split("\n"), f"{line}\n{text}")


@timeout(120)
def test_those_who_listen_hear_of_a_restart_and_no_retry_is_an_end(work):
    _write(work / "fermata.toml", f"""
on-failure = 'echo "$FERMATA_HOW" >> {work}/failed'
retries = 1
metrics = "figures.prom"
""")
    env = _environment(work)
    steps = [mpis.program("mpich", "leaves"), "--steps", 20, "--step-ms", 60, "--how", "kill"]
    command = [fermata.FERMATA, "run", "-np", "2", "--name", "job", "--mpi", "mpich", *steps]
    ended = process.run(list(map(str, command)), 60, env, work)
    check(ended.code != 0 and "retry 1 of 1" in ended.err, ended.err)
    check_equal((work / "failed").read_text().count("\n"), 1, "the end is told once")
    figures = (work / "figures.prom").read_text()
    check('fermata_runs_total{job="job"} 2\n' in figures, figures)
    check('fermata_job_run{job="job"} 2\n' in figures, figures)
    program = [mpis.program("mpich", "selfcheck"), "--steps", 60, "--step-ms", 60]
    command = [fermata.FERMATA, "run", "-np", "2", "--name", "again", "--mpi", "mpich", *program]
    running = process.Running(command, work, env=env, cwd=work)
    running.wait_for("step 2\n")
    _ask(work, "checkpoint", "again", "--stop").expect_success("checkpoint --stop")
    running.wait(60)
    restarted = process.Running([fermata.FERMATA, "restart", "again"], work, "restart", env, work)
    mpis.checksum(restarted.wait(60).expect_success("restart").out)
    figures = (work / "figures.prom").read_text()
    check('how="finished"} 1\n' in figures and 'job_run{job="again"} 2\n' in figures, figures)
