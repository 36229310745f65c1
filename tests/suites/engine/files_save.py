# SPDX-License-Identifier: Apache-2.0
"""Contents of open files in the snapshot (`run --files save`): a restart finds them although the
directory they lay in has been cleaned."""
import shutil

from support import fermata, mpis, process
from support.cases import check, check_equal, slow, timeout

STEPS = 24


def _command(work, name="files_append", step_ms=40):
    (work / "scratch/of/ranks").mkdir(parents=True, exist_ok=True)
    return [mpis.program("openmpi", f"resources/{name}"), "--steps", STEPS, "--step-ms", step_ms,
            "--dir", work / "scratch/of/ranks"]


def _expected(work, name="files_append"):
    directory = work / "native"
    directory.mkdir()
    command = [mpis.program("openmpi", f"resources/{name}"), "--steps", STEPS, "--dir", directory]
    return mpis.checksum(mpis.native("openmpi", command, 2, work).expect_success(name).out)


def _saved(work, what, first="openmpi", options=(), stop=True, env=None, name="files_append"):
    """A job that is saved at one step and ended there, or at a later one."""
    job = fermata.Job(work)
    files = [] if what is None else ["--files", what]
    job.start(first, _command(work, name, 40 if stop else 150), options=[*files, *options], env=env)
    fermata.wait_for_step(job, 6)
    if stop:
        job.checkpoint_and_stop()
        return job
    job.checkpoint()
    fermata.wait_for_step(job, 12)
    job.running.process.terminate()
    job.running.wait(30)
    job.release()
    return job


def _make_cleaned(name, first, second):
    @timeout(120)
    def test(work):
        job = _saved(work, "save", first, name=name)
        shutil.rmtree(work / "scratch")
        job.restart(second)
        fermata.wait_for_step(job, 12)
        check("log.0: made again" in job.running.err or name != "files_append", job.running.err)
        job.checkpoint_and_stop()  # what has been restarted is saved likewise
        shutil.rmtree(work / "scratch")
        job.restart(first)
        check_equal(mpis.checksum(job.finish()), _expected(work, name), "checksum")
    return test if first == "openmpi" and name == "files_append" else slow(test)


def generate():
    return {f"test_cleaned_directory_{name}_{first}_then_{second}":
            _make_cleaned(name, first, second)
            for name in ("files_append", "files_offset", "files_shared_log", "memory_file_shared")
            for first, second in (mpis.MPIS, mpis.MPIS[::-1])}


@timeout(120)
def test_files_below_directories(work):
    job = _saved(work, f"save=/nowhere:{work / 'scratch/of'}")
    shutil.rmtree(work / "scratch/of")
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), _expected(work), "checksum")


@timeout(120)
def test_files_elsewhere_are_not_saved(work):
    job = _saved(work, f"save={work / 'scratch/of/rank'}")
    shutil.rmtree(work / "scratch")
    job.restart("mpich")
    result = job.running.wait(60)
    check(result.code != 0 and "cannot reopen" in result.err, result.err)


@timeout(120)
def test_the_environment_says_it(work):
    job = _saved(work, None, env={"FERMATA_FILES": "save"})
    shutil.rmtree(work / "scratch")
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), _expected(work), "checksum")
    result = process.run([fermata.FERMATA, "run", "--", *map(str, _command(work))], 60,
                         mpis.environment(FERMATA_FILES="some"), work)
    check(result.code != 0 and "FERMATA_FILES" in result.err, result.err)


@timeout(120)
def test_more_than_the_limit_is_refused(work):
    """Also where the path is longer than a message: what to do is read all the same."""
    job = fermata.Job(work)
    deep = work / ("a_long_name" * 20)
    job.start("openmpi", _command(deep), options=["--files", "save", "--files-limit", "10"])
    fermata.wait_for_step(job, 6)
    result = fermata.fermata(work, "checkpoint", "job")
    check(result.code != 0 and "the limit is 10 (--files-limit)" in result.err, result.err)
    check_equal(mpis.checksum(job.finish()), _expected(work), "checksum")


@timeout(120)
def test_lost_contents_are_written_back(work):
    job = _saved(work, "save", stop=False)
    log, other = work / "scratch/of/ranks/log.0", work / "scratch/of/ranks/log.1"
    log.write_bytes(b"short")
    with open(other, "r+b") as file:
        file.write(b"Rank")
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), _expected(work), "checksum")
    check_equal(job.running.err.count("has the contents of the checkpoint again"), 2, "messages")


@timeout(120)
def test_another_file_is_never_overwritten(work):
    job = _saved(work, "save", stop=False)
    log, other = work / "scratch/of/ranks/log.0", work / "scratch/of/ranks/other"
    other.write_bytes(b"somebody else's")
    other.rename(log)
    job.restart("mpich")
    result = job.running.wait(60)
    check(result.code != 0 and "log.0: is shorter" in result.err, result.err)
    check_equal(log.read_bytes(), b"somebody else's", "the other file")
    job.restart("mpich", options=["--files", "keep"])
    job.running.wait(60)
    check(log.read_bytes().startswith(b"somebody else's"), "the other file stays")
    log.unlink()
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), _expected(work), "checksum")
