# SPDX-License-Identifier: Apache-2.0
"""What the tests stand on themselves."""
import os
import pathlib
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from unittest import mock

from suites.apps import gromacs, petsc
from support import fuzz_corpus, mpis, process, suites
from support.cases import Failed, check, check_equal, timeout


def test_the_demo_needs_no_test_before_it(work):
    """`./x demo` is the first command of the README: the tests' directory is not there yet."""
    with mock.patch.object(mpis, "WORK", work / "tests/work"), mpis.scratch() as made:
        check(made.is_dir(), f"{made} is there")


def test_a_suite_of_another_name_is_found(_work):
    """Who types what a suite was called once is told what it is called; a folder is all of its."""
    for old, now in suites.FORMER.items():
        check(now in suites.all_suites(), f"{old} is to be {now}, which is no suite")
    run = process.run([mpis.ROOT / "tests/run", "--list", "--suite", "items"], cwd=mpis.ROOT)
    check_equal((run.code, run.out, run.err),
                (2, "", "there is no suite items: it is called resources now\n"), "a former name")
    check_equal(set(suites.chosen(["security"], False)), {"sealed", "trust", "trust_places"},
                "a folder's suites")
    for names, cluster, wanted in (([], False, False), (["project"], False, False),
                                   (["systems"], False, True), ([], True, False)):
        check_equal("systems" in suites.chosen(names, cluster), wanted, f"systems for {names}")
    for names, cluster, wanted in (([], False, False), (["cluster"], False, True),
                                   (["cluster_faults"], False, True), ([], True, True)):
        check_equal("cluster_faults" in suites.chosen(names, cluster), wanted, f"hosts for {names}")


def test_an_archive_of_inputs_is_what_went_in(work):
    """And the same inputs make the same archive, so that a commit shows what has changed."""
    inputs = {f"{number:040x}": bytes([number]) * number for number in range(50)}
    with mock.patch.object(fuzz_corpus, "ARCHIVES", work), \
            mock.patch.object(fuzz_corpus, "OUT", work / "out"):
        fuzz_corpus.pack("sites", inputs)
        first = (work / "sites.tar.xz").read_bytes()
        fuzz_corpus.pack("sites", dict(reversed(inputs.items())))
        check((work / "sites.tar.xz").read_bytes() == first, "another order, another archive")
        _own, unpacked = fuzz_corpus.directories("sites")
        check_equal({path.name: path.read_bytes() for path in unpacked.iterdir()}, inputs, "inputs")
        grown = work / "grown"
        grown.mkdir()
        for name in ("crash-1", f"{0:040x}", f"{99:040x}"):
            (grown / name).write_bytes(b"new")
        check_equal(fuzz_corpus.adopt("sites", grown), 1, "inputs that are new")
        check_equal(set(fuzz_corpus.unnamed("sites")), {*inputs, f"{99:040x}"}, "inputs")
        fuzz_corpus.pack("sites", {"../out": b""})
        try:
            fuzz_corpus.unnamed("sites")
        except Failed as reason:
            check("../out" in str(reason), str(reason))
        else:
            raise Failed("an archive may write where it likes")


COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf half > "$2"
[ -e go ] || kill -9 $PPID
"""


def test_a_killed_compilation_leaves_no_program(work):
    """It would be newer than its source, and fail every test from then on."""
    script = work / "tests/programs/build.sh"
    (script.parent / "basic").mkdir(parents=True)
    shutil.copy2(mpis.ROOT / "tests/programs/build.sh", script)
    (script.parent / "basic/one.c").write_text("")
    for name in ("mpicc.openmpi", "mpicc.mpich"):
        (work / name).write_text(COMPILER)
        (work / name).chmod(0o755)
    program = work / "build/tests/openmpi/one"
    env = mpis.environment(PATH=f"{work}:{os.environ['PATH']}")
    check_equal(process.run([script], env=env).code, -9, "the first build")
    check(not program.exists(), "there is half a program")
    (work / "go").touch()
    process.run([script], env=env)
    check(program.exists(), "the next build makes no program")


ARCHIVER = """#!/bin/sh
# ar crs ARCHIVE OBJECT...: another test links while this one is half made.
printf half > "$2"
g++ -o linked main.cpp core/core.a && echo whole >> links
rm "$2"
PATH=${PATH#*:} exec ar "$@"
"""


def test_the_core_is_whole_while_it_is_made_anew(work):
    """One unit test makes the archive that another one is linked with at that moment."""
    script = work / "runtime/mpi/build.sh"
    (script.parent / "room").mkdir(parents=True)
    shutil.copy2(mpis.ROOT / "runtime/mpi/build.sh", script)
    (script.parent / "room/one.cpp").write_text("int one() { return 1; }\n")
    (work / "main.cpp").write_text("int one();\nint main() { return one() - 1; }\n")
    process.run([script, "core"], cwd=work).expect_success("the first build")
    archiver = work / "bin/ar"
    archiver.parent.mkdir()
    archiver.write_text(ARCHIVER)
    archiver.chmod(0o755)
    env = mpis.environment(PATH=f"{archiver.parent}:{os.environ['PATH']}")
    process.run([script, "core"], env=env, cwd=work).expect_success("the second build")
    check((work / "links").exists(), "there is no whole archive while it is made anew")
    process.run(["g++", "-o", "linked", "main.cpp", "core/core.a"], cwd=work
                ).expect_success("linking afterwards")
    check_equal([path.name for path in (work / "core").glob("core.a*")], ["core.a"], "archives")


def test_a_process_whose_name_is_no_text_is_found(work):
    """Such a one of another test ended the worker that looked for its own: names are cut after 15
    bytes, which may be the middle of a character."""
    program = work / "fifteen-bytes-\u00e9"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as sleeping:
        try:
            process.wait_until(lambda: b"fifteen" in _name(sleeping.pid), "its name")
            check_equal(process.descendants(), [sleeping.pid], "descendants")
        finally:
            sleeping.kill()


def _name(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_bytes()


def _make_apart(make):
    @timeout(120)
    def test(_work):
        """Two workers that make it at once would find it half made, or gone."""
        make.cache_clear()
        with ProcessPoolExecutor(1) as one, ProcessPoolExecutor(1) as other:
            made = [worker.submit(make) for worker in (one, other)]
            first, second = (future.result(100) for future in made)
        check(first != second, f"both workers make {first}")
    return test


def generate():
    return {"test_petsc_is_each_worker_s_own": _make_apart(petsc.program),
            "test_gromacs_input_is_each_worker_s_own": _make_apart(gromacs.run_input)}
