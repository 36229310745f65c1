# SPDX-License-Identifier: Apache-2.0
"""The command line for people and for programs: help with examples, JSON everywhere, completions
and man pages from the same table, progress that is quiet where nobody watches."""
import os
import pty
import re
import shutil
import signal
import subprocess

from support import fermata, mpis, process
from support.cases import check, check_equal, timeout
from support.namespaces import own_mounts

FAILED, USAGE, REFUSED = 1, 2, 3


def _commands(work, *path):
    """Every command below `path` as a list of words, from the help itself."""
    text = fermata.fermata(work, *path, "--help").expect_success("--help").out
    listed = re.search(r"\nCommands:\n((?:  .*\n)+)", text)
    if not listed:
        return [path]
    names = re.findall(r"^  (\w+)  ", listed[1], re.M)
    check(len(names) > 2, f"names in:\n{text}")
    return [command for name in names if name != "help"
            for command in _commands(work, *path, name)]


def test_every_command_has_help_with_an_example(work):
    commands = _commands(work)
    check(len(commands) >= 15, f"all commands were found: {commands}")
    for command in commands:
        text = fermata.fermata(work, *command, "--help").out
        example = text.partition("\nExample:\n")[2]
        check("  fermata " in example or " fermata exec " in example, f"{command}:\n{text}")
        check(" ".join(command) in example, f"the example of {command} uses it:\n{example}")


def test_help_lists_the_exit_codes(work):
    text = fermata.fermata(work, "--help").out
    codes = re.findall(r"^  (\d+) ", text.partition("Exit codes:\n")[2], re.M)
    check_equal(codes, ["0", "1", "2", "3", "4", "70", "75"], "codes")


def test_errors_are_json_if_asked_for(work):
    for arguments, code in ((["run", "--json"], USAGE), (["--json", "no-such-command"], USAGE),
                            (["plan", "--json"], USAGE),
                            (["checkpoint", "nobody", "--json"], REFUSED),
                            (["restart", "nobody", "--json"], REFUSED)):
        result = fermata.fermata(work, *arguments)
        check_equal(result.code, code, f"exit code of {arguments}")
        value = fermata.as_json(result)
        check(value["ok"] is False and value["code"] == code and value["error"], f"{value}")


@timeout(90)
def test_every_answer_is_one_json_value(work):
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", 8, "--step-ms", 60])
    fermata.wait_for_step(job, 1)
    taken = fermata.as_json(fermata.fermata(work, "--json", "checkpoint", "job"))
    check(taken["ok"] and taken["figures"]["ranks"] == 2, f"{taken}")
    job.finish()
    for command in (["jobs"], ["snapshots", "job"], ["inspect", "job", "--rank", 1],
                    ["verify", "job"], ["prune", "job", "--keep", 1], ["mpi", "list"],
                    ["doctor"], ["plan", "--nodes", "64"], ["completions", "fish"],
                    ["man", work / "man"]):
        fermata.as_json(fermata.fermata(work, *command, "--json"))
    seen = fermata.as_json(fermata.fermata(work, "inspect", "job", "--json"))["images"][0]["files"]
    check_equal(seen[0]["kind"], "standard stream", "kind of the first descriptor")
    job._launch("restart", "job", "--mpi", "mpich", "--json")
    lines = job.finish().rstrip().split("\n")
    check('"code":0' in lines[-1], f"the last line is the JSON value: {lines[-1]}")


@timeout(120)
def test_prune_leaves_what_a_run_needs(work):
    """The snapshot that a run continues from stays until the run has one of its own, and what
    belongs to a checkpoint under way until nobody runs the job."""
    job = fermata.Job(work)
    job.start("mpich", [mpis.program("mpich", "selfcheck"), "--steps", 8, "--step-ms", 60])
    fermata.wait_for_step(job, 1)
    job.checkpoint()
    job.checkpoint_and_stop()
    job._launch("restart", job.snapshots()[0], "--mpi", "mpich")
    log = work / "fermata/job/coordinator.log"
    process.wait_until(lambda: log.read_text().count("ranks are ready") == 2, "the restart")
    part = work / "fermata/job/snapshots/9.partial"
    part.mkdir()

    def left_by_prune():
        fermata.fermata(work, "prune", "job", "--keep", 1).expect_success("prune")
        return [int(snapshot.name) for snapshot in job.snapshots()]
    check_equal(left_by_prune(), [1, 2], "snapshots")
    check(part.exists(), "a checkpoint might be under way")
    job.checkpoint()
    check_equal(left_by_prune(), [3], "snapshots")
    mpis.checksum(job.finish())
    left_by_prune()
    check(not part.exists(), "nobody runs the job")


