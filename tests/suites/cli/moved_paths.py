# SPDX-License-Identifier: Apache-2.0
"""Directories that have moved between a checkpoint and the restart (`restart --map OLD=NEW`): the
program, its files, what it has mapped and its working directory."""
import shutil

from support import fermata, mpis, process
from support.cases import check, check_equal, slow, timeout
from support.distribution import MELT, compare_thermo, lammps

STEPS = 24
MPIS = mpis.MPIS
PLUGIN = ("-shared", "-fPIC", "-Wl,--build-id")
# The head of its note: sizes of name and contents, type and name (elf(5), Nhdr).
BUILD_ID = b"\4\0\0\0" b"\x14\0\0\0" b"\3\0\0\0" b"GNU\0"


def _install(work, name, front):
    """The program's own copy, and its directory of files, in a tree that can be moved."""
    (work / "old/bin").mkdir(parents=True)
    (work / "old/data/ranks").mkdir(parents=True)
    shutil.copy2(mpis.program(front, f"resources/{name}"), work / "old/bin/program")
    return ["env", "-C", work / "old/data"]


def _command(work, step_ms=40):
    """By a relative path: what a program has kept in its memory nobody can change."""
    return [work / "old/bin/program", "--steps", STEPS, "--step-ms", step_ms, "--dir", "ranks"]


def _expected(work, name, front):
    directory = work / "native"
    directory.mkdir()
    command = [mpis.program(front, f"resources/{name}"), "--steps", STEPS, "--dir", directory]
    return mpis.checksum(mpis.native(front, command, 2, work).expect_success(name).out)


def _saved(work, name="files_append", front="openmpi"):
    under = _install(work, name, front)
    job = fermata.Job(work)
    job.start(front, _command(work), under=under)
    fermata.wait_for_step(job, 6)
    job.checkpoint_and_stop()
    return job


def _map(work, old, new):
    return ["--map", f"{work / old}={work / new}"]


def _make_moved(name, first, second):
    @timeout(120)
    def test(work):
        job = _saved(work, name, first)
        (work / "old").rename(work / "new")
        job.restart(second, options=_map(work, "old", "new"))
        fermata.wait_for_step(job, 12)
        job.checkpoint_and_stop()  # which knows the new paths by itself
        check(f"{work}/old={work}/new" in job.running.err, job.running.err)
        job.restart(first)
        check_equal(mpis.checksum(job.finish()), _expected(work, name, first), "checksum")
        check(not (work / "old").exists(), "something was made in the old place")
    return test if name == "files_append" else slow(test)


@timeout(120)
def test_what_is_missing_is_told_before_a_rank_runs(work):
    job = _saved(work)
    (work / "old").rename(work / "new")
    result = job.restart("mpich").wait(30)
    check_equal(result.code, 3, result.err)
    for name in ("old/bin/program", "old/data/ranks/log.0", "old/data/ranks/log.1", "old/data"):
        check(f"{work / name}: is missing\n" in result.err, result.err)
    check("--map OLD=NEW" in result.err, result.err)
    # From where it is now, the whole option is told.
    result = job.restart("mpich", under=["env", "-C", work / "new/data"]).wait(30)
    check(f"--map {work}/old={work}/new\n" in result.err + "\n", result.err)


@timeout(120)
def test_the_longest_prefix_holds(work):
    job = _saved(work)
    (work / "old/data").rename(work / "scratch")
    (work / "old").rename(work / "new")
    job.restart("mpich", options=[*_map(work, "old", "new"), *_map(work, "old/data", "scratch")])
    check_equal(mpis.checksum(job.finish()), _expected(work, "files_append", "openmpi"), "checksum")


@timeout(120)
def test_a_map_of_nothing_is_refused(work):
    job = _saved(work)
    result = job.restart("mpich", options=_map(work, "ol", "new")).wait(30)
    check_equal(result.code, 3, result.err)
    check("the snapshot has nothing there" in result.err and f"{work}/old/data" in result.err,
          result.err)
    result = job.restart("mpich", options=["--map", "old"]).wait(30)
    check(result.code == 2 and "is not OLD=NEW" in result.err, result.err)


@timeout(120)
def test_another_program_is_not_taken(work):
    """What is found in the new place has to be what was saved."""
    job = _saved(work)
    (work / "old").rename(work / "new")
    shutil.copy2(mpis.program("openmpi", "resources/files_offset"), work / "new/bin/program")
    result = job.restart("mpich", options=_map(work, "old", "new")).wait(30)
    check(result.code == 3 and f"{work}/new/bin/program: has the build-id" in result.err,
          result.err)


def _make_library(found_by):
    @timeout(120)
    def test(work):
        """A plug-in is loaded by its path, and needs a private library that has its own state."""
        for name in ("bin", "lib"):
            (work / "old" / name).mkdir(parents=True)
        shutil.copy2(mpis.program("openmpi", "plugin_main"), work / "old/bin/program")
        library = work / "old/lib/libstep.so"
        rpath = ["-Wl,-rpath,$ORIGIN/../lib"] if found_by == "rpath" else []
        process.run(["mpicc.openmpi", *PLUGIN, "-Wl,-soname,libstep.so", "-o", library,
                     mpis.ROOT / "tests/programs/linking/plugin.c"]).expect_success("mpicc")
        process.run(["gcc", *PLUGIN, "-Wl,--no-as-needed", *rpath, "-o",
                     work / "old/bin/plugin.so", "-x", "c", "/dev/null", "-x", "none",
                     library]).expect_success("gcc")
        variable = "" if rpath else str(work / "old/lib")
        job = fermata.Job(work)
        job.start("openmpi", [work / "old/bin/program", "--steps", STEPS, "--step-ms", 40],
                  env={"LD_LIBRARY_PATH": variable})
        fermata.wait_for_step(job, 6)
        job.checkpoint_and_stop()
        (work / "old").rename(work / "new")
        missing = job.restart("mpich").wait(30)
        check(missing.code == 3 and f"{library}: is missing" in missing.err, missing.err)
        job.restart("mpich", options=_map(work, "old", "new"))
        check_equal(mpis.checksum(job.finish()), mpis.expected("plugin_main", 2, STEPS), "checksum")
    return test


