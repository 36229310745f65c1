# SPDX-License-Identifier: Apache-2.0
"""Tests that need no MPI job: each tests/unit/*.cpp is built with the sanitizers and run, and the
control plane's own tests run under cargo."""
from support import process
from support.cases import Skipped, timeout
from support.mpis import ROOT


# AddressSanitizer's shadow lies where the crossing between the halves is.
WITHOUT_SHADOW = {"held", "held_signals", "lower_errors", "obligations"}


def _core(flags, sanitizers):
    """The core of the front ends, built with these flags; the next test finds it there."""
    objects = ROOT / "build/obj" / f"mpi-{sanitizers.replace(',', '-')}"
    process.run([ROOT / "runtime/mpi/build.sh", objects, *flags], 400).expect_success("the core")
    return objects / "core.a"


def _make(source):
    @timeout(600)
    def test(work):
        program = work / source.stem
        sanitizers = "undefined" if source.stem in WITHOUT_SHADOW else "address,undefined"
        flags = ["-O1", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
        of_core = [_core(flags, sanitizers)] if "unit/front.h" in source.read_text() else []
        process.run(["g++", "-std=c++20", "-g", "-fno-exceptions", "-fno-rtti", "-Wall", *flags,
                     "-I", ROOT / "runtime", "-I", ROOT / "tests", "-o", program, source,
                     *of_core], 150).expect_success(f"compiling {source.name}")
        process.run([program], 60, cwd=ROOT).expect_success(source.name)
    return test


@timeout(1500)  # two thirds of it are the compiler, on a machine on which other tests run
def test_control_plane(_work):
    if not (ROOT / "control/Cargo.toml").exists():
        raise Skipped("no control plane")
    process.run(["cargo", "test", "--workspace", "--release", "--locked", "--quiet"], 1480,
                cwd=ROOT / "control").expect_success("cargo test")


def generate():
    sources = sorted((ROOT / "tests/unit").glob("*.cpp"))
    return {f"test_{source.stem}": _make(source) for source in sources}
