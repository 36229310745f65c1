# SPDX-License-Identifier: Apache-2.0
"""Instructions of single calls: ./x bench --instructions [--mpi NAME]... [--before FERMATA]
[--output docs/evidence/instructions.md].

A program of one rank is stepped through (instructions.c) natively and under Fermata, and under
another build's fermata with --before. What the machine does meanwhile changes nothing, so a
difference of one instruction is one of the code, or of addresses that the MPI below hashes.
"""
import pathlib
import sys

import families
from support import mpis, process
from support.cases import Failed

HEAD = """\
# What calls cost, in instructions

A program of one rank, stepped through instruction by instruction on a communicator of its own, the
least of several rounds; "ours" is how many Fermata adds. What the machine does meanwhile changes
nothing. [performance.md](performance.md) tells what they are for.

`./x bench --instructions --output docs/evidence/instructions.md` writes this page."""


def count(mpi, command, program, work):
    """Returns {case: instructions}. `command`: what the traced program is started with."""
    shared = work / "rank"
    shared.unlink(missing_ok=True)
    running = process.Running([*command, program, "rank", shared], work, env=mpis.environment(
        FERMATA_DIR=str(work / "fermata")))
    counted = process.run([program, "count", shared], 110).expect_success(f"{mpi}: counting")
    running.wait(30).expect_success(mpi)
    lines = (line.split("\t") for line in counted.out.splitlines())
    return {name: int(number) for name, number in lines}


def measure(mpi, before, work):
    """Returns {side: {case: instructions}}."""
    program = families.build(mpi, "instructions")
    commands = families.sides_of(before, mpis.mpirun(mpi, 1), lambda binary: [
        binary, "run", "-n", 1, "--mpi", mpi, "--name", f"instructions-{mpi}", "--"])
    return {side: count(mpi, command, program, work) for side, command in commands.items()}


def rows(figures):
    """The table of one MPI: its head, and a row for each case."""
    yield ["call", *figures, "ours", *(["to before"] if "before" in figures else [])]
    for case, ours in figures["fermata"].items():
        numbers = [side[case] for side in figures.values()]
        row = [case, *numbers, ours - figures["native"][case]]
        if "before" in figures:
            row.append(f"{ours / figures['before'][case]:.3f}")
        yield [str(cell) for cell in row]


def text_table(mpi, figures):
    yield mpi
    for row in rows(figures):
        yield f"  {row[0]:28}" + "".join(f"{cell:>10}" for cell in row[1:])
    yield ""


def markdown_table(mpi, figures):
    head, *body = rows(figures)
    yield f"\n## {mpi}\n"
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "--:|" * (len(head) - 1)
    for row in body:
        yield "| " + " | ".join(row) + " |"


def main(arguments, work):
    page = []
    try:
        for mpi in arguments.mpi or mpis.MPIS:
            figures = measure(mpi, arguments.before, work)
            print("\n".join(text_table(mpi, figures)), flush=True)
            page += markdown_table(mpi, figures)
    except Failed as reason:
        print(f"bench failed: {reason}", file=sys.stderr)
        return 1
    if arguments.output:
        pathlib.Path(arguments.output).write_text("\n".join([HEAD, *page]) + "\n")
    return 0
