# SPDX-License-Identifier: Apache-2.0
"""Places that another user has taken first, or can put something else into: directories of sockets,
a job's directory under one that others may write to, what lies in it. The owner runs on, and
nothing of the owner's is written or removed elsewhere. Root makes the other user's files."""
import json
import os
import shutil
import socket

from support import fermata, mpis, process
from support.cases import check, check_equal, timeout
from suites.cli.moved_paths import upgrade
from suites.security.trust import (LAUNCHER, OTHER, REFUSED, THESIS, need_root, refused, saved_job,
                                   socket_of)

STEPS = 6
SLEEP_MS = 5000  # of a fault, within which something is exchanged


def _selfcheck(step_ms=60):
    return [mpis.program("openmpi", "selfcheck"), "--steps", STEPS, "--step-ms", step_ms]


def _checksum(job):
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


# A /tmp of its own, in which another user has made the directory that root's sockets are to be in.
# The repository may itself be in the directory that is hidden.
TAKEN = f"""
mount --bind {mpis.ROOT} /mnt
mount -t tmpfs none /tmp
mkdir -m 1777 /tmp/mine && chmod 1777 /tmp
case {mpis.ROOT} in /tmp/*) mkdir -p {mpis.ROOT}; mount --move /mnt {mpis.ROOT} ;; esac
cd "$PWD"
mkdir -m 755 /tmp/fermata-0 && chown {OTHER} /tmp/fermata-0
exec "$@"
"""


@timeout(120)
def test_a_directory_of_sockets_that_another_user_has_made(work):
    """It kept the owner of that number from running. Now sockets lie under a name that nobody could
    guess, and that goes with the run."""
    need_root()
    job = fermata.Job(work)
    job.start("openmpi", _selfcheck(), env={"XDG_RUNTIME_DIR": ""},
              under=["unshare", "--mount", "sh", "-c", TAKEN, "sh"])
    fermata.wait_for_step(job, 2)
    namespace = os.open(f"/proc/{job.running.process.pid}/ns/mnt", os.O_RDONLY)
    inside = ["nsenter", f"--mount=/proc/{os.getpid()}/fd/{namespace}"]
    directory = socket_of(job).parent
    check(directory.name.startswith("fermata-0-"), f"sockets lie in {directory}")
    mode = process.run([*inside, "stat", "-c", "%a %u", directory]).out.split()
    check_equal(mode, ["700", "0"], "mode and owner of the directory of sockets")
    command = [*inside, fermata.FERMATA, "checkpoint", job.name]
    environment = mpis.environment(FERMATA_DIR=str(work / "fermata"))
    process.run(command, 60, environment, work).expect_success("checkpoint")
    _checksum(job)
    left = process.run([*inside, "ls", "/tmp"]).out.split()
    check("fermata-0" in left and directory.name not in left, f"what is left in /tmp: {left}")
    os.close(namespace)


@timeout(90)
def test_the_runtime_directory_of_another_user(work):
    """`su` and `sudo -E` leave XDG_RUNTIME_DIR as it was; what we made there was in its owner's
    way."""
    need_root()
    theirs = mpis.kept("theirs")
    check(len(str(theirs)) < 60, f"sockets have no room in {theirs}")
    os.chown(theirs, OTHER, OTHER)
    job = fermata.Job(work)
    job.start("openmpi", _selfcheck(), env={"XDG_RUNTIME_DIR": str(theirs)})
    fermata.wait_for_step(job, 2)
    check(theirs not in socket_of(job).parents, f"the socket is {socket_of(job)}")
    job.checkpoint()
    _checksum(job)
    check_equal(list(theirs.iterdir()), [], "what lies in another user's directory")


@timeout(120)
def test_a_job_directory_that_is_put_aside_while_the_job_runs(work):
    """Whoever may write to the directory above can do so, and put another one there. The
    coordinator stays in the one that it has opened."""
    job = fermata.Job(work)
    job.start("openmpi", _selfcheck())
    fermata.wait_for_step(job, 2)
    place, away, home = work / "fermata/job", work / "away/job", work / "home"
    away.parent.mkdir()
    place.rename(away)
    place.mkdir()
    for directory in ("1.partial", "1.discarded", "7.partial"):
        (home / directory).mkdir(parents=True)
        (home / directory / "thesis").write_text(THESIS)
    (place / "snapshots").symlink_to(home)
    victims = [work / f"{name}.victim" for name in ("job.json.partial", "job.json", "lock")]
    for victim in victims:
        victim.write_text(THESIS)
        (place / victim.stem).symlink_to(victim)
    told = fermata.fermata(away.parent.parent, "--dir", away.parent, "checkpoint", "job")
    check(told.code != 0, f"a snapshot of images that are elsewhere\n{told.out}")
    _checksum(job)
    for path in [*victims, *home.glob("*/thesis")]:
        check_equal(path.read_text(), THESIS, f"{path}")
    check_equal(len(list(home.glob("*/thesis"))), 3, "directories that nobody was to remove")
    check_equal(json.loads((away / "job.json").read_text())["socket"], "", "the end is recorded")


