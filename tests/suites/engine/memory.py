# SPDX-License-Identifier: Apache-2.0
"""Every kind of memory (tests/programs/process/memory_kinds.c): what was written to it is there
when the job continues, and after a restart under the other MPI; what a mapping shows of a file, it
continues to show. A restart loses no memory without a word."""
import contextlib
import fcntl
import os
import pathlib
import re
import tempfile

from support import fermata, mpis, process
from support.cases import Skipped, check, check_equal, slow, timeout

STEPS = 24
POOL = pathlib.Path("/proc/sys/vm/nr_hugepages")
POOL_PAGES = 64  # more than the program's kinds need, twice


def _resize_pool(pages):
    """Makes the pool that many pages larger. Several tests may do so at a time."""
    with open(pathlib.Path(tempfile.gettempdir()) / "fermata-huge-pages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = int(POOL.read_text()) + pages
        POOL.write_text(str(max(wanted, 0)))
        return int(POOL.read_text()) >= wanted


@contextlib.contextmanager
def huge_pool():
    """Pages in the pool of huge pages, for as long."""
    if not os.access(POOL, os.W_OK):
        raise Skipped("only root can fill the huge page pool, /proc/sys/vm/nr_hugepages")
    try:
        if not _resize_pool(POOL_PAGES):
            raise Skipped("this machine has no memory left for the huge page pool")
        yield
    finally:
        _resize_pool(-POOL_PAGES)


def _command(mpi, work, *more):
    directory = work / "files"
    directory.mkdir(exist_ok=True)
    return [mpis.program(mpi, "memory_kinds"), "--steps", STEPS, "--step-ms", 60,
            "--dir", directory, *more]


def _check_right(job):
    out = job.finish()
    wrong = sorted(set(re.findall(r"^WRONG: (.*)$", out, re.M)))
    check_equal(wrong, [], "memory that is not what was written")
    return mpis.checksum(out)


def _resume_and_restart(first, second, work, *more):
    """Saved twice, the first time to continue. The second half runs under the other MPI."""
    job = fermata.Job(work)
    job.start(first, _command(first, work, *more))
    fermata.wait_for_step(job, 4)
    job.checkpoint()
    fermata.wait_for_step(job, 8)
    job.checkpoint_and_stop()
    job.restart(second)
    fermata.wait_for_step(job, 12)
    job.checkpoint()  # of what a restart has made
    return _check_right(job)


def _make(first, second):
    @timeout(120)
    def test(work):
        checksum = _resume_and_restart(first, second, work)
        native = mpis.native(first, _command(first, work, "--step-ms", 0), 2, work)
        check_equal(checksum, mpis.checksum(native.expect_success("native").out), "checksum")
    return test


def _make_huge(first, second):
    @timeout(120)
    def test(work):
        with huge_pool():
            _resume_and_restart(first, second, work, "--size", 1, "--only", "huge")
    return test


def _make_without_pool(first, second):
    @slow
    @timeout(120)
    def test(work):
        """The machine of the restart has no huge pages: ordinary ones hold the same."""
        job = fermata.Job(work)
        with huge_pool():
            job.start(first, _command(first, work, "--size", 1, "--only", "huge"))
            fermata.wait_for_step(job, 4)
            job.checkpoint_and_stop()
        job.restart(second)
        _check_right(job)
    return test


@timeout(90)
def test_private_mapping_of_a_changed_file(work):
    """A data file that somebody has written anew, or removed: the program continues with what it
    had mapped, and is told."""
    job = fermata.Job(work)
    job.start("mpich", _command("mpich", work, "--only", "private file, data"))
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    files = sorted((work / "files").iterdir())
    check_equal(len(files), 4, "data files")
    for number, path in enumerate(files):
        if number % 2:
            path.unlink()
        else:
            path.write_bytes(b"new" + bytes(path.stat().st_size))
    job.restart("openmpi")
    _check_right(job)
    check_equal(job.running.err.count("is not what it was"), 2, job.running.err)


# The program is started as WORDS program, in a shell; its stack grows to so many MiB.
LAYOUTS = {
    "unlimited_stack": ("ulimit -s unlimited; exec", 100),
    "hard_limit_of_the_stack": ("ulimit -s hard; exec", 100),
    "stack_of_64_mib": ("ulimit -s 65536; exec", 40),
    "addresses_not_randomized": ("exec setarch -R", 4),
    "addresses_from_below": ("exec setarch -L", 4),
    "addresses_from_below_unlimited_stack": ("ulimit -s unlimited; exec setarch -L", 40),
}


def _make_layout(words, mib, first, second):
    @timeout(90)
    def test(work):
        """The lower half's memory stays out of the upper window, so out of the image."""
        under = ["bash", "-c", f'{words} "$@"', "-"]
        command = [mpis.program(first, "stack_limits"), "--steps", 10, "--size", mib]
        native = process.run([*under, *mpis.mpirun(first, 2), *map(str, command)], 60,
                             mpis.environment(), work)
        job = fermata.Job(work)
        job.start(first, [*command, "--step-ms", 60], under=under)
        fermata.wait_for_step(job, 4)
        job.checkpoint_and_stop()
        limit = (mib + 4) << 20
        for image in fermata.images(fermata.newest_snapshot(job)):
            check(image.stat().st_size < limit, f"{image.name} has {image.stat().st_size} bytes")
        job.restart(second, under=under)
        check_equal(mpis.checksum(job.finish()),
                    mpis.checksum(native.expect_success("native").out), "checksum")
    return test


@timeout(90)
def test_restart_under_a_smaller_stack(work):
    """The limit that the program was given is its own again."""
    under = ["bash", "-c", 'ulimit -s unlimited; exec "$@"', "-"]
    command = [mpis.program("mpich", "stack_limits"), "--steps", 10, "--size", 40]
    native = process.run([*under, *mpis.mpirun("mpich", 2), *map(str, command)], 60,
                         mpis.environment(), work)
    job = fermata.Job(work)
    job.start("mpich", [*command, "--step-ms", 60], under=under)
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    job.restart("openmpi", under=["bash", "-c", 'ulimit -S -s 8192; exec "$@"', "-"])
    check_equal(mpis.checksum(job.finish()), mpis.checksum(native.expect_success("native").out),
                "checksum")


def _make_32_bit_calls(first, second):
    @timeout(90)
    def test(work):
        """Nobody sees such calls; shared memory was saved while the job continued."""
        job = fermata.Job(work)
        command = [mpis.program(first, "memory_int80"), "--steps", 10]
        native = mpis.native(first, command, 2, work).expect_success("native")
        if "NONE" in native.out:
            raise Skipped("this kernel has no 32-bit system calls")
        job.start(first, [*command, "--step-ms", 60])
        fermata.wait_for_step(job, 4)
        job.checkpoint_and_stop()
        job.restart(second)
        check_equal(mpis.checksum(job.finish()), mpis.checksum(native.out), "checksum")
    return test


def _sanitized(mpi, work, sanitizer):
    """A test program built with a sanitizer."""
    program = work / "compute"
    process.run([f"mpicc.{mpi}", "-std=gnu11", "-O1", "-g", f"-fsanitize={sanitizer}", "-o",
                 program, mpis.ROOT / "tests/programs/basic/compute.c", "-lm"], 60
                ).expect_success("mpicc")
    return [program, "--steps", 12, "--step-ms", 100, "--size", 50]


def _make_address_sanitizer(mpi):
    @timeout(120)
    def test(work):
        """It runs, is refused at the checkpoint by name, and runs on."""
        job = fermata.Job(work)
        job.start(mpi, _sanitized(mpi, work, "address"), env={"ASAN_OPTIONS": "detect_leaks=0"})
        fermata.wait_for_step(job, 2)
        result = fermata.fermata(work, "checkpoint", job.name)
        check(result.code != 0, "the checkpoint was not refused")
        check("built with AddressSanitizer cannot be saved" in result.err, result.err)
        check_equal(mpis.checksum(job.finish()), mpis.expected("compute", 2, 12, 50), "checksum")
    return test


@timeout(90)
def test_thread_sanitizer_is_refused_at_the_start(work):
    job = fermata.Job(work)
    job.start("mpich", _sanitized("mpich", work, "thread"))
    result = job.running.wait(60)
    check(result.code != 0, "the program was not refused")
    check("programs built with ThreadSanitizer cannot run here" in result.err, result.err)


def generate():
    tests = {f"test_address_sanitizer_{mpi}": _make_address_sanitizer(mpi) for mpi in mpis.MPIS}
    for name, (words, mib) in LAYOUTS.items():
        for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
            test = _make_layout(words, mib, first, second)
            quick = name == "unlimited_stack"
            tests[f"test_{name}_{first}_then_{second}"] = test if quick else slow(test)
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        way = f"{first}_then_{second}"
        tests[f"test_32_bit_calls_{way}"] = _make_32_bit_calls(first, second)
        tests[f"test_kinds_{way}"] = _make(first, second)
        tests[f"test_huge_page_pool_{way}"] = _make_huge(first, second)
        tests[f"test_huge_page_pool_is_empty_{way}"] = _make_without_pool(first, second)
    return tests
