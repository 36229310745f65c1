# SPDX-License-Identifier: Apache-2.0
"""What the pictures are made of: numbers, names and sentences out of the repository's own files.

Each reader raises SourceError when its file no longer has what a picture shows, with the place.
"""
import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]


class SourceError(Exception):
    """A source has no longer what is drawn from it."""


def read(name):
    path = ROOT / name
    if not path.is_file():
        raise SourceError(f"{name} is not there; gen/pictures draws from it")
    return path.read_text()


def find(name, pattern, flags=re.M):
    """The first match of a pattern in a file."""
    match = re.search(pattern, read(name), flags)
    if not match:
        raise SourceError(f"{name}: nothing matches {pattern}; gen/pictures draws from it")
    return match


def layout():
    """runtime/halves/layout.h: {constant: value}."""
    out = {}
    for name, value in re.findall(r"^inline constexpr u64 (k\w+) = ([^;]+);",
                                  read("runtime/halves/layout.h"), re.M):
        out[name] = sum(out[term] if term in out else int(term.replace("'", ""), 16)
                        for term in re.split(r"\s*\+\s*", value))
    return out


def address(value):
    """0x100000000000 -> '0x1000_0000_0000', as the documents write it."""
    return f"0x{value:_x}"


def messages():
    """spec/protocol.toml: {NAME: message}."""
    spec = tomllib.loads(read("spec/protocol.toml"))
    return {message["name"].upper(): message for message in spec["message"]}


def checkpoint_sequence():
    """The order of messages that spec/protocol.toml tells: [(names, direction, whom)], where names
    is a list and direction `>` (from the coordinator) or `<`; and how it may end otherwise."""
    text = find("spec/protocol.toml",
                r"^# A checkpoint, seen from the coordinator:\n((?:#   .*\n)+)")[1]
    text = " ".join(line.strip("# ") for line in text.split("\n"))
    order, _, other = text.partition("; or, at any point before the commit,")
    steps = []
    for names, direction, whom in re.findall(r"([A-Z]+(?: or [A-Z]+)*) ([<>]) (\w+)", order):
        steps.append((names.split(" or "), direction, whom))
    loop = re.search(r"\(([^)]*)\)\*", order)
    repeated = set(re.findall(r"[A-Z]{4,}", loop[1])) if loop else set()
    ending = re.search(r"([A-Z]+) > all", other)
    if len(steps) < 10 or not repeated or not ending:
        raise SourceError("spec/protocol.toml: the order of a checkpoint's messages cannot be read")
    return steps, ending[1]


def rust_variants(name, enum):
    """{variant: documentation} of an enum."""
    body = find(name, rf"^(?:pub(?:\(crate\))? )?enum {enum} {{\n(.*?)^}}", re.M | re.S)[1]
    out, doc = {}, []
    for line in body.split("\n"):
        line = line.strip()
        if line.startswith("///"):
            doc.append(line[3:].strip())
        elif match := re.match(r"(\w+)", line):
            out[match[1]] = " ".join(doc)
            doc = []
    return out


def rust_function(name, function):
    """The text of a function, from its name to its closing brace."""
    return find(name, rf"^( *)(?:pub(?:\([a-z]+\))? )?fn {function}\b.*?^\1}}", re.M | re.S)[0]


def families(mpi):
    """docs/evidence/families.md, what `./x bench --families` writes: {call: row} of one MPI."""
    text = find("docs/evidence/families.md", rf"^## {mpi}$(.*?)(?=^## |\Z)", re.M | re.S)[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in re.findall(r"^\|.*$", text, re.M)]
    head = rows[0]
    return {row[1]: dict(zip(head, row)) for row in rows[2:]}


def statement(name, pattern):
    """A statement of a source file in one line, without its indentation."""
    return re.sub(r"\s+", " ", find(name, pattern)[1]).strip()