@timeout(60)
def test_a_file_of_the_users_is_no_lock(work):
    """A link above the job's directory leads it to one of the user's own, in which `lock` is
    something else."""
    home = work / "home"
    (home / "thesis").mkdir(parents=True, mode=0o700)
    (home / "thesis/lock").write_text(THESIS)
    (work / "fermata").symlink_to(home)
    result = fermata.fermata(work, "run", "-n", 1, "--mpi", "openmpi", "--name", "thesis", "--",
                             *_selfcheck(0))
    refused(result, "thesis/lock", "it is no lock of a job")
    check_equal((home / "thesis/lock").read_text(), THESIS, "a file named lock")


@timeout(120)
def test_pipes_in_a_job_directory_keep_no_command_waiting(work):
    job, _ = saved_job(work)
    directory = work / "fermata" / job.name
    for name in ("lock", "ranks"):
        (directory / name).unlink(missing_ok=True)
        os.mkfifo(directory / name)
    fermata.fermata(work, "jobs", timeout_s=20).expect_success("jobs")
    fermata.fermata(work, "snapshots", job.name, timeout_s=20).expect_success("snapshots")
    refused(fermata.fermata(work, "restart", job.name, timeout_s=20), "lock", "is no regular file")
    (directory / "lock").unlink()
    job.restart("mpich")
    _checksum(job)


@timeout(120)
def test_a_pipe_in_a_local_directory(work):
    """Anybody can make one in /tmp or a shared scratch: the name of a job is on command lines. The
    daemon waited for its other end, and the job was refused for a network that was well."""
    local = work / "images"
    local.mkdir(mode=0o777)
    os.mkfifo(local / f"job@{socket.gethostname()}-0")
    job = fermata.Job(work)
    job.start("openmpi", _selfcheck(), options=["--local-dir", local])
    fermata.wait_for_step(job, 2)
    job.checkpoint()
    _checksum(job)


@timeout(120)
def test_a_pipe_in_the_place_of_a_file_of_the_job(work):
    """A rank would wait for its other end."""
    (work / "files").mkdir()
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "resources/files_append"), "--steps", STEPS,
                          "--step-ms", 60, "--dir", work / "files"])
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    log = work / "files/log.0"
    kept = log.rename(work / "kept")
    os.mkfifo(log)
    refused(fermata.fermata(work, "restart", job.name, timeout_s=30), "log.0: is a pipe now")
    kept.rename(log)
    # When all has been looked at the rank is the one to see it.
    job.restart("mpich", under=["env", f"FERMATA_FAULT=restore-memory=sleep:{SLEEP_MS}"])
    job.running.wait_for("fault: restore-memory=sleep")
    log.rename(kept)
    os.mkfifo(log)
    refused(job.running.wait(60), "cannot reopen", "log.0", code=LAUNCHER)
    kept.rename(log)
    job.restart("mpich")
    job.finish()


def _with_a_program_of_its_own(work):
    """A running job, and its program."""
    program = work / "program"
    shutil.copy2(mpis.program("openmpi", "selfcheck"), program)
    job = fermata.Job(work)
    job.start("openmpi", [program, "--steps", STEPS, "--step-ms", 60])
    fermata.wait_for_step(job, 2)
    return job, program


@timeout(120)
def test_a_pipe_in_the_place_of_a_program_that_is_saved(work):
    """A rank looks for the file that it has mapped, to know whether its image needs the contents.
    The kernel calls one that is gone as anybody can call a pipe."""
    job, program = _with_a_program_of_its_own(work)
    program.unlink()
    os.mkfifo(work / "program (deleted)")
    job.checkpoint_and_stop()
    shutil.copy2(mpis.program("openmpi", "selfcheck"), program)
    job.restart("mpich")
    _checksum(job)


@timeout(120)
def test_a_pipe_in_the_place_of_a_program_that_is_restored(work):
    """Put there when all has been looked at: the ranks themselves wait for no other end."""
    job, program = _with_a_program_of_its_own(work)
    job.checkpoint_and_stop()
    job.restart("mpich", under=["env", f"FERMATA_FAULT=restore-opened=sleep:{SLEEP_MS}"])
    job.running.wait_for("fault: restore-opened=sleep")
    kept = program.rename(work / "kept")
    os.mkfifo(program)
    refused(job.running.wait(60), "is no regular file now", str(program), code=LAUNCHER)
    program.unlink()
    kept.rename(program)
    job.restart("mpich")
    _checksum(job)


