# SPDX-License-Identifier: Apache-2.0
"""The guide, line by line: every command in docs/guide does what the guide says."""
import os
import pathlib
import re
import shutil

from support import guide, mpis, process
from support.cases import Skipped, check, slow, timeout

DONE = "GUIDE: every line works"


def _follow(work, selected, timeout_s, **environment):
    script = work / "guide.sh"
    script.write_text(guide.script(selected))
    home = work / "home"
    home.mkdir()
    env = mpis.environment(HOME=str(home), REPOSITORY=str(mpis.ROOT), **environment)
    # A Rust of the user's own is found by the home directory; `./x setup` would install another.
    for name, folder in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")):
        env.setdefault(name, str(pathlib.Path.home() / folder))
    for name in ("FERMATA_DIR", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        env.pop(name, None)
    result = process.run(["bash", script], timeout_s, env, work)
    check(DONE in result.out, f"{process.tail(result.out, 15)}\n{process.tail(result.err, 15)}")
    return result.out


@timeout(600)
def test_line_by_line(work):
    """With the tree as it is: what chapter 1 does before the program is in PATH is left out."""
    every = list(guide.commands())
    begin = next(i for i, (_, command, _) in enumerate(every) if command.startswith("export PATH"))
    check(begin > 2 and len(every) > 40, f"commands were found: {len(every)}, PATH at {begin}")
    out = _follow(work, every[begin + 1:], 580,
                  PATH=f"{mpis.BUILD / 'bin'}:{os.environ['PATH']}")
    # The restart begins with the step after the last one before it.
    line = r"##### 4-restart.md:\d+ after \d+ s\n"
    steps = re.search(rf"step +(\d+): \d+\n(?s:.*){line}\n{line}step +(\d+):", out)
    check(steps, f"steps before and after the restart in:\n{out}")


@slow
@timeout(1500)
def test_from_the_beginning(work):
    """With a clone, and a build from nothing. Not where that would install anything."""
    for command in ("cargo", "mpicc.openmpi", "mpicc.mpich", "lmp"):
        if not shutil.which(command):
            raise Skipped(f"{command} is missing: ./x setup")
    _follow(work, list(guide.commands()), 1480)


def test_links_lead_somewhere(_work):
    for chapter in guide.chapters():
        for target in re.findall(r"\]\(([^)#]+)\)", chapter.read_text()):
            check((chapter.parent / target).exists(), f"{chapter.name}: {target}")
