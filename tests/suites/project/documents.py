# SPDX-License-Identifier: Apache-2.0
"""Generated documents and sources are what their generators would write now. What the tests of
errors recorded is compared by `./x ci`, when they have run (`./x errors --check`)."""
import re
import shutil
import sys
from xml.etree import ElementTree

from support import process
from support.cases import check, check_equal
from support.mpis import ROOT
from support.names import all_names, exists


def _fresh(*command):
    result = process.run([sys.executable, "-B", *command], cwd=ROOT)
    check(result.code == 0, result.out + result.err)


def test_resources(_work):
    _fresh("tools/resources_table.py", "--check")


def test_faults(_work):
    _fresh("tools/faults_table.py", "--check")


def test_what_both_languages_know(_work):
    """The C++, the Rust and the page that are made of spec/."""
    for generator in ("contract", "crossing", "rank"):
        _fresh(f"gen/{generator}.py", "--check")


def test_what_comes_of_the_mpi_table(_work):
    """The layers of the runtime, and docs/reference/mpi-coverage.md."""
    _fresh("gen/mpi/generate.py", "--check")


def test_decisions(_work):
    """The index has every record, by its title."""
    _fresh("tools/decisions_index.py", "--check")


def test_tours(_work):
    """What the code tours quote stands where they say, or near."""
    _fresh("tools/tours.py", "--check")


def test_pictures(_work):
    """They are what their sources give now. The generator refuses texts that overlap."""
    _fresh("gen/pictures/generate.py", "--check")


def _wrong_pictures(pictures, documents):
    """What is wrong with pictures, {name: bytes}, that documents, {path: text}, show."""
    shown = {}
    for path, text in documents.items():
        for alt, name in re.findall(r"!\[([^\]]*)\]\([^)]*\bimg/([\w-]+\.\w+)\)", text):
            shown.setdefault(name, []).append(path)
            if not alt:
                yield f"{path} shows {name} without saying what it is"
            if name not in pictures:
                yield f"{path} shows {name}, which is not there"
    for name, content in pictures.items():
        if name.endswith(".png"):
            if not content.startswith(b"\x89PNG"):
                yield f"{name} is no PNG"
        else:
            yield from _wrong_drawing(name, content)
        if name not in shown:
            yield f"no document shows {name}"


def _wrong_drawing(name, content):
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        yield f"{name} is not XML: {error}"
        return
    for part in ("title", "desc"):
        found = root.find(f"{{http://www.w3.org/2000/svg}}{part}")
        if found is None or not (found.text or "").strip():
            yield f"{name} has no {part} for who cannot see it"


def test_pictures_are_shown(_work):
    """Each picture is well-formed, says what it is, and is in some document."""
    pictures = {path.name: path.read_bytes() for path in (ROOT / "docs/img").iterdir()}
    documents = {str(path.relative_to(ROOT)): path.read_text()
                 for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}
    check(len(pictures) > 7, f"there are pictures: {sorted(pictures)}")
    check_equal(list(_wrong_pictures(pictures, documents)), [], "pictures")
    broken = {"a.svg": b"<svg", "b.svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
              "d-e.png": b"<svg/>"}
    wrong = _wrong_pictures(broken, {"x.md": "![](img/b.svg) ![c](img/c.svg)"})
    check_equal(len(list(wrong)), 8, "what broken ones have")


def test_pictures_notice_their_sources(work):
    """A picture is stale once its source has changed, and a source that has lost what is drawn is
    named."""
    for name in ("gen", "spec", "docs", "runtime", "control", "ARCHITECTURE.md"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, work / name)
    draw = [sys.executable, "-B", "gen/pictures/generate.py", "--check"]
    process.run(draw, cwd=work).expect_success("a copy")
    layout = work / "runtime/halves/layout.h"
    text = layout.read_text()
    layout.write_text(text.replace("kSlots = 0x1001", "kSlots = 0x1002"))
    changed = process.run(draw, cwd=work)
    check_equal((changed.code, changed.out), (1, "stale docs/img/rank.svg\n"), "another address")
    layout.write_text(text.replace("kSlots", "kHandles"))
    lost = process.run(draw, cwd=work)
    check(lost.code == 1 and "layout.h" in lost.err and "kSlots" in lost.err, lost.err)


ANSWERS = ("kept", "refused", "not noticed", "answered by")


def _wrong_lines(text, names):
    """What is wrong with the tables of docs/reference/process-state.md."""
    for line in re.findall(r"^\|.*$", text, re.M):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells == ["state", "answer", "test"] or set(line) <= set("|-"):
            continue
        tests = re.findall(r"`(\w+\.\w+)`", cells[-1])
        if len(cells) != 3 or not cells[1].startswith(ANSWERS):
            yield f"not a state, an answer and its tests: {line}"
        elif not tests:
            yield f"has no test: {line}"
        for test in tests:
            if not exists(test, names):
                yield f"no test is called {test}: {line}"


