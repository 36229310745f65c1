# SPDX-License-Identifier: Apache-2.0
"""Defects that took an unlucky moment to show: a disk that hangs, a lost word, a thread that gets
no processor, a checkpoint right after a restart. A fault at a named point (spec/faults.toml) makes
the moment."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import tempfile
import time

from support import errors, fermata, mpis, process
from support.cases import Skipped, alone, check, check_equal, timeout
from support.errors import FAILED
from support.faults import WITH_THREADS, FaultyJob
from suites.errors.errors_start import fake_mpi

WRITES_LATE = "writer-described@1=sleep:500"


@timeout(240)
def test_a_coordinator_that_hangs_keeps_nobody(work):
    """Rank 0 has been let go, rank 1 stands; before the coordinator is back the rank continues."""
    job = FaultyJob(work).begin("openmpi", env={
        "FERMATA_FAULT": "coordinator-sends-resume#2=sleep:60000"})
    result = job.try_checkpoint("--timeout", "120s", timeout_s=150)
    check(result.code == FAILED and "rank 1: it has not heard of the coordinator" in result.err,
          f"exit code {result.code}\n{result.err}")
    job.checkpoint()
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")


def begin_checkpoint(job):
    return process.Running([fermata.FERMATA, "checkpoint", job.name], job.work, name="saving",
                           cwd=job.work,
                           env=mpis.environment(FERMATA_DIR=str(job.work / "fermata")))


@timeout(120)
def test_a_coordinator_answers_while_it_flushes(work):
    """Meanwhile the program comes to its end, and the snapshot is committed all the same."""
    job = FaultyJob(work).begin("mpich", env={"FERMATA_FAULT": "commit-flush=sleep:9000"})
    saving = begin_checkpoint(job)
    job.running.wait_for("fault: commit-flush=sleep")
    asked = time.monotonic()
    state = fermata.fermata(work, "jobs", "--json").expect_success("jobs").out
    check_equal(json.loads(state)[0]["state"], "running", "state")
    check(time.monotonic() - asked < 4, "an answer in time")
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")
    check("is committed" in saving.wait(60).expect_success("checkpoint").out, saving.out)
    check_equal(len(job.snapshots()), 1, "snapshots")


@timeout(150)
def test_a_run_that_is_broken_off_leaves_word(work):
    """Its snapshot was still being stored. Its record said that it might yet run."""
    job = FaultyJob(work).begin("mpich", env={"FERMATA_FAULT": "commit-flush=sleep:90000"})
    saving = begin_checkpoint(job)
    job.running.wait_for("fault: commit-flush=sleep")
    job.release()
    job.running.wait_for("a snapshot is still being stored")
    job.running.process.send_signal(signal.SIGINT)
    check_equal(mpis.checksum(job.running.wait(30).out), job.expected(), "checksum of the run")
    check_equal(saving.wait(30).code, FAILED, "exit code of the checkpoint")
    check_equal(json.loads((work / "fermata/job/job.json").read_text())["socket"], "", "socket")


@timeout(150)
def test_ranks_wait_for_a_directory_that_takes_long_to_make(work):
    """It was made by the thread that speaks with them, and they gave the coordinator up."""
    job = FaultyJob(work).begin("openmpi", env={"FERMATA_FAULT": "coordinator-prepare=sleep:33000"})
    job.checkpoint()
    check("fault: coordinator-prepare=sleep" in job.running.err, job.running.err)
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")
    check_equal(len(job.snapshots()), 1, "snapshots")


@timeout(150)
def test_a_snapshot_is_stored_though_nobody_reads_what_the_run_says(work):
    """As in `fermata run ... 2>&1 | tee log` with tee gone: the next message ended the process that
    stored it."""
    pipe = work / "stderr"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    job = FaultyJob(work).begin("mpich", env={"FERMATA_FAULT": "commit-flush=sleep:9000"},
                                under=["sh", "-c", 'exec "$@" 2> "$0"', pipe])
    saving, said = begin_checkpoint(job), bytearray()

    def is_flushing():
        with contextlib.suppress(BlockingIOError):
            said.extend(os.read(reader, 4096))
        return b"fault: commit-flush=sleep" in said
    process.wait_until(is_flushing, "the flush")
    os.close(reader)
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")
    saving.wait(60).expect_success("checkpoint")
    check_equal(len(job.snapshots()), 1, "snapshots")


@timeout(120)
def test_a_snapshot_that_a_restart_checks_is_not_pruned(work):
    """The record did not name it yet; it was removed, and the restart failed."""
    job = FaultyJob(work).begin("mpich").with_snapshot()
    job.checkpoint_and_stop()
    job.hold.touch()
    job._launch("restart", job.snapshots()[0], "--mpi", "openmpi",
                env={"FERMATA_FAULT": "restart-checked=sleep:5000"})
    job.running.wait_for("fault: restart-checked=sleep")
    pruned = fermata.fermata(work, "prune", job.name, "--keep", 1)
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum after the restart")
    check(pruned.code == errors.REFUSED and "just being started" in pruned.err,
          f"exit code {pruned.code}\n{pruned.err}")
    check_equal(len(job.snapshots()), 2, "snapshots")


def _stops_while_it_reads(pid, snapshot):
    """Stops a process once it has a file of the snapshot open; False: it has ended before."""
    names = pathlib.Path(f"/proc/{pid}/fd")
    while True:
        try:
            if any(str(snapshot) in os.readlink(name) for name in names.iterdir()):
                os.kill(pid, signal.SIGSTOP)
                return True
        except FileNotFoundError:  # one that has been closed meanwhile, or the process
            pass
        state = pathlib.Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        if state in b"ZX":
            return False


@timeout(120)
def test_a_snapshot_that_is_removed_while_it_is_read_is_not_called_damaged(work):
    """A job with --every and a small --keep removes them by itself."""
    job = FaultyJob(work).begin("mpich").with_snapshot()
    job.checkpoint_and_stop()
    for command in ("verify", "inspect"):
        for attempt in range(500):
            snapshot = work / f"{command}-{attempt}"
            shutil.copytree(job.snapshots()[-1], snapshot)
            reading = process.Running([fermata.FERMATA, command, snapshot], work,
                                      name=f"{command}s{attempt}", cwd=work,
                                      env=mpis.environment())
            caught = _stops_while_it_reads(reading.process.pid, snapshot)
            snapshot.rename(work / f"{command}.partial")
            if caught:
                os.kill(reading.process.pid, signal.SIGCONT)
            result = reading.wait(10)
            shutil.rmtree(work / f"{command}.partial")
            if caught and result.code != 0:  # else it had read the last it wanted
                break
        check(caught, f"{command} was never seen reading")
        check(result.code == FAILED and "has been removed" in result.err,
              f"{command}: exit code {result.code}\n{result.err}")


@timeout(120)
def test_a_job_that_outlives_its_login_stays_in_reach(work):
    """Logging out removes the directory of its socket, or the one above: no checkpoint any more."""
    def socket():
        return pathlib.Path(json.loads((work / "fermata/job/job.json").read_text())["socket"])
    with tempfile.TemporaryDirectory() as place:  # a path in `work` may be too long
        runtime = pathlib.Path(place) / "runtime"
        runtime.mkdir()
        job = FaultyJob(work).begin("openmpi", env={"XDG_RUNTIME_DIR": str(runtime)})
        check_equal(socket().parent, runtime / "fermata", "directory of the socket")
        for gone in (runtime / "fermata", runtime):
            shutil.rmtree(gone)
            process.wait_until(lambda: socket().exists(), "a socket in its place")
            job.checkpoint()
        last = socket()
        check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")
        check(not last.exists(), "it goes with the job")


@timeout(150)
def test_a_program_that_asked_waits_for_a_slow_disk(work):
    """The ranks gave the coordinator up after 30 s, and the program heard that it had failed."""
    job = fermata.Job(work)
    program = mpis.program("mpich", "user_api")
    job.start("mpich", [program, "--mode", "now", "--steps", 8, "--step-ms", 10],
              env={"FERMATA_FAULT": "commit-flush=sleep:33000"})
    fermata.wait_for_step(job, 3, timeout_s=90)
    out = job.finish()
    check("fault: commit-flush=sleep" in job.running.err, job.running.err)
    check_equal([f"rank {i}: committed" in out for i in range(2)], [True] * 2, f"answers\n{out}")


def test_an_image_is_collected_once_though_its_rank_says_twice_that_it_is_written(work):
    """It was looked for again where it no longer lay, and the checkpoint failed."""
    job = FaultyJob(work).begin("openmpi")
    job.checkpoint_and_stop()
    job.resume("mpich", "agent-sends-saved@1=twice", "--local-dir", work / "images")
    job.wait_until_restarted()
    job.checkpoint()
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")
    check("fault: agent-sends-saved=twice" in job.running.err, job.running.err)


def test_a_rank_whose_word_that_it_is_back_got_lost_says_it_again(work):
    job = FaultyJob(work).begin("mpich")
    job.checkpoint_and_stop()
    job.resume("openmpi", "agent-sends-rebuilt@1=drop")
    job.wait_until_restarted()
    job.checkpoint()
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")
    check("fault: agent-sends-rebuilt=drop" in job.running.err, job.running.err)


def saved_before_it_resumes(work, program, first, second):
    """A job is restarted, and saved once more when it can just be asked to. Its threads then wait
    for the rank's timers and signals, which the MPI thread is to bring back."""
    job = FaultyJob(work).begin(first, program)
    job.checkpoint_and_stop()
    job.resume(second, "agent-rebuilt@1=sleep:4000")
    job.wait_until_restarted()
    job.checkpoint_and_stop()
    check("fault: agent-rebuilt=sleep" in job.running.err, job.running.err)
    job.hold.touch()
    job.restart(first)
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")


