# SPDX-License-Identifier: Apache-2.0
"""Checkpoint, stop, restart, under the same and under the other MPI; resume without stopping;
chains of restarts. A run that was interrupted must print the checksum of one that was not.
Name: program_front_first_then_second."""
import os
import pathlib
import signal
import time

from support import errors, fermata, mpis, process
from support.cases import Skipped, alone, check, check_equal, slow, timeout

STEPS = 10


def _command(front, name, work, steps=STEPS, step_ms=60):
    size = ["--size", 50] if name == "compute" else []
    return [mpis.program(front, name), *mpis.own_arguments(name, work), "--steps", steps,
            "--step-ms", step_ms, *size]


def _expected(name, ranks=2, steps=STEPS):
    return mpis.expected(name, ranks, steps, 50 if name == "compute" else None)


def _make(front, first, second, name, ranks=2, under=()):
    @timeout(120)
    def test(work):
        job = fermata.Job(work)
        job.start(first, _command(front, name, work), ranks, under=under)
        fermata.wait_for_step(job, 4)
        job.checkpoint_and_stop()
        job.restart(second, under=under)
        check_equal(mpis.checksum(job.finish()), _expected(name, ranks), "checksum")
    return test


def _make_low_numbers(limit):
    @timeout(90)
    def test(work):
        """After a restart, too, the low numbers are free for what the program opens next."""
        under = ["prlimit", f"--nofile={limit}:{limit}"]
        job = fermata.Job(work)
        job.start("openmpi", _command("openmpi", "selfcheck", work), under=under)
        fermata.wait_for_step(job, 4)
        job.checkpoint_and_stop()
        job.restart("mpich", under=under)
        fermata.wait_for_step(job, 6)
        for pid in errors.ranks_of(job):
            numbers = (int(fd.name) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir())
            low = [number for number in numbers if 2 < number < limit // 2]
            check_equal(low, [], f"descriptors of process {pid}")
        check_equal(mpis.checksum(job.finish()), _expected("selfcheck"), "checksum")
    return test


def _make_resume(front, lower, name):
    @timeout(120)
    def test(work):
        job = fermata.Job(work)
        # Long enough that the last checkpoint meets a running job even where collectives outrun
        # the nominal step time.
        job.start(lower, _command(front, name, work, steps=30))
        for step in (2, 5, 8):
            fermata.wait_for_step(job, step)
            job.checkpoint()
        check_equal(mpis.checksum(job.finish()), _expected(name, steps=30), "checksum")
        check_equal(len(job.snapshots()), 2, "snapshots kept")
    return test


@slow
@timeout(300)
def test_chain_of_ten(work):
    """Ten stops, each restart under the other MPI."""
    job = fermata.Job(work)
    job.start("openmpi", _command("openmpi", "selfcheck", work, steps=44, step_ms=20))
    for hop in range(10):
        fermata.wait_for_step(job, 4 * hop + 3)
        job.checkpoint_and_stop()
        job.restart(mpis.MPIS[(hop + 1) % 2])
    check_equal(mpis.checksum(job.finish()), _expected("selfcheck", steps=44), "checksum")


@alone
@timeout(90)
def test_compute_bound_rank_stops_at_once(work):
    """A checkpoint does not wait for the end of a three-second loop."""
    job = fermata.Job(work)
    job.start("openmpi", _command("openmpi", "compute", work, steps=3, step_ms=3000))
    fermata.wait_for_step(job, 1)
    seconds = job.checkpoint_and_stop()
    check(seconds < 2.0, f"the checkpoint took {seconds:.1f} s")
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), _expected("compute", steps=3), "checksum")


@timeout(90)
def test_collective_dependency_with_three_ranks(work):
    """A parked rank's message is needed by one that still owes a collective."""
    _make("mpich", "mpich", "openmpi", "collective", ranks=3)(work)


