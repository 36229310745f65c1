# SPDX-License-Identifier: Apache-2.0
"""The MPI installations the tests use, and how to run a program natively under each."""
import atexit
import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

from support import process
from support.cases import Failed, Skipped

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
WORK = BUILD / "tests/work"  # each test has a directory there
MPIS = ("openmpi", "mpich")
OTHER = dict(zip(MPIS, reversed(MPIS), strict=True))

# Programs of tests/programs that run under every MPI without arguments of their own.
PROGRAMS = ("selfcheck", "compute", "blocked", "collective", "inflight", "files", "signals_tls",
            "nonpie", "static_cxx", "plugin_main", "argv_env", "vdso")


own_environment = {}  # of this worker (support.workers)


def environment(**more):
    inherited = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    env = {**inherited, "CHECK_ENVIRONMENT": "kept", **own_environment, **more}
    if os.getuid() == 0:
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env


def mpirun(mpi, ranks):
    if mpi == "openmpi":
        yield_idle = ["--mca", "mpi_yield_when_idle", "1"] if ranks > (os.cpu_count() or 1) else []
        return ["mpirun.openmpi", "--oversubscribe", *yield_idle, "-n", str(ranks)]
    return ["mpiexec.mpich", "-n", str(ranks)]


@functools.cache
def build_programs():
    done = subprocess.run([str(ROOT / "tests/programs/build.sh")], capture_output=True, text=True,
                          timeout=1200, check=False)
    if done.returncode != 0:
        raise Failed(f"tests/programs/build.sh failed\n{done.stdout}{done.stderr}")


def program(mpi, name):
    build_programs()
    path = BUILD / "tests" / mpi / name
    if not path.exists():
        raise Failed(f"{path} was not built")
    return path


def harness(work, name, *flags):
    """A tool of tests/harness, compiled into the directory."""
    tool = work / name
    process.run(["gcc", "-O2", "-o", tool, ROOT / f"tests/harness/{name}.c", *flags]
                ).expect_success(name)
    return tool


def own_arguments(name, work):
    """The arguments that a program needs beside --steps and --step-ms."""
    if name == "argv_env":
        return ["one", "two words", ""]
    if name == "files":
        return ["--dir", str(work)]
    return []


def native(mpi, command, ranks, work, timeout_s=60, env=None):
    if not shutil.which(mpirun(mpi, ranks)[0]):
        raise Skipped(f"{mpirun(mpi, ranks)[0]} is not installed")
    return process.run([*mpirun(mpi, ranks), *map(str, command)], timeout_s,
                       environment(**(env or {})), work)


def checksum(text):
    """The checksum of the line `PASS <checksum>`; it must be there exactly once."""
    lines = [line for line in text.split("\n") if line.startswith("PASS ")]
    if len(lines) != 1:
        raise Failed(f"{len(lines)} PASS lines instead of one\n{process.tail(text)}")
    return lines[0].split()[1]


@contextlib.contextmanager
def scratch():
    """A directory for a moment, to find out what several tests need: each worker does so."""
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK, prefix="scratch-") as directory:
        yield pathlib.Path(directory)


def kept(name):
    """A new directory for what several tests need, of which each worker makes its own: it stays
    until the worker, or a program that is none, ends."""
    directory = tempfile.mkdtemp(prefix=f"{name}-", dir=own_environment.get("TMPDIR"))
    if "TMPDIR" not in own_environment:
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return pathlib.Path(directory)


@functools.cache
def expected(name, ranks, steps, size=None):
    """The checksum of an uninterrupted native run (Open MPI; the result is the same under all)."""
    with scratch() as work:
        command = [program("openmpi", name), *own_arguments(name, work), "--steps", steps]
        if size is not None:
            command += ["--size", size]
        return checksum(native("openmpi", command, ranks, work).expect_success(name).out)