def test_threads_of_a_restart_that_is_saved_at_once_stop(work):
    """They waited for the process's signals, and the checkpoint failed: a thread did not stop."""
    saved_before_it_resumes(work, "resources/signals_sleeps", "openmpi", "mpich")


def test_timers_of_a_restart_that_is_saved_at_once_resume(work):
    """They were saved as they were before they had been set again."""
    saved_before_it_resumes(work, "resources/signals_itimer", "mpich", "openmpi")


def test_signals_of_a_restart_that_is_saved_at_once_stay_pending(work):
    """They had not been queued again, and were forgotten."""
    saved_before_it_resumes(work, "resources/signals_pending", "openmpi", "mpich")


def test_a_thread_that_is_about_to_resume_does_not_stand(work):
    """It stood for the checkpoint before. Counted as standing for the next one it ran on while that
    image was cut, which then lacked it, or had its stack as it was later."""
    job = FaultyJob(work).begin("mpich", WITH_THREADS, env={
        "FERMATA_FAULT": "save-leaving@0=sleep:4000,save-stopped@0#2=sleep:6000"})
    job.checkpoint()
    job.checkpoint_and_stop()
    for fault in ("save-leaving", "save-stopped"):
        check(f"fault: {fault}=sleep" in job.running.err, job.running.err)
    job.hold.touch()
    job.restart("openmpi")
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")


