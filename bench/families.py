# SPDX-License-Identifier: Apache-2.0
"""The table of families: ./x bench --families [--rounds N] [--mpi NAME]... [--only WORD]
[--before FERMATA] [--output docs/evidence/families.md] [--json FILE] [--with FILE]...

Each round runs bench/families natively and under Fermata, one after the other, in turning order;
`--before` takes another build's fermata along in the same rounds. Of each run counts what nothing
has disturbed, the 10th percentile of its short blocks. A row shows the medians of that over the
rounds, the median of the rounds' ratios with its quartiles, and the ratio of processor time. The
rounds that earlier runs have saved with --json count as well (--with; --rounds 0 for no others).
The worst come first: those that are the most above what is aimed at, a tenth above native, or
15 ns where that is more.
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

from progress import Progress
from support import fermata, mpis, process
from support.cases import Failed

HERE = pathlib.Path(__file__).resolve().parent
SHARE, LEAST_NS = 1.1, 15  # the aim
MENDED = 1.3  # a row beyond needs a reason

HEAD = """\
# What calls cost, by family

Two ranks of one machine with {processors} processors, wall time in nanoseconds per call (of
arrays of requests: per request), the 10th percentile of the short blocks of a run. {rounds} rounds
of native and Fermata, one after the other; medians, and the median of the rounds' ratios with its
quartiles. "CPU" is the ratio of processor time. Worst first; the aim is a tenth above native, or
15 ns where that is more, and rows that miss it are marked. [performance.md](performance.md) tells
why.

`./x bench --families --output docs/evidence/families.md` writes this page.
"""


def build(mpi, name="families"):
    """The program `name` of this folder, of one file or a folder of them, for this MPI."""
    out = mpis.BUILD / "bench" / mpi / name
    out.parent.mkdir(parents=True, exist_ok=True)
    sources = sorted((HERE / name).glob("*.c")) or [HERE / f"{name}.c"]
    subprocess.run([f"mpicc.{mpi}", "-O2", "-std=gnu11", "-Wno-stringop-overflow", "-o", str(out),
                    *map(str, sources), "-lpthread"], check=True, timeout=60)
    return out


def parse(text):
    """Returns {(family, name): (wall ns, processor ns)}."""
    fields = (line.split("\t") for line in text.split("\n"))
    return {(f[0], f[1]): (float(f[2]), float(f[3])) for f in fields if len(f) == 4}


def run_native(mpi, command, work):
    return mpis.native(mpi, command, 2, work, 120).expect_success("native").out


def run_under(binary):
    def run(mpi, command, work):
        try:
            return process.run([binary, "run", "-n", 2, "--mpi", mpi, "--name", "bench", "--",
                                *command], 120, mpis.environment(FERMATA_DIR=str(work / "fermata")),
                               work).expect_success(str(binary)).out
        finally:
            shutil.rmtree(work / "fermata", ignore_errors=True)
    return run


def sides_of(before, native, under):
    """{side: what measures it}, in the order of the tables; under(BINARY) of another build's
    fermata, if there is one, and of this one's."""
    binaries = {"before": before, "fermata": fermata.FERMATA}
    return {"native": native,
            **{side: under(binary) for side, binary in binaries.items() if binary}}


def in_turning_order(sides, number):
    """So that none always comes first."""
    return list(sides) if number % 2 == 0 else list(reversed(sides))


def measure(mpi, sides, arguments, work, progress):
    """Returns {(family, name): [{side: (wall ns, processor ns)}]}, one entry per round."""
    program = build(mpi) if arguments.rounds else None
    file = pathlib.Path("/dev/shm") / f"fermata-bench-{work.stat().st_ino}"
    only = ["--only", arguments.only] if arguments.only else []
    rows = {}
    for number in range(arguments.rounds):
        figures = {}
        for part in ([], ["--threads"]):
            for side in in_turning_order(sides, number):
                text = sides[side](mpi, [program, *part, *only, file], work)
                progress.step(f"{mpi} {side}{' threads' * len(part)}, round {number + 1}")
                for key, times in parse(text).items():
                    figures.setdefault(key, {})[side] = times
        for key, sample in figures.items():
            if len(sample) == len(sides):
                rows.setdefault(key, []).append(sample)
    return rows


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def ratios(samples, side, which):
    return quartiles([sample[side][which] / sample["native"][which] for sample in samples])