@alone
@timeout(150)
def test_who_owes_a_message_runs_on(work):
    """In every step of this program some rank owes a collective call and waits for a message of one
    that has parked. No attempt may get stuck in that and be made again."""
    job = fermata.Job(work)
    job.start("openmpi", _command("mpich", "collective", work, steps=60, step_ms=20), ranks=3)
    for step in range(3, 53, 5):
        fermata.wait_for_step(job, step)
        taken = fermata.as_json(fermata.fermata(work, "--json", "checkpoint", "job"))
        check_equal(taken["figures"]["attempts"], 1, "attempts")
    check_equal(mpis.checksum(job.finish()), _expected("collective", 3, 60), "checksum")


@timeout(150)
def test_two_phases_instead_of_clocks(work):
    """The algorithm to compare with: it must be right as well, or its times mean nothing."""
    job = fermata.Job(work)
    job.start("mpich", _command("mpich", "collective", work), ranks=3,
              options=["--collectives", "2pc"])
    for hop in range(3):
        fermata.wait_for_step(job, 2 * hop + 2)
        job.checkpoint_and_stop()
        job.restart(mpis.MPIS[hop % 2])
    check_equal(mpis.checksum(job.finish()), _expected("collective", 3), "checksum")


def _segments(job):
    """The files in /dev/shm that a job's ranks have mapped."""
    lines = {line for pid in errors.ranks_of(job)
             for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()}
    paths = {pathlib.Path(line.split()[-1]) for line in lines if " /dev/shm/" in line}
    return {path for path in paths if path.exists()}


@timeout(90)
def test_no_segment_stays(work):
    """What the MPI library of a stopped job has in /dev/shm goes with it, another job's not. mpirun
    would tidy up after its ranks, where there is one (not under srun): it is kept from doing so."""
    job, other = fermata.Job(work), fermata.Job(work, "other")
    for one in (job, other):
        one.start("openmpi", _command("openmpi", "selfcheck", work, steps=20))
        fermata.wait_for_step(one, 2)
    segments, others = _segments(job), _segments(other)
    check(segments and others and not segments & others, f"{segments}, {others}")
    mpirun = next(pid for pid in process.descendants(job.running.process.pid)
                  if process.command_line(pid)[0].endswith(b"mpirun.openmpi"))
    os.kill(mpirun, signal.SIGSTOP)
    job.checkpoint(stop=True)
    until = time.monotonic() + 10
    while any(path.exists() for path in segments) and time.monotonic() < until:
        time.sleep(0.05)
    check_equal({path for path in segments if path.exists()}, set(), "files that stay")
    check_equal({path for path in others if path.exists()}, others, "files of another job")
    os.kill(mpirun, signal.SIGCONT)
    job.running.wait(30)
    job.restart("mpich")
    for one in (job, other):
        check_equal(mpis.checksum(one.finish()), _expected("selfcheck", steps=20), "checksum")


def _starve(rank):
    """The rank gets the smallest share of the first processor, and there is somebody else on it."""
    for task in pathlib.Path(f"/proc/{rank}/task").iterdir():
        os.sched_setaffinity(int(task.name), {0})
        os.setpriority(os.PRIO_PROCESS, int(task.name), 19)


@timeout(150)
def test_a_starved_rank_is_cut_with_the_others(work):
    """A rank that has been saved must not continue before all others are: what it sent then, a rank
    still waiting for its turn took in, and it was missing in the snapshot's other half."""
    job = fermata.Job(work)
    job.start("mpich", _command("mpich", "inflight", work, steps=400, step_ms=2))
    spinner = process.Running(["taskset", "-c", "0", "sh", "-c", "while :; do :; done"], work,
                              name="spinner")
    try:
        for round in range(6):
            fermata.wait_for_step(job, 20 + 25 * round)
            _starve(errors.ranks_of(job)[round % 2])
            job.checkpoint(timeout_s=90)
            process.kill_tree(job.running.process.pid)
            job.running.wait(30)
            job.restart(mpis.MPIS[round % 2])
    finally:
        process.kill_tree(spinner.process.pid)
    check_equal(mpis.checksum(job.finish()), mpis.expected("inflight", 2, 400), "checksum")


