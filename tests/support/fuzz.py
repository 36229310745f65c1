# SPDX-License-Identifier: Apache-2.0
"""Building and running the fuzz targets of tests/fuzz.

A target is tests/fuzz/targets/NAME.cpp with the sources that it uses; fuzz_corpus.py has its
inputs. clang builds it with libFuzzer and the sanitizers. The control plane's readers come as one
static library with the same instrumentation, made by cargo (decision 0042). What Python reads has a
NAME.py; it runs under atheris, which is libFuzzer, too.
"""
import hashlib
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

from support import fuzz_corpus, fuzz_inputs, process
from support.cases import Failed, check
from support.fuzz_corpus import OUT
from support.mpis import BUILD, ROOT

HERE = ROOT / "tests/fuzz/targets"
CLANG = "clang-19"

SITES = [f"runtime/sites/{name}.cpp" for name in
         ("decode", "elf_file", "finder", "frames", "gaps", "store")]
# Beside the target's own file; a library as -lNAME.
SOURCES = {
    "frames": [],
    "identity": [*SITES, "runtime/image/build_id.cpp", "-lZydis"],
    "image": [],
    "load": [],
    "membership": [],
    "proc": [],
    "records": [],
    "site_cache": ["runtime/image/build_id.cpp"],
    "sites": [*SITES, "-lZydis"],
}
PYTHON = {"annotations"}
VENV = BUILD / "venv-fuzz"  # ./x setup --fuzz
# What of the control plane a target reads with.
CONTROL = {
    "frames": ["types/src/wire.rs", "types/src/protocol_gen.rs"],
    "identity": ["storage/src/build_id.rs"],
    "image": ["storage/src/image.rs", "types/src/image_gen.rs", "seal/src/lib.rs"],
    "membership": [f"membership/src/{name}.rs" for name in
                   ("config", "event", "guard", "machine", "member", "ring", "window", "wire")],
    "records": ["types/src/records.rs", "types/src/checkpointer.rs"],
}

CXX_FLAGS = ["-x", "c++", "-std=c++20", "-O1", "-g", "-fno-exceptions", "-fno-rtti", "-Wall",
             "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all",
             "-fno-omit-frame-pointer", "-I", str(ROOT / "runtime"), "-I", str(HERE),
             "-isystem", str(BUILD / "zydis/include"), "-DZYDIS_STATIC_BUILD",
             "-DZYCORE_STATIC_BUILD"]
RUST_FLAGS = ["-Zsanitizer=address", "-Cdebug-assertions", "-Coverflow-checks",
              "-Cpasses=sancov-module", "-Ccodegen-units=1",
              *(f"-Cllvm-args=-sanitizer-coverage-{flag}" for flag in
                ("level=4", "inline-8bit-counters", "pc-table", "trace-compares"))]
# A hang is a finding, too; and no input makes a reader take much memory.
LIMITS = ["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=512", "-max_len=16384"]
INTERRUPTED = 72  # libFuzzer's exit code after SIGINT or SIGTERM: not a finding


def lacks(target):
    """What a target needs and is not installed; None if nothing."""
    if target in PYTHON:
        return None if (VENV / "lock").exists() else "atheris"
    return None if shutil.which(CLANG) else CLANG


def targets():
    return sorted({*SOURCES, *PYTHON})


def _newest(paths):
    return max((p.stat().st_mtime for p in paths if p.is_file()), default=0)


def build_control():
    """Returns the static library of the control plane's readers."""
    triple = "x86_64-unknown-linux-gnu"
    env = {**os.environ, "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": " ".join(RUST_FLAGS)}
    process.run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "fermata-fuzz",
                 "--target", triple, "--target-dir", OUT / "cargo"], 600, env=env,
                cwd=ROOT / "control").expect_success("building the control plane's fuzz targets")
    return OUT / "cargo" / triple / "release/libfermata_fuzz.a"


def build(target):
    """Builds a target if something it may use is newer. Returns the program."""
    if lacks(target):
        raise Failed(f"{lacks(target)} is missing: ./x setup --fuzz")
    OUT.mkdir(parents=True, exist_ok=True)
    program = OUT / target
    if target in PYTHON:  # a program, since libFuzzer starts itself again to minimize
        program.write_text(f"#!{VENV}/bin/python\nimport runpy\n"
                           f"runpy.run_path({str(HERE / target)!r} + '.py', run_name='__main__')\n")
        program.chmod(0o755)
        return program
    inputs = [HERE / f"{target}.cpp", HERE / "bytes.h", pathlib.Path(__file__)]
    inputs += [p for p in (ROOT / "runtime").rglob("*") if p.suffix in (".h", ".cpp")]
    libraries = [flag for flag in SOURCES[target] if flag.startswith("-l")]
    sources = [ROOT / name for name in SOURCES[target] if not name.startswith("-l")]
    if target in CONTROL:
        libraries += [build_control()]
        inputs += [libraries[-1]]
    if not program.exists() or program.stat().st_mtime < _newest(inputs):
        process.run([CLANG, *CXX_FLAGS, HERE / f"{target}.cpp", *sources, "-x", "none",
                     *libraries, f"-L{BUILD}/zydis", "-lm", "-o", f"{program}.tmp"], 300
                    ).expect_success(f"building the fuzz target {target}")
        os.rename(f"{program}.tmp", program)
    return program