@timeout(120)
def test_a_link_that_leads_to_what_moved(work):
    """The job knew its directory by a link, and --map names it so, now that the link leads nowhere;
    and links among its files lead from one to another of them."""
    under = _install(work, "files_append", "openmpi")
    (work / "old/store").mkdir()
    for rank in range(2):
        (work / f"old/data/ranks/log.{rank}").symlink_to(f"../../store/log.{rank}")
    (work / "link").symlink_to("old")
    program, *options = _command(work)
    job = fermata.Job(work)
    job.start("openmpi", [work / "link/bin" / program.name, *options],
              under=[*under[:-1], work / "link/data"])
    fermata.wait_for_step(job, 6)
    job.checkpoint_and_stop()
    (work / "old").rename(work / "new")
    job.restart("mpich", options=_map(work, "link", "new"))
    fermata.wait_for_step(job, 12)
    job.checkpoint_and_stop()
    job.restart("openmpi")
    check_equal(mpis.checksum(job.finish()), _expected(work, "files_append", "openmpi"), "checksum")
    check(not (work / "old").exists(), "something was made in the old place")
    check((work / "new/store/log.0").stat().st_size > 0, "the file behind the link")


@timeout(120)
def test_under_a_foreign_mpirun(work):
    job = _saved(work)
    (work / "old").rename(work / "new")
    command = [fermata.FERMATA, "exec", "--name", "again", "--restore",
               fermata.newest_snapshot(job), *_map(work, "old", "new"), work / "new/bin/program"]
    job.release()
    running = process.Running([*mpis.mpirun("openmpi", 2), *map(str, command)], work, name="again",
                              env=mpis.environment(FERMATA_DIR=str(work / "fermata")), cwd=work)
    out = running.wait(60).expect_success("the restart").out
    check_equal(mpis.checksum(out), _expected(work, "files_append", "openmpi"), "checksum")


def _make_lammps(first, second):
    """Its directory, its input, which it reads as it goes, its log and the program itself move."""
    @slow
    @timeout(240)
    def test(work):
        command = lammps(16, 1000)
        native = mpis.native("openmpi", command, 2, work, 90).expect_success("lmp").out
        (work / "old/bin").mkdir(parents=True)
        (work / "old/data").mkdir()
        shutil.copy2(shutil.which("lmp"), work / "old/bin/lmp")
        shutil.copy2(MELT, work / "old/data/in.melt")
        command = [work / "old/bin/lmp", "-in", "in.melt", "-log", "log.lammps", *command[5:]]
        job = fermata.Job(work)
        job.start(first, command, under=["env", "-C", work / "old/data"])
        job.running.wait_for_number(fermata.THERMO, 300, 90)
        job.checkpoint_and_stop()
        before = job.running.out
        (work / "old").rename(work / "new")
        job.restart(second, options=_map(work, "old", "new"))
        whole = fermata.thermo(native)
        compare_thermo(fermata.thermo(before + job.finish(120)), whole)
        compare_thermo(fermata.thermo((work / "new/data/log.lammps").read_text()), whole)
    return test


def upgrade(prefix):
    """Front ends of another build: the build-id differs, the file is as good."""
    for path in prefix.glob("lib/fermata/front/*/libmpi*.so*"):
        contents = path.read_bytes()
        at = contents.index(BUILD_ID) + len(BUILD_ID)
        path.unlink()
        path.write_bytes(contents[:at] + bytes(byte ^ 255 for byte in contents[at:at + 20])
                         + contents[at + 20:])
        path.chmod(0o755)


def _make_installation(change):
    @timeout(180)
    def test(work):
        under = _install(work, "files_append", "openmpi")
        prefix = fermata.installation(work, "first")
        job = fermata.Job(work)
        job.fermata = prefix / "bin/fermata"
        job.start("openmpi", _command(work), under=under)
        fermata.wait_for_step(job, 6)
        job.checkpoint_and_stop()
        if change == "upgraded":
            upgrade(prefix)
        else:
            prefix.rename(work / "second")
            prefix = work / "second"
        job.fermata = prefix / "bin/fermata"
        job.restart("mpich")
        fermata.wait_for_step(job, 12)
        job.checkpoint_and_stop()
        job.restart("openmpi")
        check_equal(mpis.checksum(job.finish()), _expected(work, "files_append", "openmpi"),
                    "checksum")
    return test


def generate():
    both = (MPIS, MPIS[::-1])
    items = ("files_append", "files_shared_log", "files_directory", "files_inotify",
             "files_deleted", "memory_file_shared", "memory_file_read")
    tests = {f"test_fermata_itself_is_{change}": _make_installation(change)
             for change in ("upgraded", "moved")}
    tests |= {f"test_a_library_that_moved_found_by_{way}": _make_library(way)
              for way in ("rpath", "variable")}
    for first, second in both:
        tests[f"test_lammps_{first}_then_{second}"] = _make_lammps(first, second)
        for name in items:
            made = _make_moved(name, first, second)
            tests[f"test_directory_{name}_{first}_then_{second}"] = made
    return tests