def _tests_in(text, names):
    """What looks like a test's name in it: SUITE.NAME."""
    suites = {name.split(".")[0] for name in names}
    return [test for test in re.findall(r"`(\w+\.\w+)`", text) if test.split(".")[0] in suites]


# `path`: `what stands there`, such as the name of a test in Rust.
QUOTE = re.compile(r"`([\w./-]+)`: `([^`]+)`")


def _wrong_quotes(text):
    for path, quote in QUOTE.findall(text):
        if not (ROOT / path).is_file() or quote not in (ROOT / path).read_text():
            yield f"{path} does not say: {quote}"


def test_security(_work):
    """Each promise names the tests that hold it, and they exist."""
    text, names = (ROOT / "docs/reference/security.md").read_text(), all_names()
    section = text.split("## What is promised\n")[1].split("\n## ")[0]
    promises = re.split(r"^- ", section, flags=re.M)[1:]
    check(len(promises) > 5, f"{len(promises)} promises")
    for promise in promises:
        check(_tests_in(promise, names) or QUOTE.search(promise), f"no test holds this: {promise}")
    check_equal(list(_wrong_quotes(text)), [], "tests in Rust")
    for test in _tests_in(text, names):
        check(exists(test, names), f"no test is called {test}")
    check(not exists("trust.no_such_test", names), "every test exists")


def test_process_state(_work):
    """Every line of the table has an answer, and the tests that it names exist."""
    text = (ROOT / "docs/reference/process-state.md").read_text()
    names = all_names()
    check_equal(list(_wrong_lines(text, names)), [], "docs/reference/process-state.md")
    broken = "| a | kept | `resources.no_such_test` |\n| b | not noticed | – |\n| c | perhaps | – |"
    check_equal(len(list(_wrong_lines(broken, names))), 3, "what a broken table has")


def test_system_calls(_work):
    """Every system call that this machine's headers know is answered once, and by a section that
    docs/reference/process-state.md has."""
    text = (ROOT / "docs/reference/system-calls.md").read_text()
    rows = re.findall(r"^\| (.+) \| ([a-z0-9_ ]+) \|$", text, re.M)[1:]
    states = (ROOT / "docs/reference/process-state.md").read_text()
    sections = re.findall(r"^## (.*)$", states, re.M)
    check_equal(sorted(row[0] for row in rows[1:]), sorted(sections), "sections")
    listed = [name for row in rows for name in row[1].split()]
    check_equal(sorted({name for name in listed if listed.count(name) > 1}), [], "named twice")
    headers = process.run(["gcc", "-E", "-dM", "-include", "asm/unistd_64.h", "-xc", "/dev/null"],
                          cwd=ROOT).expect_success("gcc").out
    known = re.findall(r"#define __NR_(\w+) \d", headers)
    check(len(known) > 300, "the headers have system calls")
    check_equal(sorted(set(known) - set(listed)), [], "calls that no section answers for")


# In a cell: a quote; else `suite.test`, or `a page that is measured`.
OWNER = re.compile(r"`((?:docs/)?[\w./-]+)`")


def _wrong_promises(text, names):
    """What is wrong with the tables of SPECIFICATION.md."""
    for line in re.findall(r"^\|.*$", text, re.M):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0] == "promise" or set(line) <= set("|-"):
            continue
        if len(cells) != 3:
            yield f"not a promise, its place and its owners: {line}"
            continue
        yield from _wrong_quotes(cells[1] + cells[2])
        owners = OWNER.findall(QUOTE.sub("", cells[2]))
        if not owners and not QUOTE.search(cells[2]):
            yield f"nothing holds it: {line}"
        for owner in owners:
            if not (exists(owner, names) or owner.endswith(".md") and (ROOT / owner).is_file()):
                yield f"no test is called {owner}: {line}"


def test_specification(_work):
    """The sources say each number, and each promise has a test that exists."""
    text = (ROOT / "SPECIFICATION.md").read_text()
    check_equal(list(_wrong_promises(text, all_names())), [], "SPECIFICATION.md")
    broken = ("| a | `x`: `no such text` | `one.test` |\n| b | – | – |\n| c | – | `two.tests` |\n"
              "| d | – |\n| e | `x`: `no such file` | `no/such.md` |")
    check_equal(len(list(_wrong_promises(broken, ["one.test_openmpi"]))), 6, "what is broken")


def test_findings(_work):
    """Every finding of outsiders names the tests of its kind, and they exist."""
    text, names = (ROOT / "docs/evidence/findings.md").read_text(), all_names()
    rows = [row for row in re.findall(r"^\| .* \|$", text, re.M) if not row.startswith("| finding")]
    check(len(rows) > 30, f"{len(rows)} rows")
    for row in rows:
        tests = re.findall(r"`(\w+\.\w+)`", row)
        check(tests or "each of its lines" in row, f"no test: {row}")
        check_equal([test for test in tests if not exists(test, names)], [], "tests that are gone")
