# SPDX-License-Identifier: Apache-2.0
"""What another user of the machine has made or can write is never executed, believed or written
through. Root makes the other user's files; without root these tests are skipped."""
import contextlib
import json
import os
import pathlib
import re
import signal
import time
import unicodedata

from support import fermata, mpis, process
from support.cases import Skipped, check, check_equal, timeout
from support.image import crc32c

OTHER = 65534
STEPS = 6
REFUSED, LAUNCHER = 3, 70
THESIS = "ten years of work\n"


def need_root():
    if os.getuid() != 0:
        raise Skipped("only root can make files of other users")


def saved_job(work, env=None):
    """A stopped job with one snapshot."""
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", STEPS, "--step-ms", 60],
              env=env)
    fermata.wait_for_step(job, 2)
    job.checkpoint_and_stop()
    return job, job.snapshots()[-1]


def _exec_restore(work, snapshot):
    """As `restart`, by an mpirun of one's own (guide, chapter 7)."""
    command = [fermata.FERMATA, "exec", "--name", "again", "--restore", snapshot, "--",
               mpis.program("openmpi", "selfcheck")]
    return process.run([*mpis.mpirun("openmpi", 2), *map(str, command)], 60,
                       mpis.environment(FERMATA_DIR=str(work / "fermata")), work)


def refused(result, *words, code=REFUSED):
    check_equal(result.code, code, f"exit code\n{result.err}")
    for word in words:
        check(word in result.err, f"'{word}' is missing in\n{result.err}")
    check("step" not in result.out, f"a rank ran:\n{result.out}")


@timeout(120)
def test_exec_restores_no_snapshot_of_another_user(work):
    need_root()
    _, snapshot = saved_job(work)
    for path in [snapshot, *snapshot.iterdir()]:
        os.chown(path, OTHER, OTHER)
    refused(_exec_restore(work, snapshot), f"belongs to user {OTHER}")


@timeout(120)
def test_a_link_to_an_image_of_another_user(work):
    """The link is one's own; what counts is the file that was opened."""
    need_root()
    job, snapshot = saved_job(work)
    image, elsewhere = snapshot / "rank-1.img", work / "elsewhere.img"
    image.rename(elsewhere)
    image.symlink_to(elsewhere)
    os.chown(elsewhere, OTHER, OTHER)
    refused(fermata.fermata(work, "restart", job.name), f"belongs to user {OTHER}", code=4)
    refused(_exec_restore(work, snapshot), f"the image belongs to user {OTHER}", code=LAUNCHER)
    os.chown(elsewhere, 0, 0)
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


@timeout(120)
def test_an_image_that_others_may_write(work):
    job, snapshot = saved_job(work)
    image = snapshot / "rank-1.img"
    image.chmod(0o666)
    refused(fermata.fermata(work, "restart", job.name), "others may write to it", code=4)
    refused(_exec_restore(work, snapshot), "others may write to the image", code=LAUNCHER)
    image.chmod(0o600)
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


@timeout(120)
def test_a_snapshot_made_where_the_group_may_write(work):
    """Under the umask 002, too, what is saved is its owner's alone."""
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", STEPS, "--step-ms", 60],
              under=["sh", "-c", 'umask 002; exec "$@"', "sh"])
    fermata.wait_for_step(job, 2)
    job.checkpoint_and_stop()
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


def _checksum(manifest):
    text = json.dumps(manifest, separators=(",", ":"), ensure_ascii=False)
    return crc32c(text.encode())


def _rename_job(snapshot, name):
    path = snapshot / "manifest.json"
    sealed = json.loads(path.read_text())
    manifest = sealed["manifest"]
    check_equal(_checksum(manifest), sealed["crc32c"], "checksum of a manifest")
    manifest["job"] = name
    path.write_text(json.dumps({"crc32c": _checksum(manifest), "manifest": manifest}))


@timeout(120)
def test_a_manifest_that_names_a_directory_elsewhere(work):
    """`lock` and `snapshots` would be made there. It is believed where there is no key."""
    keyless = {"XDG_CONFIG_HOME": "/dev/null"}
    _, snapshot = saved_job(work, keyless)
    taken = work / "taken"
    snapshot.rename(taken)
    victim = work / "home"
    victim.mkdir()
    (victim / "lock").write_text(THESIS)
    _rename_job(taken, str(victim))
    refused(fermata.fermata(work, "trust", taken), "belongs to job 'job', not", code=4)
    env = mpis.environment(FERMATA_DIR=str(work / "fermata"), **keyless)
    result = fermata.fermata(work, "restart", taken, env=env)
    check(result.code != 0 and "is no job name" in result.err, result.err)
    check_equal((victim / "lock").read_text(), THESIS, "a file beside")
    check_equal(sorted(path.name for path in victim.iterdir()), ["lock"], "names beside")