def sources(target):
    """What decides the meaning of a clean run: the target and the readers that it is built of. Not
    runtime/sys, the system calls: they read nothing, and change for reasons of others."""
    if target in PYTHON:
        return sorted([HERE / f"{target}.py", *(ROOT / "gen/mpi").glob("*.py")])
    own = [HERE / f"{target}.cpp", *(ROOT / name for name in SOURCES[target] if name[0] != "-")]
    rule = process.run([CLANG, *CXX_FLAGS, "-MM", *own], 60)
    rule.expect_success(f"asking {CLANG} for the sources of {target}")
    found = {pathlib.Path(word).resolve() for word in rule.out.replace("\\\n", " ").split()
             if not word.endswith(":")}
    found = {path for path in found if ROOT / "runtime/sys" not in path.parents}
    if target in CONTROL:
        found |= {ROOT / "control" / name for name in ["fuzz/src/lib.rs", *CONTROL[target]]}
    return sorted(found)


def digest(target):
    """Of the target's sources: a new one, and the time spent before says nothing any more."""
    whole = hashlib.sha256()
    for path in sources(target):
        whole.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def _environment():
    return {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1"}


def replay(target):
    """Runs every input of the corpus once. Returns the outcomes by the inputs' names; an empty text
    of a target that does not tell them."""
    inputs = [path for directory in fuzz_corpus.directories(target)
              for path in sorted(directory.iterdir())]
    ran = process.run([build(target), *LIMITS, *inputs], 120,
                      env={**_environment(), "FERMATA_FUZZ_TELL": "1"})
    ran.expect_success(f"replaying the corpus of {target}")
    told = {path.name: "" for path in inputs}
    for block in ran.err.split("\nRunning: ")[1:]:
        outcome = re.search("^outcome: (.*)$", block, re.MULTILINE)
        told[pathlib.Path(block.split("\n", 1)[0]).name] = outcome[1] if outcome else ""
    return told


def write_made(target):
    """Writes the inputs that are made (fuzz_inputs.py) among the findings. Returns how many."""
    inputs = fuzz_inputs.made(target)
    for name, (contents, _outcome) in inputs.items():
        (fuzz_corpus.named(target) / name).write_bytes(contents)
    return len(inputs)


def check_made(target, told):
    """Fails if the inputs that are made are not what the corpus holds, or if one of them is not
    read as far as it should be: then the corpus no longer tests the reader behind that place."""
    inputs = fuzz_inputs.made(target)
    for name, (contents, outcome) in inputs.items():
        path = fuzz_corpus.named(target) / name
        check(path.exists() and path.read_bytes() == contents,
              f"{path.relative_to(ROOT)} is not what tests/support/fuzz_inputs.py makes: has a "
              f"layout changed? `./x fuzz {target} --made` writes it; then grow the corpus anew "
              "(docs/evidence/fuzzing.md)")
        check(told[name].startswith(outcome),
              f"{target}: the outcome of {name} is '{told[name]}', not '{outcome}': it is not read "
              "as far as it was. Mend tests/support/fuzz_inputs.py or, if it is right, the reader")


def minimize(target):
    """Leaves in the archive as few inputs as cover, with those that have a name, what all covered.
    Returns how many inputs there were and are."""
    inputs = fuzz_corpus.unnamed(target)
    own = len(list(fuzz_corpus.named(target).iterdir()))
    with tempfile.TemporaryDirectory(dir=OUT) as kept:
        shutil.copytree(fuzz_corpus.named(target), kept, dirs_exist_ok=True)
        process.run([build(target), *LIMITS, "-set_cover_merge=1", kept,
                     *fuzz_corpus.directories(target)], 600,
                    env=_environment()).expect_success(f"minimizing the corpus of {target}")
        needed = set(os.listdir(kept))
    fuzz_corpus.pack(target, {name: inputs[name] for name in inputs if name in needed})
    return own + len(inputs), len(needed)


def _comes_again(program, finding):
    """Whether an input for which a target took ten seconds by the clock does so alone, too."""
    if process.run([program, *LIMITS, finding], 60, env=_environment()).code != 0:
        return True
    finding.unlink()
    print(f"{program.name}: {finding.name} was not a finding: alone it ends in time",
          file=sys.stderr, flush=True)
    return False


def explore(target, seconds, findings, grown):
    """Looks for new inputs for some seconds, beginning with the corpus and with those that earlier
    runs left in the directory `grown`, where it keeps what it finds. A finding is kept in the
    directory `findings` and fails. Returns how many inputs ran."""
    findings.mkdir(parents=True, exist_ok=True)
    grown.mkdir(parents=True, exist_ok=True)
    program, inputs = build(target), 0
    until = time.monotonic() + seconds
    while True:
        left = max(1, round(until - time.monotonic()))
        result = process.run([program, *LIMITS, f"-max_total_time={left}",
                              f"-artifact_prefix={findings}/", "-print_final_stats=1",
                              grown, *fuzz_corpus.directories(target)],  # it writes to the first
                             left + 60, env=_environment())
        ran = re.search(r"number_of_executed_units: *(\d+)", result.err)
        inputs += int(ran[1]) if ran else 0
        if result.code in (0, INTERRUPTED):
            return inputs
        late = re.search(r"Test unit written to (.*/timeout-\w+)$", result.err, re.MULTILINE)
        if not late or _comes_again(program, pathlib.Path(late[1])):
            raise Failed(f"{target}: a finding, kept in {findings}\n{result.err[-4000:]}")
        if time.monotonic() >= until:
            return inputs