def _exec_again(job, name, program):
    """Continues from the job's oldest snapshot under a foreign mpirun, as a job of this name."""
    command = [*mpis.mpirun("mpich", 2), fermata.FERMATA, "exec", "--mpi", "mpich", "--name", name,
               "--restore", job.snapshots()[0], *program]
    return process.Running(command, job.work, name="exec", cwd=job.work, env=mpis.environment(
        FERMATA_DIR=str(job.work / "fermata")))


@timeout(120)
def test_prune_leaves_what_a_job_of_a_foreign_mpirun_needs(work):
    """The record of `exec --restore` did not say what it was restored from."""
    job = fermata.Job(work)
    program = [mpis.program("mpich", "selfcheck"), "--steps", 8, "--step-ms", 60]
    job.start("mpich", program)
    fermata.wait_for_step(job, 1)
    job.checkpoint()
    job.checkpoint_and_stop()
    job.running = _exec_again(job, "job", program)
    log = work / "fermata/job/coordinator.log"
    process.wait_until(lambda: log.read_text().count("ranks are ready") == 2, "the restart")
    fermata.fermata(work, "prune", "job", "--keep", 1).expect_success("prune")
    check_equal(len(job.snapshots()), 2, "snapshots")
    mpis.checksum(job.finish())


@timeout(120)
def test_a_job_of_another_name_resumes_counting(work):
    """Its images know of the checkpoint that they were cut in, so no later one has that number."""
    job = fermata.Job(work)
    program = [mpis.program("mpich", "selfcheck"), "--steps", 8, "--step-ms", 60]
    job.start("mpich", program)
    fermata.wait_for_step(job, 2)
    job.checkpoint_and_stop()
    other = fermata.Job(work, "other")
    other.running = _exec_again(job, "other", program)
    other.running.wait_for("step 4\n", 60)
    other.checkpoint()
    job.release()
    mpis.checksum(other.finish())
    check_equal([path.name for path in other.snapshots()], ["2"], "snapshots")


def test_answers_that_nobody_takes(work):
    """Who stops reading has had enough; a full disk is a failure. Both were a panic."""
    def ask(command, out):
        done = subprocess.run([fermata.FERMATA, *command], stdout=out, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, cwd=work, check=False,
                              env=mpis.environment(FERMATA_DIR=str(work / "fermata")))
        return done.returncode, done.stderr.decode()
    for command in (["jobs"], ["mpi", "list", "--json"], ["completions", "bash"]):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "wb") as pipe, open("/dev/full", "wb") as full:
            check_equal(ask(command, pipe), (0, ""), f"{command} into a broken pipe")
            code, said = ask(command, full)
        check(code == FAILED and "cannot write the answer" in said, f"{command}: {code} {said}")


def test_completions_complete(work):
    script = work / "fermata.bash"
    script.write_text(fermata.fermata(work, "completions", "bash").expect_success("").out)
    for words, wanted in ((["fermata", "che"], "checkpoint"), (["fermata", "mpi", "r"], "remove"),
                          (["fermata", "checkpoint", "--st"], "--stop")):
        quoted = " ".join(words)
        done = process.run(["bash", "-c", f"source {script}; COMP_WORDS=({quoted}); "
                            f"COMP_CWORD={len(words) - 1}; _fermata fermata {words[-1]} "
                            f"{words[-2]}; echo ${{COMPREPLY[@]}}"]).expect_success("bash")
        check_equal(done.out.split(), [wanted], f"completion of {quoted!r}")
    for shell in ("zsh", "fish"):
        text = fermata.fermata(work, "completions", shell).expect_success(shell).out
        check("checkpoint" in text and "--stop" in text or "-l stop" in text, f"{shell}:\n{text}")