@timeout(120)
def test_a_snapshot_of_another_user_is_not_written_beside(work):
    need_root()
    job, snapshot = saved_job(work)
    thesis = work / "thesis"
    thesis.write_text(THESIS)
    lock = job.work / "fermata" / job.name / "lock"
    lock.unlink()
    lock.symlink_to(thesis)
    for path in [snapshot, *snapshot.iterdir()]:
        os.chown(path, OTHER, OTHER)
    refused(fermata.fermata(work, "restart", snapshot), f"belongs to user {OTHER}")
    check_equal(thesis.read_text(), THESIS, "what a link named `lock` leads to")


@timeout(60)
def test_a_job_directory_of_another_user(work):
    """Made before the job began, with links that lead to files of the user."""
    need_root()
    directory = work / "fermata" / "melt"
    (directory / "snapshots").mkdir(parents=True)
    victims = {name: work / f"{name}.victim" for name in ("job.json.partial", "coordinator.log",
                                                         "lock", "ranks")}
    for name, victim in victims.items():
        victim.write_text(THESIS)
        (directory / name).symlink_to(victim)
    os.chown(directory, OTHER, OTHER)
    directory.chmod(0o777)
    run = [fermata.FERMATA, "run", "-n", "1", "--mpi", "openmpi", "--name", "melt", "--",
           mpis.program("openmpi", "selfcheck"), "--steps", "1"]
    rank = [*mpis.mpirun("openmpi", 1), fermata.FERMATA, "exec", "--name", "melt", "--",
            mpis.program("openmpi", "selfcheck"), "--steps", "1"]
    environment = mpis.environment(FERMATA_DIR=str(work / "fermata"))
    for command in (run, rank):
        refused(process.run([*map(str, command)], 60, environment, work), str(directory),
                f"user {OTHER}")
    for name, victim in victims.items():
        check_equal(victim.read_text(), THESIS, f"what a link named {name} leads to")


@timeout(60)
def test_pipes_keep_no_command_waiting(work):
    job, snapshot = pathlib.Path(work / "fermata" / "job"), "snapshots/1"
    (job / snapshot).mkdir(parents=True)
    for name in ("job.json", f"{snapshot}/manifest.json"):
        os.mkfifo(job / name)
    for command in (["jobs"], ["snapshots", "job"], ["verify", job / snapshot],
                    ["inspect", job / snapshot], ["restart", job / snapshot]):
        result = fermata.fermata(work, *command, timeout_s=20)
        check(result.code in (0, 1, 3, 4), f"{command}: {result.code}\n{result.err}")


@timeout(120)
def test_a_pipe_in_the_place_of_an_image(work):
    job, snapshot = saved_job(work)
    image = snapshot / "rank-0.img"
    kept = image.rename(work / "kept")
    os.mkfifo(image)
    for command in (["restart", job.name], ["verify", snapshot], ["inspect", snapshot]):
        result = fermata.fermata(work, *command, timeout_s=20)
        told = "no regular file" in result.err and re.search(r"rank-0\.img|rank 0:", result.err)
        check(result.code != 0 and told, f"{command}: {result.code}\n{result.err}")
    result = _exec_restore(work, snapshot)
    check(result.code != 0 and "rank-0.img" in result.err, result.err)
    kept.rename(image)
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


@timeout(60)
def test_a_pipe_in_the_place_of_a_hostfile(work):
    """What the shell makes of <(...) is one as well, and is read."""
    os.mkfifo(work / "hosts")
    run = [fermata.FERMATA, "run", "-n", "2", "--hostfile"]
    result = process.run([*run, work / "hosts", "--", "true"], 20, mpis.environment(), work)
    check(result.code != 0 and "hosts: is no regular file" in result.err, result.err)
    line = ["bash", "-c", '"$@" <(echo here:1) -- true', "bash", *run]
    result = process.run(line, 20, mpis.environment(), work)
    check("room for 1 ranks, not for 2" in result.err, result.err)


# Binds as root, where only root may, and listens as another user: that is who the kernel names.
LISTENER = f"""
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.setresuid({OTHER}, {OTHER}, {OTHER})
listener.listen()
print("listens", flush=True)
while True:
    peer, _ = listener.accept()
    if peer.recv(4096):
        print("took something", flush=True)
"""


def socket_of(job):
    record = json.loads((job.work / "fermata" / job.name / "job.json").read_text())
    return pathlib.Path(record["socket"])


@contextlib.contextmanager
def _thief(work, socket):
    """Another user's process that listens where the coordinator did: it was killed, and the
    directory of sockets emptied. Nobody may tell it anything."""
    socket.unlink(missing_ok=True)
    thief = process.Running(["python3", "-c", LISTENER, socket], work, "thief")
    try:
        thief.wait_for("listens")
        yield
        check("took" not in thief.out, f"somebody has been told something\n{thief.out}")
    finally:
        process.kill_tree(thief.process.pid)
        socket.unlink(missing_ok=True)