def _as_other(*words):
    return ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", *words]


@timeout(150)
def test_root_is_told_whose_a_job_is(work):
    """It was told that the job had ended, or did not answer."""
    need_root()
    for name in ("fermata", "home"):
        (work / name).mkdir(0o700)
        os.chown(work / name, OTHER, OTHER)
    job = fermata.Job(work)
    home = str(work / "home")
    job.start("openmpi", _selfcheck(), under=_as_other(), env={"HOME": home, "TMPDIR": home})
    fermata.wait_for_step(job, 2)
    told = fermata.fermata(work, "jobs").expect_success("jobs").out
    check("running" in told and f"of user {OTHER}" in told, told)
    for command in ("checkpoint", "prune"):
        words = (f"belongs to user {OTHER}", f"sudo -u '#{OTHER}' fermata --dir", command)
        refused(fermata.fermata(work, command, job.name), *words, code=REFUSED)
    asked = [*_as_other(), fermata.FERMATA, "--dir", work / "fermata", "checkpoint", job.name]
    process.run(asked, 60, mpis.environment(), work).expect_success("as its owner")
    _checksum(job)


@timeout(180)
def test_a_part_of_fermata_that_others_may_write(work):
    """A front end that a job has kept is code that runs as its user."""
    need_root()
    prefix = fermata.installation(work, "first")
    job = fermata.Job(work)
    job.fermata = prefix / "bin/fermata"
    job.start("openmpi", _selfcheck())
    fermata.wait_for_step(job, 2)
    job.checkpoint_and_stop()
    upgrade(prefix)  # now only the job has it
    parts = list((work / "fermata/job/parts").iterdir())
    check(parts, "no part was kept")
    for mode, owner in ((0o666, 0), (0o600, OTHER)):
        for part in parts:
            part.chmod(mode)
            os.chown(part, owner, owner)
        result = job.restart("openmpi").wait(60)
        check(result.code != 0 and "step" not in result.out, f"{mode:o} {owner}: {result.out}")
    for part in parts:
        part.chmod(0o600)
        os.chown(part, 0, 0)
    job.restart("openmpi")
    _checksum(job)


def _exchange(shared, theirs):
    """As another user: the tree of jobs is put aside, and another one into its place."""
    script = "mv $1/fermata $1/aside && mv $2/fermata $1/fermata"
    command = _as_other("sh", "-c", script, "sh", shared, theirs)
    process.run(command).expect_success("mv by another user")


def _make_exchanged(point):
    @timeout(180)
    def test(work):
        """Whoever owns the directory above may do that while a restart is on its way. What runs is
        what was checked, or nothing."""
        need_root()
        jobs = []
        for name, title in (("shared", "selfcheck"), ("theirs", "resources/files_append")):
            (work / name / "marks").mkdir(parents=True)
            job = fermata.Job(work / name)
            job.start("openmpi", [mpis.program("openmpi", title), "--steps", STEPS, "--step-ms", 60,
                                  *(["--dir", work / name / "marks"] if "/" in title else [])])
            fermata.wait_for_step(job, 2)
            job.checkpoint_and_stop()
            jobs.append(job)
        job, attack = jobs
        marks = list((work / "theirs/marks").iterdir())
        check(marks, "the other program leaves no mark")
        before = {mark: mark.read_bytes() for mark in marks}
        process.run(["chown", "-R", f"{OTHER}:{OTHER}", work / "theirs"]).expect_success("chown")
        os.chown(work / "shared", OTHER, OTHER)
        job.restart("openmpi", under=["env", f"FERMATA_FAULT={point}=sleep:{SLEEP_MS}"])
        job.running.wait_for(f"fault: {point}=sleep")
        _exchange(work / "shared", work / "theirs")
        job.release()
        result = job.running.wait(90)
        check_equal({mark: mark.read_bytes() for mark in marks}, before, "what the other one wrote")
        if result.code == 0:
            check_equal(mpis.checksum(result.out), mpis.expected("selfcheck", 2, STEPS), "checksum")
        else:
            check(f"user {OTHER}" in result.err and "step" not in result.out, result.err)
        # As one's own the tree would have run: there was something to keep out.
        process.run(["chown", "-R", "0:0", work / "shared", work / "theirs"])
        attack.release()
        job.restart("openmpi").wait(90).expect_success("the other tree, as one's own")
        check(any(mark.read_bytes() != text for mark, text in before.items()), "it left no mark")
    return test


def generate():
    return {"test_a_tree_that_is_exchanged_once_it_is_checked": _make_exchanged("restart-checked"),
            "test_a_tree_that_is_exchanged_before_images_are_opened":
                _make_exchanged("restore-begun")}