def wall(samples, side):
    return statistics.median(sample[side][0] for sample in samples)


def excess(samples):
    """How far above what is aimed at: 1 is just met."""
    native = wall(samples, "native")
    aim = max(native * SHARE, native + LEAST_NS)
    return ratios(samples, "fermata", 0)[1] * native / aim


def columns(samples, sides):
    """The figures of one row as texts."""
    low, middle, high = ratios(samples, "fermata", 0)
    out = [f"{wall(samples, side):.1f}" for side in sides]
    if "before" in sides:
        out.append(f"{ratios(samples, 'before', 0)[1]:.2f}")
    return [*out, f"{middle:.2f}", f"{low:.2f} .. {high:.2f}",
            f"{ratios(samples, 'fermata', 1)[1]:.2f}", "*" if excess(samples) > 1 else ""]


def titles(sides):
    return [*sides, *(["ratio before"] if "before" in sides else []), "ratio", "quartiles", "CPU",
            "misses"]


def summary(rows):
    beyond = sum(excess(samples) > 1 for samples in rows.values())
    far = [name for (_, name), samples in rows.items()
           if excess(samples) > 1 and ratios(samples, "fermata", 0)[1] > MENDED]
    return f"{len(rows)} rows, {beyond} miss the aim, {len(far)} of them beyond {MENDED}"


def ordered(rows):
    return sorted(rows.items(), key=lambda row: -excess(row[1]))


def text_table(mpi, rows, sides):
    yield f"{mpi}: {summary(rows)}"
    head = titles(sides)
    yield f"{'':50}" + "".join(f"{title:>17}" for title in head)
    for (family, name), samples in ordered(rows):
        cells = "".join(f"{cell:>17}" for cell in columns(samples, sides))
        yield f"{family + ': ' + name:50}{cells}"
    yield ""


def markdown_table(mpi, rows, sides):
    head = ["family", "call", *titles(sides)]
    yield f"\n## {mpi}\n\n{summary(rows)}.\n"
    yield "| " + " | ".join(head) + " |"
    yield "|---|---|" + "---:|" * len(titles(sides))
    for (family, name), samples in ordered(rows):
        yield f"| {family} | {name} | " + " | ".join(columns(samples, sides)) + " |"


def saved_rounds(files, mpi):
    """The rounds of an MPI in files of --json."""
    for file in files:
        for row in json.loads(pathlib.Path(file).read_text()):
            if row["mpi"] == mpi:
                yield (row["family"], row["call"]), row["rounds"]


def add_options(parser):
    parser.add_argument("--families", action="store_true", help="the table of families instead")
    parser.add_argument("--only", help="of the families: rows that hold this word")
    parser.add_argument("--before", help="another build's fermata to compare with")
    parser.add_argument("--with", dest="saved", action="append", default=[], metavar="JSON",
                        help="of the families: count the rounds of an earlier run as well")
    parser.add_argument("--output", help="of families, instructions: also write this Markdown page")


def main(arguments, work):
    sides = sides_of(arguments.before, run_native, run_under)
    found, page = {}, []
    names = arguments.mpi or mpis.MPIS
    progress = Progress(len(names) * len(sides) * 2 * arguments.rounds)
    try:
        for mpi in names:
            found[mpi] = measure(mpi, sides, arguments, work, progress)
            for key, samples in saved_rounds(arguments.saved, mpi):
                found[mpi].setdefault(key, []).extend(samples)
            print("\n".join(text_table(mpi, found[mpi], sides)), flush=True)
            page += markdown_table(mpi, found[mpi], sides)
    except Failed as reason:
        print(f"bench failed: {reason}", file=sys.stderr)
        return 1
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(
            [{"mpi": mpi, "family": family, "call": name, "rounds": samples}
             for mpi, rows in found.items() for (family, name), samples in rows.items()],
            indent=1) + "\n")
    if arguments.output:
        rounds = max(len(samples) for rows in found.values() for samples in rows.values())
        head = HEAD.format(processors=os.cpu_count(), rounds=rounds)
        pathlib.Path(arguments.output).write_text("\n".join([head, *page]) + "\n")
    return 0
