# SPDX-License-Identifier: Apache-2.0
"""Instructions of single calls: ./x bench --instructions [--mpi NAME]... [--before FERMATA]
[--output docs/evidence/instructions.md].

A program of one rank is stepped through (instructions.c) natively and under Fermata, and under
another build's fermata with --before. What the machine does meanwhile changes nothing, so a
difference of one instruction is one of the code, or of addresses that the MPI below hashes.
"""
import pathlib
import subprocess
import sys

from support import fermata, mpis, process
from support.cases import Failed

HERE = pathlib.Path(__file__).resolve().parent

HEAD = """\
# What calls cost, in instructions

A program of one rank, stepped through instruction by instruction on a communicator of its own, the
least of several rounds; "ours" is how many Fermata adds. What the machine does meanwhile changes
nothing. [performance.md](performance.md) tells what they are for.

`./x bench --instructions --output docs/evidence/instructions.md` writes this page."""


def build(mpi):
    out = mpis.BUILD / "bench" / mpi / "instructions"
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([f"mpicc.{mpi}", "-O2", "-std=gnu11", "-Wno-stringop-overflow", "-o", str(out),
                    str(HERE / "instructions.c")], check=True, timeout=60)
    return out


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


def under(binary, mpi):
    return [binary, "run", "-n", 1, "--mpi", mpi, "--name", f"instructions-{mpi}", "--"]


def measure(mpi, before, work):
    """Returns {side: {case: instructions}}."""
    program = build(mpi)
    sides = {"native": mpis.mpirun(mpi, 1)}
    if before:
        sides["before"] = under(before, mpi)
    sides["fermata"] = under(fermata.FERMATA, mpi)
    return {side: count(mpi, command, program, work) for side, command in sides.items()}


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
