# SPDX-License-Identifier: Apache-2.0
"""What happens to files between a checkpoint and a restart, and what a restart does about it
(`--files`); what the program's children get; a restart on a lesser CPU."""
import os
import re

from support import fermata, image, kinds, mpis, process
from support.cases import Skipped, check, check_equal, timeout

STEPS = 24


def _command(name, work, *more, step_ms=40):
    directory = work / "files"
    directory.mkdir(exist_ok=True)
    return [mpis.program("openmpi", f"resources/{name}"), "--steps", STEPS, "--step-ms", step_ms,
            "--dir", directory, *more]


def _expected(name, work):
    """The checksum of an uninterrupted run."""
    directory = work / "native"
    directory.mkdir()
    command = [mpis.program("openmpi", f"resources/{name}"), "--steps", STEPS, "--dir", directory]
    return mpis.checksum(mpis.native("openmpi", command, 2, work).expect_success(name).out)


def _die_after_checkpoint(work, name):
    """A job that is saved at one step, writes on until a later one, and is killed."""
    job = fermata.Job(work)
    job.start("openmpi", _command(name, work, step_ms=150))
    fermata.wait_for_step(job, 6)
    job.checkpoint()
    fermata.wait_for_step(job, 12)
    job.running.process.terminate()
    job.running.wait(30)
    check("PASS" not in job.running.out, "the run ended on its own before it was killed")
    job.release()
    return job


def _restart(job, *options):
    return job._launch("restart", job.name, "--mpi", "mpich", *options)


def _resume_after_death(work, name):
    """Such a job, restarted from its snapshot, has come to the same end."""
    job = _die_after_checkpoint(work, name)
    _restart(job)
    check_equal(mpis.checksum(job.finish()), _expected(name, work), "checksum")
    return job


@timeout(90)
def test_log_is_cut_back(work):
    job = _resume_after_death(work, "files_append")
    for rank in range(2):
        check(f"log.{rank}: cut back from " in job.running.err, f"a word: {job.running.err}")


@timeout(90)
def test_shared_log_is_cut_back_once(work):
    job = _resume_after_death(work, "files_shared_log")
    check_equal(job.running.err.count("cut back"), 1, "times it was cut back")


@timeout(90)
def test_memory_that_nobody_maps_is_cut_back(work):
    """Files in /dev/shm were thought to be made by the kernel, like the devices beside them."""
    job = _resume_after_death(work, "files_shm")
    check_equal(job.running.err.count("cut back"), 2, "times it was cut back")


@timeout(90)
def test_a_refused_restart_cuts_nothing_back(work):
    """It did so before it knew whether it could start."""
    job = _die_after_checkpoint(work, "files_append")
    before = (work / "files/log.0").read_bytes()
    in_the_way = work / "fermata/job/job.json.partial"
    in_the_way.mkdir()
    for options in (["--hostfile", work / "nothing"], []):
        result = _restart(job, *options).wait(60)
        check(result.code != 0 and "fermata: " in result.err, f"it fails\n{result.err}")
        check_equal((work / "files/log.0").read_bytes(), before, "the log")
    in_the_way.rmdir()
    _restart(job)
    check_equal(mpis.checksum(job.finish()), _expected("files_append", work), "checksum")


@timeout(90)
def test_rule_keep_leaves_files_alone(work):
    job = _die_after_checkpoint(work, "files_append")
    log = work / "files/log.0"
    before = log.read_bytes()
    _restart(job, "--files", "keep")
    ended = job.running.wait(60)
    check(log.read_bytes().startswith(before), "the log was changed")
    check_equal(log.read_text().count("rank 0 step 8 line 0\n"), 2, "times a line is there")
    # What the program prints is often lost: MPICH's mpirun hurries after MPI_Abort.
    check(ended.code != 0 and "PASS" not in ended.out, "the program finds that lines are doubled")
    check("log.0: is longer than at the checkpoint" in job.running.err, job.running.err)


@timeout(90)
def test_rule_fail_refuses(work):
    job = _die_after_checkpoint(work, "files_append")
    log = work / "files/log.0"
    before = log.read_bytes()
    _restart(job, "--files", "fail")
    result = job.running.wait(60)
    check(result.code != 0 and "log.0: is longer" in result.err, f"a refusal: {result.err}")
    check_equal(log.read_bytes(), before, "the log")
    _restart(job)
    check_equal(mpis.checksum(job.finish()), _expected("files_append", work), "checksum")


