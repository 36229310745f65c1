# SPDX-License-Identifier: Apache-2.0
"""MPICH's own test suite: Debian's source package `mpich`, test/mpi, built with Debian's compiler
wrappers. Each line of its testlists is run natively under MPICH and under Fermata; right is, as for
MPICH, a program that says "No Errors" and exits with 0. Lines that ask for more than four ranks are
run on four, or on theirs where four are not enough natively."""
import collections
import os
import re
import shutil

from support import mpis, process
from support.cases import Failed, Skipped

HOME = mpis.BUILD / "suites/mpich"
TESTS = HOME / "tests"
SAID = HOME / "said"  # by programs that fail
FEW = 4
# What would be generated anew where the archive's times of files are gone.
MAKE = ("make", "-k", "-j2", "AUTOMAKE=:", "ACLOCAL=:", "AUTOCONF=:", "AUTOHEADER=:")
TIMEOUT_S = 60
few = FEW  # ranks to begin with
DIRECTORIES = ("attr", "coll", "comm", "datatype", "errhan", "group", "info", "init", "pt2pt",
               "rma", "topo", "io", "threads", "spawn", "f77", "f90", "f08", "cxx", "errors",
               "part", "mpi_t", "impls")
TOOLS = {"CC": "mpicc.mpich", "MPICC": "mpicc.mpich", "CXX": "mpicxx.mpich",
         "MPICXX": "mpicxx.mpich", "FC": "mpif90.mpich", "MPIFC": "mpif90.mpich",
         "F77": "mpif77.mpich", "MPIF77": "mpif77.mpich", "MPIEXEC": "mpiexec.mpich",
         "FFLAGS": "-fallow-argument-mismatch -w", "FCFLAGS": "-fallow-argument-mismatch -w",
         "CFLAGS": "-w -O1", "CXXFLAGS": "-w -O1"}

Line = collections.namedtuple("Line", "directory program ranks arguments env options")


def _fetch():
    """The source package, by apt, with lists of its own: most systems have no deb-src lines."""
    apt = HOME / "apt"
    (apt / "lists/partial").mkdir(parents=True, exist_ok=True)
    told = process.run(["apt-get", "indextargets", "--format",
                        "$(CREATED_BY) $(SITE) $(RELEASE) $(COMPONENT)"]).expect_success("apt-get")
    lines = {f"deb-src [trusted=yes] {site} {release} {component}"
             for kind, site, release, component in map(str.split, told.out.splitlines())
             if kind == "Packages" and component == "main"}
    (apt / "sources.list").write_text("\n".join(sorted(lines)) + "\n")
    options = ["-o", f"Dir::Etc::sourcelist={apt}/sources.list", "-o", "Dir::Etc::sourceparts=-",
               "-o", f"Dir::State::lists={apt}/lists", "-o", "Dir::Cache::pkgcache=",
               "-o", "Dir::Cache::srcpkgcache="]
    for command in (["update"], ["source", "--download-only", "mpich"]):
        process.run(["apt-get", *options, *command], 300, cwd=HOME).expect_success("apt-get")
    process.run(["tar", "-xf", next(HOME.glob("mpich_*.orig.tar.*")), "--wildcards",
                 "mpich-*/test/mpi"], 120, cwd=HOME).expect_success("tar")
    next(HOME.glob("mpich-*/test/mpi")).rename(TESTS)


def prepare():
    if not shutil.which("mpicc.mpich"):
        raise Skipped("mpicc.mpich is not installed: ./x setup")
    HOME.mkdir(parents=True, exist_ok=True)
    if not TESTS.exists():
        if not shutil.which("apt-get"):
            raise Skipped("the source package of mpich comes by apt-get, which is not here")
        _fetch()
    env = {**os.environ, **TOOLS}
    if not (TESTS / "Makefile").exists():
        process.run(["./configure", "--with-mpi=/usr", "--enable-romio",
                     "--enable-threads=multiple", "--disable-ft-tests", "--disable-perftest",
                     "--enable-fortran=all"], 1200, env, TESTS).expect_success("configure")
    # Without MPICH's own tree around it, configure thinks that there is no mpi_f08, and that nobody
    # needs its part of the helpers.
    process.run([*MAKE, "-C", "util", "all", "libmtest_f08.la",
                 "am_libmtest_f08_la_OBJECTS=mtest_f08.lo"], 600, env, TESTS)
    process.run([*MAKE, "-C", "dtpools/src"], 600, env, TESTS)