def test_man_pages(work):
    fermata.fermata(work, "man", work / "man1").expect_success("man")
    pages = {path.stem for path in (work / "man1").glob("*.1")}
    wanted = {"-".join(["fermata", *command]) for command in _commands(work)}
    groups = {"fermata", "fermata-mpi", "fermata-site"}
    check_equal(pages - wanted, groups, "pages beside those of the commands")
    check_equal(wanted - pages, set(), "commands without a page")
    text = (work / "man1/fermata-checkpoint.1").read_text()
    for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXAMPLE"):
        check(f".SH {section}\n" in text, f"section {section} in:\n{text}")


def test_doctor_explains_limits(work):
    """Under limits like those of a container: they are noticed, and there is advice."""
    script = 'mount -t tmpfs -o size=1m none /dev/shm && ulimit -l 64 && exec "$@"'
    command = [*own_mounts(), "sh", "-c", script, "sh", "setpriv", "--no-new-privs",
               fermata.FERMATA, "doctor", "--json"]
    findings = fermata.as_json(process.run(command, env=mpis.environment()))["findings"]
    found = {finding["what"]: finding for finding in findings}
    for what, text, hint in (("/dev/shm", "1.0 MiB free on tmpfs", "--shm-size"),
                             ("memory that may be locked", "64.0 KiB", "ulimit -l")):
        check_equal((found[what]["found"], found[what]["state"]), (text, "note"), what)
        check(hint in found[what]["advice"], f"advice for {what}: {found[what]}")
    check_equal(found["no_new_privs"]["found"], "set already", "no_new_privs")


@timeout(90)
def test_signals_for_the_job_reach_its_ranks(work):
    """`fermata restart` hands SIGUSR1 to mpirun, and that to every rank."""
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "notified"), "--step-ms", 20])
    fermata.wait_for_step(job, 3)
    job.checkpoint(stop=True)
    job.restart("mpich")
    fermata.wait_for_step(job, 6)
    job.running.process.send_signal(signal.SIGUSR1)
    job.finish()


@timeout(90)
def test_restart_right_after_stop(work):
    """The ranks and mpirun may still be ending; nobody has to wait for them by hand."""
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", 8, "--step-ms", 60])
    fermata.wait_for_step(job, 3)
    job.checkpoint(stop=True)
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, 8), "checksum")


@timeout(90)
def test_restart_from_another_directory(work):
    """A program called by a relative path is found where the job was started."""
    shutil.copy(mpis.program("openmpi", "selfcheck"), work / "app")
    job = fermata.Job(work)
    job.start("openmpi", ["./app", "--steps", 8, "--step-ms", 60])
    fermata.wait_for_step(job, 3)
    job.checkpoint_and_stop()
    job.release()
    done = process.run([fermata.FERMATA, "restart", "job", "--mpi", "mpich"], 60,
                       mpis.environment(FERMATA_DIR=str(work / "fermata")), "/")
    check_equal(mpis.checksum(done.expect_success("restart").out),
                mpis.expected("selfcheck", 2, 8), "checksum")


def _on_terminal(command, work):
    """Runs a command with a terminal as standard error and returns what it drew."""
    ours, theirs = pty.openpty()
    pid = os.fork()
    if pid == 0:
        os.dup2(theirs, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execve(command[0], list(map(str, command)),
                  mpis.environment(FERMATA_DIR=str(work / "fermata")))
    os.close(theirs)
    drawn = b""
    try:
        while part := os.read(ours, 65536):
            drawn += part
    except OSError:
        pass  # Linux reports the end of the other side so.
    os.waitpid(pid, 0)
    return drawn.decode()


@timeout(90)
def test_progress_is_drawn_on_terminals_only(work):
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", 30, "--step-ms", 60])
    fermata.wait_for_step(job, 1)
    drawn = _on_terminal([str(fermata.FERMATA), "checkpoint", "job"], work)
    check("\x1b[" in drawn and "ranks" in drawn, f"a line that moves: {drawn!r}")
    quiet = fermata.fermata(work, "checkpoint", "job").expect_success("checkpoint")
    check("\x1b[" not in quiet.err + quiet.out, f"plain: {quiet.err!r}")
    job.finish()