@timeout(90)
def test_lost_contents_are_refused(work):
    job = _die_after_checkpoint(work, "files_append")
    log = work / "files/log.1"
    whole = log.read_bytes()
    log.write_bytes(whole[:50])
    _restart(job)
    result = job.running.wait(60)
    check(result.code != 0 and "log.1: is shorter" in result.err, f"a refusal: {result.err}")
    check("--files keep" in result.err, "a hint")
    log.write_bytes(whole)
    _restart(job)
    check_equal(mpis.checksum(job.finish()), _expected("files_append", work), "checksum")


@timeout(90)
def test_another_file_in_its_place_is_not_cut(work):
    """A log that was rotated, or a copy of the whole directory: nothing tells the two apart."""
    job = _die_after_checkpoint(work, "files_append")
    log, other = work / "files/log.1", work / "files/other"
    other.write_bytes(log.read_bytes())
    other.rename(log)
    whole = log.read_bytes()
    result = _restart(job).wait(60)
    check(result.code != 0 and "log.1: is another file, and longer" in result.err, result.err)
    check("truncate -s" in result.err and "log.0" not in result.err, "a hint, for one file")
    check_equal(log.read_bytes(), whole, "the other file")
    saved = int(re.search(r"bytes instead of (\d+)", result.err)[1])
    os.truncate(log, saved)
    _restart(job)
    check_equal(mpis.checksum(job.finish()), _expected("files_append", work), "checksum")


@timeout(90)
def test_missing_file_is_named(work):
    job = _die_after_checkpoint(work, "files_append")
    (work / "files/log.1").rename(work / "files/elsewhere")
    _restart(job)
    result = job.running.wait(60)
    check(result.code != 0 and "cannot reopen" in result.err and "log.1" in result.err, result.err)
    (work / "files/elsewhere").rename(work / "files/log.1")
    _restart(job)
    check_equal(mpis.checksum(job.finish()), _expected("files_append", work), "checksum")


@timeout(90)
def test_rewritten_file_is_reported(work):
    job = _die_after_checkpoint(work, "files_offset")
    path = work / "files/data.0"
    image_size = int(fermata.as_json(fermata.fermata(
        work, "--json", "inspect", "job"))["images"][0]["files"][3]["size"])
    with open(path, "r+b") as file:
        file.truncate(image_size)
    _restart(job)
    job.finish()
    check("data.0: has been written to since the checkpoint" in job.running.err, job.running.err)


@timeout(90)
def test_foreign_mpirun_cuts_back_too(work):
    """Without `fermata restart` each rank looks after its own files, before MPI_Init."""
    job = _die_after_checkpoint(work, "files_append")
    newest = fermata.newest_snapshot(job)
    command = [*mpis.mpirun("mpich", 2), fermata.FERMATA, "exec", "--mpi", "mpich", "--restore",
               newest, *_command("files_append", work)]
    result = process.run([str(word) for word in command], 60,
                              mpis.environment(FERMATA_DIR=str(work / "fermata")), work)
    check_equal(mpis.checksum(result.expect_success("mpirun").out),
                _expected("files_append", work), "checksum")
    check(result.err.count("cut back") == 2, result.err)


@timeout(90)
def test_standard_input_from_a_file(work):
    job = fermata.Job(work)
    numbers = work / "numbers"
    numbers.write_text("skipped\n" + "".join(f"{i}\n" for i in range(1, STEPS + 1)) + "end\n")
    program = mpis.program("openmpi", "stdin")
    with open(numbers, encoding="ascii") as file:
        os.lseek(file.fileno(), len("skipped\n"), os.SEEK_SET)
        job._launch("run", "-n", 2, "--mpi", "openmpi", "--name", "job", "--", program,
                    "--steps", STEPS, "--step-ms", 40, stdin=file)
        fermata.wait_for_step(job, 6)
        job.checkpoint_and_stop()
    job.restart("mpich")
    check("PASS" in job.finish(), "the program read all its input")


