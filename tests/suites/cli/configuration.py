# SPDX-License-Identifier: Apache-2.0
"""fermata.toml, commands that hear of a job, and its figures."""
import json
import os

from support import fermata, mpis, process
from support.cases import check, check_equal, timeout

STEPS = 8
USAGE = 2


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
    project.chmod(0o666)
    told = _ask(work, "config", "--json")
    check("fermata.toml is not read: others may write to it" in told.err, told.err)
    check_equal(fermata.as_json(told)["settings"]["keep"]["value"], 5, "the user's own")
    _write(project, "kepe = 3\n")
    refused = _ask(work, "jobs")
    check_equal(refused.code, USAGE, f"a setting that is none\n{refused.err}")
    check("fermata.toml" in refused.err and "kepe" in refused.err, refused.err)


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
    check("the command of --on-failure has failed (exit status: 4)" in ended.err, ended.err)
    lines = (work / "told").read_text().split("\n")
    check_equal(lines[0], "on-commit job 1", "after the checkpoint")
    check(lines[1].startswith("on-failure job 1 failed"), f"after the failure: {lines}")
    log = (work / "jobs/job/coordinator.log").read_text()
    check("on-commit: JOB" in log and "on-failure: heard" in log, log)
    check("on-commit: has failed" not in log, log)
    check('how="failed"} 1\n' in (work / "figures.prom").read_text(), "figures of the end")
    check(not list(work.glob(".figures*")), "nothing is left of a file that was written")
