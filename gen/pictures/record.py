#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of demo.txt and writes their outputs into it: gen/pictures/record.py.

It needs what `./x demo` needs, a build and LAMMPS, and takes a minute. The commands run in one
shell in build/demo-recording, as somebody would type them. Nothing is written if the last answer is
not `the same`.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests")]
sys.dont_write_bytecode = True

from support import fermata, mpis, process  # noqa: E402
from support.cases import Failed, check  # noqa: E402

SCRIPT = HERE / "demo.txt"
WORK = ROOT / "build/demo-recording"
MARK = "end of the command"
LIMIT_S = 180  # of one command, and of one wait


def prepare():
    """The directory in which the commands run: the input, and what an undisturbed run prints."""
    fermata.need_built()
    check(shutil.which("lmp"), "lammps is not installed: ./x setup")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    shutil.copy(ROOT / "tests/apps/in.melt", WORK)
    native = mpis.native("openmpi", ["lmp", "-in", "in.melt"], 2, WORK, LIMIT_S)
    rows = [line for line in native.expect_success("lmp").out.split("\n")
            if re.match(r" *[0-9]*0 ", line)]
    (WORK / "undisturbed.txt").write_text("\n".join(rows) + "\n")


def wait_for_line(path, pattern):
    """Waits until a line of a file matches."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        if path.exists() and re.search(pattern, path.read_text(errors="replace"), re.M):
            return
        time.sleep(0.02)
    raise Failed(f"{path.name} has no line that matches {pattern} after {LIMIT_S} s")


def answer(shell, command):
    """The lines that a command prints."""
    shell.stdin.write(f"{command}\necho '{MARK}'\n")
    shell.stdin.flush()
    watchdog = threading.Timer(LIMIT_S, shell.kill)
    watchdog.start()
    try:
        lines = []
        for line in shell.stdout:
            if line.rstrip("\n") == MARK:
                return lines
            lines.append(line.rstrip("\n").replace(f"{os.getcwd()}/", ""))
    finally:
        watchdog.cancel()
    raise Failed(f"after {LIMIT_S} s this has not come to an end: {command}")


def play(script, environment):
    """The script once more, with what its commands print now."""
    out = []
    with subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, env=environment) as shell:
        for line in script.rstrip("\n").split("\n"):
            if line.startswith("@ "):
                name, pattern = line[2:].split(" ", 1)
                wait_for_line(pathlib.Path(name), pattern)
            elif not line.startswith(("#", "$ ")):
                continue  # what was printed last time
            out.append(line)
            if line.startswith("$ "):
                out += answer(shell, line[2:])
        shell.stdin.close()
    return "\n".join(out) + "\n"


def main():
    process.become_subreaper()
    try:
        prepare()
        os.chdir(WORK)
        path = f"{mpis.BUILD / 'bin'}:{os.environ['PATH']}"
        text = play(SCRIPT.read_text(), mpis.environment(PATH=path))
        check(text.endswith("\nthe same\n"), f"the rows differ:\n{text}")
        SCRIPT.write_text(text)
        print(text + "\nnow: ./x gen")
        return 0
    except Failed as reason:
        print(f"record.py: {reason}", file=sys.stderr)
        return 1
    finally:
        process.end_descendants()


if __name__ == "__main__":
    sys.exit(main())