@timeout(90)
def test_children_get_the_programs_descriptors_only(work):
    job = fermata.Job(work)
    # Its output, and the pipe of the shell's own pipeline.
    job.start("openmpi", _command("processes_spawn", work, "--size", 2))
    fermata.wait_for_step(job, 5)
    job.checkpoint_and_stop()
    job.restart("mpich")
    check("PASS" in job.finish(), "children found no descriptor of an MPI")


def _save_what_a_client_keeps(work, name, prefix, digits):
    """Stands in for a client of NFS or FUSE: the name of a deleted file goes with the job."""
    job = fermata.Job(work)
    kept = prefix + "0" * (digits - 8)
    job.start("openmpi", _command(name, work, "--kept-as", kept))
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    files = list((work / "files").glob(prefix + "*"))
    check_equal(len(files), 2, "files that were kept")
    for file in files:
        file.unlink()
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), _expected(name, work), "checksum")
    check_equal(list((work / "files").glob(prefix + "*")), [], "such files at the end")


@timeout(90)
def test_deleted_file_that_nfs_keeps(work):
    _save_what_a_client_keeps(work, "files_deleted", ".nfs", 24)


@timeout(90)
def test_deleted_file_that_fuse_keeps(work):
    _save_what_a_client_keeps(work, "files_deleted", ".fuse_hidden", 16)


@timeout(90)
def test_mapped_file_that_nfs_keeps(work):
    _save_what_a_client_keeps(work, "memory_file_shared", ".nfs", 24)


@timeout(90)
def test_deleted_files_of_one_number_on_two_devices(work):
    """A fresh tmpfs numbers its files from the same number on."""
    mounts = [work / "files", work / "second"]
    inside = ["unshare", *([] if os.getuid() == 0 else ["-r"]), "-m", "bash", "-c",
              'mount -t tmpfs none "$0" && mount -t tmpfs none "$1" && shift && "$@"', *mounts]
    mounts[1].mkdir()
    command = _command("files_deleted", work, "--second", mounts[1])
    if process.run([*inside, "true"], cwd=work).code != 0:
        raise Skipped("no mounts are allowed here")
    alone = mpis.native("openmpi", command[:-2], 1, work)
    job = fermata.Job(work)
    job.start("openmpi", command, ranks=1, under=inside)
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    job.restart("mpich", under=inside)
    check_equal(mpis.checksum(job.finish()), mpis.checksum(alone.expect_success("native").out),
                "checksum")


def _script(lock):
    """A shell that holds a lock in a descriptor which all that it starts have from it."""
    return ["bash", "-c", 'exec 9>"$0"; flock -w 20 9 || exit 9; "$@"', lock]


def _open_paths(job):
    images = fermata.as_json(fermata.fermata(job.work, "--json", "inspect", job.name))["images"]
    return [[file["path"] for file in image["files"]] for image in images]


@timeout(120)
def test_lock_of_the_calling_script(work):
    """Through MPICH's mpirun, which hands descriptors on, it is the program's lock, too."""
    job = fermata.Job(work)
    script = _script(work / "lock")
    job.start("mpich", _command("files_append", work), under=script)
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    check(all(str(work / "lock") in paths for paths in _open_paths(job)), "the ranks have the lock")
    for step in (8, 12):
        job.restart("mpich", under=script)
        fermata.wait_for_step(job, step)
        held = process.run(["flock", "-n", work / "lock", "true"], cwd=work)
        check_equal(held.code, 1, "flock's answer while the script runs")
        job.checkpoint_and_stop()
    job.restart("mpich", under=script)
    check_equal(mpis.checksum(job.finish()), _expected("files_append", work), "checksum")


@timeout(120)
def test_descriptors_of_a_restarts_script_are_not_the_programs(work):
    job = fermata.Job(work)
    job.start("mpich", _command("files_append", work))
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    for step in (8, 12):
        job.restart("mpich", under=_script(work / "lock"))
        fermata.wait_for_step(job, step)
        job.checkpoint_and_stop()
        check(all(str(work / "lock") not in paths for paths in _open_paths(job)), "leaked")
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), _expected("files_append", work), "checksum")