def _bound_threads(job, processor):
    """How many threads of each rank are bound to just this one; None if one ends just now."""
    tasks = [list(pathlib.Path(f"/proc/{pid}/task").iterdir()) for pid in errors.ranks_of(job)]
    try:
        return [sum(os.sched_getaffinity(int(task.name)) == {processor} for task in rank)
                for rank in tasks]
    except ProcessLookupError:
        return None


@timeout(120)
def test_a_binding_that_cannot_be_met_is_kept(work):
    """Saved where its processor was missing, a thread is bound to that one when it is there again,
    and not to those that it had meanwhile. So are threads that it made there."""
    tool = mpis.harness(work, "without_call", "-DCALL=SYS_sched_setaffinity", "-DERROR=EINVAL")
    last = max(os.sched_getaffinity(0))
    if last == 0:
        raise Skipped("there is one processor only")
    job = fermata.Job(work)
    job.start("mpich", _command("mpich", "bound", work, steps=30, step_ms=200))
    for step, bound in ((3, [2, 2]), (6, [0, 0]), (9, [2, 2])):
        fermata.wait_for_step(job, step)
        process.wait_until(lambda: _bound_threads(job, last) == bound,
                           f"{bound} threads that are bound to processor {last}")
        if step == 9:
            break
        job.checkpoint_and_stop()
        job.restart("mpich", under=[tool] if step == 3 else ())
    check_equal(mpis.checksum(job.finish()), _expected("bound", steps=30), "checksum")


def _ignores_hangup(job):
    """Whether the ranks do: each as in /proc."""
    texts = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in errors.ranks_of(job)]
    return [int(text.split("SigIgn:")[1].split()[0], 16) >> (signal.SIGHUP - 1) & 1
            for text in texts]


@timeout(120)
def test_a_restart_under_nohup_is_not_for_ever(work):
    """What a restart's surroundings ignore, the program ignores until the next restart."""
    job = fermata.Job(work)
    plainly = ["env", "--default-signal=HUP"]
    job.start("mpich", _command("mpich", "selfcheck", work, steps=20), under=plainly)
    for step, ignored in ((3, [0, 0]), (6, [1, 1]), (9, [0, 0])):
        fermata.wait_for_step(job, step)
        check_equal(_ignores_hangup(job), ignored, f"ranks that ignore SIGHUP at step {step}")
        if step == 9:
            break
        job.checkpoint_and_stop()
        job.restart("mpich", under=["nohup"] if step == 3 else plainly)
    check_equal(mpis.checksum(job.finish()), _expected("selfcheck", steps=20), "checksum")


@timeout(120)
def test_parts_of_a_file_are_as_they_were(work):
    """The job continued and wrote more. One rank's part was restored, the others' were not; and
    what was zero in the snapshot kept what had been written later."""
    job = fermata.Job(work)
    program = "resources/memory_file_ranks"
    job.start("openmpi", [*_command("openmpi", program, work, steps=24, step_ms=150),
                          "--dir", work])
    fermata.wait_for_step(job, 4)
    job.checkpoint()
    fermata.wait_for_step(job, 15)
    process.kill_tree(job.running.process.pid)
    job.running.wait(30)
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), _expected(program, steps=24), "checksum")


@timeout(120)
def test_memory_that_the_mpi_library_keeps_from_children(work):
    """The writer, a child, did not have it, and the image lacked it."""
    components = work / "components"
    components.mkdir()
    library = mpis.harness(work, "advises", "-shared", "-fPIC", "-Wl,-z,nodelete")
    library.rename(components / "mca_btl_advises.so")
    job = fermata.Job(work)
    program = "resources/memory_fork_advice"
    job.start("openmpi", [*_command("openmpi", program, work, steps=20), "--size", 1,
                          "--dir", work],
              env={"OMPI_MCA_mca_base_component_path": f"SYSTEM_DEFAULT:{components}"})
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), _expected(program, steps=20), "checksum")