@timeout(120)
def test_a_socket_at_which_another_user_answers_commands(work):
    need_root()
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", STEPS, "--step-ms", 60])
    fermata.wait_for_step(job, 2)
    job.checkpoint()
    process.kill_tree(job.running.process.pid)
    job.running.wait(60)
    with _thief(work, socket_of(job)):
        told = fermata.fermata(work, "jobs", timeout_s=20)
        check("running" not in told.out, told.out)
        asked = fermata.fermata(work, "checkpoint", job.name, timeout_s=20)
        check(asked.code != 0, f"a checkpoint by somebody else\n{asked.out}")
        job.restart("mpich")
        check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


@timeout(120)
def test_a_socket_at_which_another_user_answers_ranks(work):
    """They look for a coordinator for some seconds, and continue without one."""
    need_root()
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", 400, "--step-ms", 50])
    fermata.wait_for_step(job, 2)
    socket = socket_of(job)
    os.kill(job.running.process.pid, signal.SIGKILL)
    with _thief(work, socket):
        time.sleep(7)
        check(len(process.descendants()) >= 2, "the ranks have ended")


@timeout(60)
def test_control_characters_do_not_reach_the_terminal(work):
    """The name of a job is that of a directory, which anybody may have made."""
    directory = work / "fermata" / "red\x1b]0;owned\x07"
    directory.mkdir(parents=True)
    (directory / "job.json").write_text("{}")
    for command in (["jobs"], ["snapshots", directory.name], ["restart", directory.name]):
        result = fermata.fermata(work, *command, timeout_s=20)
        for text in (result.out, result.err):
            check("\x1b" not in text and "\x07" not in text, f"{command}: {text!r}")


def _obeyed(result):
    """The control characters in what a command has printed, but for those of lines."""
    return [char for char in result.out + result.err
            if unicodedata.category(char) == "Cc" and char not in "\n\t"]


HOSTILE = "files\x9b31m\x7f\x1b]0;owned\x07"  # of C0 and C1


def _with_hostile_files(work, *options):
    """A job whose files are in a directory of such a name."""
    directory = work / HOSTILE
    directory.mkdir()
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "resources/files_append"), "--steps", STEPS,
                          "--step-ms", 60, "--dir", directory], options=options)
    return job, directory


@timeout(120)
def test_names_of_files_do_not_command_the_terminal(work):
    """Not as arguments of a job, nor in an image, in an error, or in JSON."""
    job, directory = _with_hostile_files(work)
    fermata.wait_for_step(job, 2)
    shown = [fermata.fermata(work, "jobs"), fermata.fermata(work, "jobs", "--json")]
    job.checkpoint_and_stop()
    shown += [fermata.fermata(work, command, *of, *json) for json in ([], ["--json"])
              for command, of in (("inspect", [job.name, "--rank", 0]), ("snapshots", [job.name]),
                                  ("verify", [job.snapshots()[-1]]))]
    for result in shown:
        check_equal((result.code, _obeyed(result)), (0, []), f"{result.out}\n{result.err}")
    check("\\u009b31m\\u007f" in shown[1].out, shown[1].out)
    check_equal(json.loads(shown[1].out)[0]["argv"][-1], str(directory), "as JSON has it")
    directory.rename(work / "elsewhere")
    result = job.restart("mpich").wait(30)
    check("31m" in result.err and not _obeyed(result), f"{result.err!r}")


@timeout(90)
def test_answers_of_the_coordinator_do_not_command_the_terminal(work):
    """A rank says why it cannot be saved, and names a file."""
    job, directory = _with_hostile_files(work, "--files", "save", "--files-limit", 1)
    fermata.wait_for_step(job, 4)
    for log in directory.iterdir():  # what has no blocks yet does not count
        with open(log, "rb") as file:
            os.fsync(file)
    for options in ([], ["--json"]):
        result = fermata.fermata(work, "checkpoint", job.name, *options)
        check(result.code != 0 and "31m" in result.out + result.err, result.err)
        check_equal(_obeyed(result), [], f"{result.out!r} {result.err!r}")
    log = (work / "fermata" / job.name / "coordinator.log").read_text()
    check("31m" in log and "\x9b" not in log and "\x1b" not in log, f"{log!r}")
    job.finish()


@timeout(90)
def test_the_log_of_a_job_has_a_limit(work):
    """What runs before have left counts as well; the newest lines stay."""
    directory, most = work / "fermata/job", 8 << 20
    directory.mkdir(parents=True, mode=0o700)
    log = directory / "coordinator.log"
    log.write_text("     0.000 an earlier line\n" * (most // 10))
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", STEPS])
    job.finish()
    check(log.stat().st_size <= most, f"the log has {log.stat().st_size} bytes")
    lines = log.read_text().split("\n")
    check("earlier lines were dropped" in lines[0], lines[0])
    check(lines[1].endswith("an earlier line") and "ends" in lines[-2], lines[-5:])


@timeout(60)
def test_mpi_remove_takes_a_name(work):
    """Not a path, by which it would remove what is no MPI's."""
    (work / "thesis.json").write_text(THESIS)
    up = "../" * 40
    result = fermata.fermata(work, "mpi", "remove", f"{up}{work}/thesis")
    check(result.code != 0, "it was removed")
    check_equal((work / "thesis.json").read_text(), THESIS, "a file elsewhere")