def _lacking_feature():
    """A feature this CPU has not: its name and its bit in the image's cpu_features."""
    known = {"fma4": 3 * 64 + 48, "xop": 3 * 64 + 43, "avx512er": 2 * 64 + 27,
             "avx512_4vnniw": 3 * 64 + 2}
    with open("/proc/cpuinfo", encoding="ascii") as file:
        flags = next(line for line in file if line.startswith("flags")).split()
    return next(item for item in known.items() if item[0] not in flags)


@timeout(90)
def test_missing_cpu_feature_is_named(work):
    """The image's record of the CPU is made to hold one feature more, with fresh checksums."""
    job = fermata.Job(work)
    job.start("openmpi", _command("files_append", work))
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    name, bit = _lacking_feature()
    image.set_header_bit(fermata.newest_snapshot(job), "cpu_features", bit)
    fermata.fermata(work, "trust", job.name).expect_success("trust")
    _restart(job)
    result = job.running.wait(60)
    check(result.code != 0 and f"saved program may be using: {name}" in result.err,
          f"the feature by name: {result.err}")


@timeout(60)
def test_daemon_of_the_mpi_is_no_child_of_the_program(work):
    """Without mpirun, Open MPI starts a daemon of its own from within the rank."""
    job = fermata.Job(work)
    job._launch("exec", "--mpi", "openmpi", "--name", "job", mpis.program("openmpi", "selfcheck"),
                "--steps", 30, "--step-ms", 100)
    fermata.wait_for_step(job, 3)
    job.checkpoint()
    job.finish()


@timeout(120)
def test_locks_that_are_not_allowed_here(work):
    """mlock and mlockall under a lower RLIMIT_MEMLOCK than the program had: said once per rank,
    and the program continues unlocked."""
    job = fermata.Job(work)
    job.start("openmpi", _command("memory_lock_all", work, step_ms=150),
              env={"FERMATA_TEST_MAY_BE_UNLOCKED": "1"})
    fermata.wait_for_step(job, 7)
    job.checkpoint(stop=True)
    lesser = ["prlimit", "--memlock=65536:65536"]
    if os.getuid() == 0:
        lesser += ["setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock"]
    job.running = process.Running(
        [*lesser, fermata.FERMATA, "restart", "job", "--mpi", "mpich"], work, name="lesser",
        cwd=work, env=mpis.environment(FERMATA_DIR=str(work / "fermata")))
    job.release()
    result = job.running.wait(60)
    check("rank 1:" in result.err and "will not be locked here" in result.err, result.err)
    check_equal(result.err.count("will not be locked here"), 2, "messages")
    check_equal(mpis.checksum(result.out), _expected("memory_lock_all", work), "checksum")


# What a rank holds (tests/programs/process/holds.c), and what a checkpoint says; None: it comes
# back. There is no third: a snapshot that is committed and does not start.
KINDS = {
    "device": None, "unreadable": None, "unreadable_removed": None, "write_only_removed": None,
    "read_only_written": None, "small_limit": None, "small_memory": None, "in_root": None,
    "path_of_device": None,
    "of_other_process": "a file of another process", "notices": "fanotify",
    "of_descriptor": "a file about one of its descriptors or mappings",
    "namespace": "no longer found under the name", "linked": "no longer found under the name",
    "removed_directory": "no longer found under the name",
    "closed_directory": "no longer found under the name",
    "bpf_filter": "a filter of BPF", "ip_options": "option 4 of level 0",
    "address_alone": "bound to 127.0.0.1:0", "path_of_fifo": "a named pipe",
    "path_of_link": "close it before the checkpoint", "path_of_socket": "a socket",
}
QUICK_KINDS = ("device", "unreadable_removed", "of_other_process", "bpf_filter")
QUICK_BOTH_WAYS = ("small_limit", "small_memory")  # each MPI takes memory in a way of its own


def _hold(work, kind, refusal, first, second):
    """As a user to whom permissions mean something: root has a right to open anything."""
    under = []
    if os.getuid() == 0:
        under = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    job = kinds.start(work, first, "holds", kind, under)
    if refusal:
        kinds.check_refused(job, refusal)
    else:
        fermata.fermata(work, "checkpoint", "job", "--stop").expect_success("checkpoint")
        job.running.wait(30)
        job.restart(second, under=under)
    check("PASS" in job.finish(), "it runs to its end")


def generate():
    return kinds.generate("holding_", KINDS, QUICK_KINDS, _hold, QUICK_BOTH_WAYS)