def test_an_alarm_ends_a_pause_though_a_checkpoint_has_begun_it_again(work):
    """The rank was asked twice. On its way out the second signal found the pause that was to end
    with EINTR, and began it again."""
    job = FaultyJob(work).begin("openmpi", "alarms", ["--mode", "pause"], env={
        "FERMATA_FAULT": "agent-targets=sleep:6000"})
    for i in range(2):
        job.running.wait_for(f"rank {i} pauses\n")
    time.sleep(0.3)  # until it does
    job.checkpoint()
    check("fault: agent-targets=sleep" in job.running.err, job.running.err)
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")


@timeout(120)
def test_an_alarm_that_is_cancelled_right_after_a_restart_stays_so(work):
    """The thread that cancels it ran before it had been set again."""
    job = FaultyJob(work).begin("mpich", "alarms", ["--mode", "cancel"])
    job.checkpoint_and_stop()
    job.hold.with_name(f"{job.hold.name}.cancel").touch()
    job.resume("openmpi", "restore-leaving=sleep:1500")
    job.wait_until_restarted()
    time.sleep(23)  # longer than was left of it
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")
    check("fault: restore-leaving=sleep" in job.running.err, job.running.err)


def test_threads_are_saved_as_they_were_when_they_stood(work):
    """Their names and the like were read when they might have continued."""
    job = FaultyJob(work).begin("openmpi", "renames")
    job.checkpoint_and_stop()
    job.resume("mpich", "writer-described=sleep:1000")
    job.wait_until_restarted()
    job.checkpoint_and_stop()
    check("fault: writer-described=sleep" in job.running.err, job.running.err)
    job.hold.touch()
    job.restart("openmpi")
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")