def lines_of(directory):
    """The lines of a directory's testlist, and of those that it names."""
    listed = TESTS / directory / "testlist"
    for text in listed.read_text().splitlines() if listed.exists() else ():
        words = text.split("#")[0].split()
        if not words:
            continue
        if len(words) == 1 and (TESTS / directory / words[0]).is_dir():
            yield from lines_of(f"{directory}/{words[0]}")
            continue
        if len(words) < 2 or not words[1].isdigit():
            continue
        options = collections.defaultdict(list)
        for word in words[2:]:
            name, _, value = word.partition("=")
            options[name].append(value)
        yield Line(directory, words[0], int(words[1]), options["arg"], options["env"], options)


def _name(line):
    return " ".join([f"{line.directory}/{line.program}", str(line.ranks), *line.arguments,
                     *line.env])


def build(directory, lines):
    programs = sorted({line.program for line in lines if line.directory == directory})
    process.run([*MAKE, "-C", TESTS / directory, *programs], 1800)


def _is_right(line, result):
    """As MPICH's runtests judges it: a program says "No Errors", nothing else, and exits with 0,
    unless its line says that it has to fail."""
    said = [text.strip() for text in result.out.splitlines() if text.strip()]
    if line.options["resultTest"]:
        return result.code != 0
    return result.code == 0 and set(said) in ({"No Errors"}, {"No errors"})


def _outcome(line, ranks, mpi):
    """`mpi`: where it runs under Fermata; None: natively."""
    program = TESTS / line.directory / line.program
    if not program.exists():
        return "not run"
    work = HOME / f"work/{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    more = line.options["mpiexecarg"]
    if mpi:
        command = [mpis.BUILD / "bin/fermata", "run", "-n", ranks, "--mpi", mpi, "--name", "suite",
                   *(f"--mpirun-arg={word}" for word in more), "--"]
    else:
        command = ["mpiexec.mpich", "-n", ranks, *more]
    running = process.Running([*map(str, command), program, *line.arguments], work,
                              cwd=TESTS / line.directory,
                              env=mpis.environment(FERMATA_DIR=str(work / "fermata"),
                                                   **dict(v.split("=", 1) for v in line.env)))
    try:
        result = running.wait(max(TIMEOUT_S, *map(int, line.options["timeLimit"]), 0))
    except Failed:
        process.kill_tree(running.process.pid)
        return "hung"
    finally:
        process.reap()  # what the launchers have left behind
    if _is_right(line, result):
        return "ok"
    SAID.mkdir(exist_ok=True)
    (SAID / (re.sub(r"[^-\w=.]", "_", _name(line))[:150] + (".under" if mpi else ".native"))
     ).write_text(f"{result.code}\n{result.out}\n{result.err}")
    return "FAIL"


def run_line(line, mpi, few=FEW):
    """(natively, under Fermata): on the fewest ranks that are enough natively."""
    for ranks in sorted({min(line.ranks, few), min(line.ranks, FEW), line.ranks}):
        native = _outcome(line, ranks, None)
        if native == "ok":
            return native, _outcome(line, ranks, mpi)
        if native == "hung":
            break
    return native, "not run"


def groups(arguments):
    global few
    few = arguments.ranks
    mpi = (arguments.mpi or ["mpich"])[0]
    return {f"{name} on {mpi}": arguments.names for name in arguments.dir or DIRECTORIES}


def run(group, wanted, say):
    """Yields the outcome of each line."""
    name, _, mpi = group.partition(" on ")
    lines = [line for line in lines_of(name) if not wanted or line.program in wanted]
    for directory in sorted({line.directory for line in lines}):
        build(directory, lines)
    results = []
    for line in lines:
        both = run_line(line, mpi, few)
        results.append(both)
        if both[0] == "ok" != both[1]:
            say(f"{_name(line)}: {both[1]}")
        yield {_name(line): both}
    right = sum(both == ("ok", "ok") for both in results)
    say(f"{group}: {len(results)} lines, {sum(b[0] == 'ok' for b in results)} right "
        f"natively, {right} under Fermata, too")