def _mapped_or_open(job, name):
    """What the ranks have of files with this in their names."""
    found = []
    for pid in errors.ranks_of(job):
        place = pathlib.Path(f"/proc/{pid}")
        links = [os.readlink(fd) for fd in (place / "fd").iterdir()]
        lines = (place / "maps").read_text().splitlines()
        found += [text for text in links + lines if name in text]
    return found


@timeout(90)
def test_nothing_is_left_of_the_image(work):
    """It stayed mapped: when the snapshot had been removed its room on the disk was not free."""
    job = fermata.Job(work)
    program = "resources/signals_sleeps"
    job.start("openmpi", _command("openmpi", program, work, steps=20))
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    job.restart("mpich")
    fermata.wait_for_step(job, 6)
    check_equal(_mapped_or_open(job, ".img"), [], "mapped or open")
    check_equal(mpis.checksum(job.finish()), _expected(program, steps=20), "checksum")


@timeout(90)
def test_a_file_in_memory_that_is_only_read_stays(work):
    """It was replaced by a copy, as if a rank had written to it."""
    job = fermata.Job(work)
    program = "resources/memory_posix_read_only"
    job.start("openmpi", _command("openmpi", program, work, steps=20))
    fermata.wait_for_step(job, 4)
    (constant,) = [path for path in _segments(job) if "fermata-test-constant" in path.name]
    before = constant.stat().st_ino
    job.checkpoint_and_stop()
    job.restart("mpich")
    fermata.wait_for_step(job, 6)
    check_equal(constant.stat().st_ino, before, "inode")
    check_equal(mpis.checksum(job.finish()), _expected(program, steps=20), "checksum")


@timeout(90)
def test_few_descriptors(work):
    """`ulimit -n 256`: there is no room above 512 for what the MPI library opens."""
    _make("openmpi", "openmpi", "mpich", "selfcheck", under=["prlimit", "--nofile=256:"])(work)


@timeout(90)
def test_limit_of_files_that_the_program_has_raised(work):
    """`ulimit -Sn 1024`: its descriptor 1500 comes back all the same."""
    _make("openmpi", "openmpi", "mpich", "resources/processes_limits_raised",
          under=["prlimit", "--nofile=1024:"])(work)


@timeout(90)
def test_last_numbers_below_the_limit(work):
    """`ulimit -Hn 1024`, and the program holds 1023: above it there is no room for anything."""
    _make("openmpi", "openmpi", "mpich", "resources/files_last_numbers",
          under=["prlimit", "--nofile=1024:1024"])(work)


@timeout(60)
def test_checkpoint_of_an_ended_job_is_refused(work):
    job = fermata.Job(work)
    job.start("mpich", _command("mpich", "argv_env", work, steps=1, step_ms=0))
    job.finish()
    result = fermata.fermata(work, "checkpoint", "job")
    check(result.code != 0 and "job" in result.err, f"a clear refusal: {result.err!r}")


# Where a program built for `front` is saved and where it continues; the last element: slow.
ROUTES = (("openmpi", "openmpi", "mpich", False), ("mpich", "mpich", "openmpi", False),
          ("openmpi", "mpich", "mpich", True), ("mpich", "openmpi", "openmpi", True),
          ("openmpi", "openmpi", "openmpi", True), ("mpich", "mpich", "mpich", True))


def generate():
    tests = {}
    for name in mpis.PROGRAMS:
        for front, first, second, is_slow in ROUTES:
            test = _make(front, first, second, name)
            always = name == "selfcheck" and first == second == front
            tests[f"test_{name}_{front}_{first}_then_{second}"] = (
                slow(test) if is_slow and not always else test)
        tests[f"test_{name}_resumes"] = _make_resume("openmpi", "openmpi", name)
    for front, first, second, _ in ROUTES[:4]:
        tests[f"test_cxx_bindings_{front}_{first}_then_{second}"] = _make(
            front, first, second, "cxx_bindings")
    for second in mpis.MPIS:
        tests[f"test_two_names_of_mpich_mpich_then_{second}"] = _make(
            "mpich", "mpich", second, "two_names")
    for limit in (1024, 200):
        tests[f"test_low_numbers_under_{limit}"] = _make_low_numbers(limit)
    return tests