def test_a_program_that_asked_hears_of_its_restart_though_it_is_saved_again_at_once(work):
    """It asked once more, as if it had never been answered."""
    job = FaultyJob(work).begin("openmpi", "user_api", ["--mode", "now"])
    fermata.wait_for_step(job, 3)
    job.finish()
    job.hold.touch()
    job.resume("mpich", "agent-rebuilt=sleep:4000")
    job.wait_until_restarted()
    job.checkpoint_and_stop()
    job.hold.touch()
    job.restart("openmpi")
    out = job.finish()
    check_equal([f"rank {i}: restarted" in out for i in range(2)], [True] * 2, f"answers\n{out}")
    check_equal(len(job.snapshots()), 2, "snapshots")


@contextlib.contextmanager
def kept_from_ending(pid):
    """A process that is killed meanwhile does not end, as if its disk hung."""
    seize, detach, trace_exit, all_children = 0x4206, 17, 0x40, 0x40000000

    def trace(request, data):
        libc = ctypes.CDLL(None, use_errno=True)
        result = libc.ptrace(request, pid, ctypes.c_void_p(0), ctypes.c_void_p(data))
        check(result == 0, f"ptrace {request}: errno {ctypes.get_errno()}")

    trace(seize, trace_exit)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, all_children)
        trace(detach, 0)


@timeout(120)
def test_a_killed_writer_that_ends_late_is_no_child_of_the_program(work):
    """Every later checkpoint was refused because of it."""
    job = FaultyJob(work).begin("openmpi", env={
        "FERMATA_FAULT": "writer-flush@1=sleep:20000,agent-save@0=sleep:6000"})
    saving = begin_checkpoint(job)
    job.running.wait_for("fault: writer-flush=sleep")
    rank = errors.ranks_of(job)[1]
    (writer,) = [pid for pid in process.descendants(rank)
                 if os.readlink(f"/proc/{pid}/exe").endswith("/launcher")]
    with kept_from_ending(writer):
        (image,) = (work / "fermata" / job.name).rglob("rank-1.img")
        image.with_name("rank-0.img").mkdir()
        failed = saving.wait(30)
        check_equal(failed.code, FAILED, "exit code")
        check("cannot create" in failed.err, failed.err)
        job.checkpoint()
    job.checkpoint()
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")


@timeout(120)
def test_a_writer_does_not_outlive_its_rank(work):
    """It wrote on, with the rank's memory, into a file that nobody wanted any more."""
    job = FaultyJob(work).begin("mpich", env={"FERMATA_FAULT": "writer-flush=sleep:300000"})
    saving = begin_checkpoint(job)
    job.running.wait_for("fault: writer-flush=sleep")
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")
    check_equal(saving.wait(30).code, FAILED, "exit code of the checkpoint")
    job.ends()


@timeout(90)
def test_a_snapshot_that_was_copied_resumes_counting(work):
    """The image remembers the checkpoint it was cut in. One of that number in another directory was
    taken for the same, and had to be tried again; now the numbers continue above it."""
    job = FaultyJob(work).begin("openmpi")
    job.checkpoint_and_stop()
    copy = work / "copy"
    shutil.copytree(job.snapshots()[-1], copy)
    shutil.rmtree(work / "fermata")
    job.runs = 0
    job.hold.touch()
    job._launch("restart", copy, "--mpi", "mpich")
    process.wait_until((work / "fermata/job/coordinator.log").exists, "the coordinator's log")
    job.wait_until_restarted()
    taken = fermata.as_json(fermata.fermata(work, "--json", "checkpoint", job.name))
    check_equal(taken["figures"]["attempts"], 1, "attempts")
    check_equal([path.name for path in job.snapshots()], ["2"], "snapshots")
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")


def restarted_from_what_rank_1_writes_late(job, lower):
    """Its writer has said that the job may continue, and then sleeps."""
    job.checkpoint()
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum of the run")
    check("fault: writer-described=sleep" in job.running.err, job.running.err)
    job.hold.touch()
    job.restart(lower)
    check_equal(mpis.checksum(job.finish()), job.expected(), "checksum after the restart")


@timeout(120)
def test_a_segment_that_another_rank_alone_uses_is_not_saved_late(work):
    """After a restart every rank of the host knew it, and saved it while its owner continued."""
    job = FaultyJob(work).begin("openmpi", "resources/memory_sysv_one_rank")
    job.checkpoint_and_stop()
    job.resume("mpich", WRITES_LATE)
    fermata.wait_for_step(job, 3)
    restarted_from_what_rank_1_writes_late(job, "openmpi")


@timeout(120)
def test_a_segment_that_was_only_made_here_is_not_saved_late(work):
    """Only who attached a segment saved it before the job continued."""
    job = FaultyJob(work).begin("mpich", "resources/memory_sysv_one_rank", ["--size", 1],
                                env={"FERMATA_FAULT": WRITES_LATE})
    restarted_from_what_rank_1_writes_late(job, "openmpi")


@timeout(120)
def test_memory_that_is_only_read_here_is_restored_by_who_writes_it(work):
    """Who cannot write it reads it late, and who read it last was the one to restore it."""
    job = FaultyJob(work).begin("openmpi", "resources/memory_posix_read_only",
                                env={"FERMATA_FAULT": WRITES_LATE})
    restarted_from_what_rank_1_writes_late(job, "mpich")


@timeout(180)
def test_a_message_taken_in_before_a_thread_posts_its_receive_reaches_it(work):
    """The thread had looked at the messages that were kept, and lost its processor; another one,
    which waits for the same sender while a checkpoint is pending, then kept the very message."""
    late = work / "late"
    late.touch()
    library = work / "libreceives_late.so"
    process.run(["mpicc.mpich", "-shared", "-fPIC", f'-DDIRECTORY="{work}"', "-o", library,
                 mpis.ROOT / "tests/harness/receives_late.c"]).expect_success("mpicc")
    job = fermata.Job(work)
    job.fermata = fermata.installation(work) / "bin/fermata"
    mpi = fake_mpi(work, "-Wl,--no-as-needed", library)
    process.run([job.fermata, "mpi", "add", mpi, "--name", "own"], 120, mpis.environment(), work
                ).expect_success("mpi add")
    job.start("own", [mpis.program("mpich", "mpi/receives_in_threads"), "--dir", work,
                      "--steps", 3])
    process.wait_until((work / "stalled").exists, "a thread that is about to post its receive")
    saving = begin_checkpoint(job)
    log = work / "fermata" / job.name / "coordinator.log"
    process.wait_until(lambda: "checkpoint 1 begins" in log.read_text(), "a checkpoint")
    time.sleep(2)  # the other thread takes it in, if it can
    (work / "goes_on").touch()
    late.unlink()
    saving.wait(90).expect_success("checkpoint")
    fermata.wait_for_step(job, 3)
    check_equal(mpis.checksum(job.finish()), mpis.expected("mpi/receives_in_threads", 2, 3),
                "checksum")


def free_huge_pages():
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(re.search(r"HugePages_Free: +(\d+)", text)[1])


@contextlib.contextmanager
def huge_pages(count):
    """A pool of so many and no more. It is the whole machine's."""
    pool = pathlib.Path("/proc/sys/vm/nr_hugepages")
    if int(pool.read_text()) or not os.access(pool, os.W_OK):
        raise Skipped("the pool of huge pages is in use, or nobody's to change")
    try:
        pool.write_text(str(count))
        if int(pool.read_text()) != count:
            raise Skipped("memory for a pool of huge pages is short")
        yield
    finally:
        pool.write_text("0")


@alone
@timeout(120)
def test_huge_pages_of_a_restart_are_saved_before_the_job_resumes(work):
    """A rank that continues and writes takes them away from its writer, where the pool has no
    others: the next image lacked them."""
    with huge_pages(4):
        # Not under MPICH, which takes pages of the pool for itself.
        job = FaultyJob(work).begin("openmpi", "resources/memory_huge_pool")
        job.checkpoint_and_stop()
        job.resume("openmpi", WRITES_LATE)
        fermata.wait_for_step(job, 3)
        maps = [pathlib.Path(f"/proc/{rank}/maps").read_text() for rank in errors.ranks_of(job)]
        if not all("/anon_hugepage" in text for text in maps):
            check(free_huge_pages() < 4, "the ranks have their pages in the pool")
            raise Skipped("another program has taken pages of the pool")
        restarted_from_what_rank_1_writes_late(job, "openmpi")
