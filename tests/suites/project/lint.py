# SPDX-License-Identifier: Apache-2.0
"""The tools that hold the house rules find what they are to find, and leave alone what they
should: tools/tidy_*.py."""
import importlib
import os
import subprocess
import sys

from support.cases import check, check_equal
from support.mpis import ROOT


def _tool(name, folder="tools"):
    """A module of tools/, or of gen/, which import each other by their bare names."""
    if str(ROOT / folder) not in sys.path:
        sys.path.append(str(ROOT / folder))
    return importlib.import_module(name)


LONG = "word " * 25
PAGE = f"""# A title

{LONG}`a span of code` [a link](b.md) 1. no item
and **the** rest.

- {LONG}
  its second line
  1. {LONG}

| a table | {LONG} |
|---|---|

    code {LONG}

```
fenced {LONG}
```

[{"x" * 120}](b.md)
"""


def test_filling_changes_only_where_lines_end(_work):
    tool = _tool("tidy_markdown")
    check_equal([number for number, _ in tool.long_lines(PAGE)], [3, 6, 8], "lines too long")
    new = tool.refill(PAGE, False)
    check_equal(list(tool.long_lines(new)), [], "lines too long, filled")
    check_equal(new.split(), PAGE.split(), "words")
    check_equal(tool.refill(new, True), new, "filled again")
    for kept in (f"| a table | {LONG} |\n", f"    code {LONG}\n", f"fenced {LONG}\n"):
        check(kept in new, f"{kept} has been changed")
    check("\n  word" in new and "\n     word" in new, "further lines of an item stand under it")


def test_filling_breaks_no_span_and_begins_no_list(_work):
    """Wherever the end of the line comes: the text begins with a word of any length."""
    tool = _tool("tidy_markdown")
    for length in range(1, 95):
        new = tool.refill(f"{'x' * length} {LONG}`a span of code` 1. none - # > none", True)
        check("`a span of code`" in new, f"a span of code has been broken: {new}")
        lines = [line.split()[0] for line in new.split("\n")]
        check(not {"1.", "-", "#", ">"} & set(lines), f"a line begins something: {new}")


def test_dead_links_are_found(_work):
    tool = _tool("tidy_markdown")
    text = """[a](b.md) [b](b.md#two-words) [c](gone.md)
![d](d.svg) `[e](code.md)` <img src="f.svg">

    [g](code.md)

[h](b.md#nowhere) [i](https://example.org/) [j](#here) [k](../x)
# Here
"""
    pages = {"docs/a.md": text, "docs/b.md": "# Two `words`\n"}
    found = [(number, what.split(":")[0])
             for number, what in tool.wrong_links("docs/a.md", text, pages, {*pages, "x"})]
    check_equal(sorted(found), [(1, "gone.md"), (2, "d.svg"), (2, "f.svg"), (6, "b.md#nowhere")],
                "dead links")


def test_pages_that_are_named_and_gone_are_found(_work):
    tool = _tool("tidy_markdown")
    text = "see docs/a.md,\n`docs/b/c.md` and other/docs/d.md"
    found = list(tool.wrong_mentions(text, {"docs/a.md"}))
    check_equal(found, [(2, "there is no docs/b/c.md")], "mentions")


CPP = r"""
#define F(x) if (x) { while (x) }
namespace a { struct B { int c() const { return d ? 1 : 2; } };
B::B(int e) : f_{e}, g_(e) { if (e && f(std::move(x), [](auto&& y) { return !y; })) {} }
static const int kTable[] = {1, 2};
/* if */ void h() { char i = '"'; switch (j) { case 1: case 2: break; } auto k = R"(if ")"; } }
"""
RUST = r"""
impl<'a> A<'a> { fn b(&self) -> [u8; 3] { match c { 1 => d?, 2 | 3 => '}', _ => "if" } }
  fn e() { let f = move || g || h; fn i() { if j {} } for k in l { while m {} } } }
trait N { fn o(&self); }
"""
PYTHON = """
def a(b):
    def c():
        return 1 if b else 2
    if b and c and d:
        return [e for e in f if e]
    elif g:
        pass
"""


def test_complexity_is_counted_as_defined(_work):
    tool = _tool("tidy_complexity")

    def counted(functions):
        return {function.name: function.decisions + 1 for function in functions}
    check_equal(counted(tool.c_functions(CPP)), {"c": 2, "B::B": 3, "h": 3}, "C++")
    check_equal(counted(tool.rust_functions(RUST)), {"b": 3, "e": 4, "i": 2}, "Rust")
    check_equal(counted(tool.python_functions(PYTHON)), {"a": 7, "c": 2}, "Python")


def test_allowances_for_complexity_only_shrink(_work):
    tool = _tool("tidy_complexity")
    functions = [(25, "a.c", 3, "b"), (21, "a.c", 9, "c"), (30, "a.c", 12, "d"),
                 (20, "e.c", 1, "f")]
    allowed = {"a.c:b": 25, "a.c:d": 31, "e.c:f": 22}
    found = [text.split(": ")[1] for text in tool.breaches(functions, allowed)]
    check_equal(found, ["complexity", "a.c:d", "e.c:f"], "one too complex, two allowances too high")


def test_rooms_stand_on_floors(_work):
    """A room uses those below it; neither one above it nor a circle of headers passes."""
    tool = _tool("tidy_headers")

    def found(name, *used):
        text = "".join(f'#include "{other}"\n' for other in used)
        return [line.split(": ")[1] for line in tool.check_floors({name: text})]
    below, above = "launcher/ids/thread.h", "launcher/threads/stop.h"
    check_equal(found("launcher/threads/a.cpp", below, above, "launcher/config.h", "sys/sys.h"),
                [], "what is below, and its own room")
    check_equal(found("launcher/ids/a.h", above), ["floors"], "a room above")
    check_equal(found("launcher/image/a.h", "launcher/main.h"), ["floors"], "above all")
    check_equal(found("launcher/config.h", below), ["floors"], "a file as a room")
    check_equal(found("launcher/attic/a.h"), ["floors"], "no such room")
    check_equal(found("launcher/main.cpp", below, above), [], "from above all")
    check_equal(found("memory/a.h", above), [], "no rooms there")
    check_equal(found("mpi/rma/a.h", "mpi/comms/a.h"), [], "a room that its line names")
    check_equal(found("mpi/rma/a.h", "mpi/io/a.h"), ["floors"], "one beside it")

    circle = {"a.h": ["", "", "b.h", "d.h"], "b.h": ["c.h"], "d.h": ["c.h"], "c.h": ["", "b.h"]}
    texts = {name: "".join(f'#include "{used}"\n' if used else "\n" for used in lines)
             for name, lines in circle.items()}
    check_equal(list(tool.check_circles(texts)),
                ["runtime/c.h:2: circles: b.h -> c.h -> b.h"], "a circle, once")


def test_rooms_call_what_is_below(_work):
    """A call needs no include where all MPI functions are declared in one header."""
    tool = _tool("tidy_headers")
    texts = {"mpi/world/a.cpp": "int Init(int* argc) {\n", "mpi/gate/b.cpp": "  lower().Init(0);\n"}
    check_equal(list(tool.check_floors(texts)), [], "the lower half's")
    texts["mpi/gate/b.cpp"] = "  return core::Init(nullptr);\n"
    check_equal(list(tool.check_floors(texts)),
                ["runtime/mpi/gate/b.cpp:1: floors: gate may not call Init of world"], "from below")
    texts = {"mpi/gate/a.h": "int f();\nstruct S {};\n",
             "mpi/p2p/b.cpp": '#include "mpi/gate/a.h"\n'}
    check_equal(list(tool.check_unused(texts)),
                ["runtime/mpi/p2p/b.cpp:1: unused: it names nothing of mpi/gate/a.h"], "unused")
    texts["mpi/p2p/b.cpp"] += "S s;\n"
    check_equal(list(tool.check_unused(texts)), [], "used")


def test_headers_compile_alone(work):
    tool = _tool("tidy_headers")
    alone, dependent = work / "alone.h", work / "dependent.h"
    alone.write_text('#pragma once\n#include "base/types.h"\n'
                     "inline fermata::u32 f() { return 1; }\n")
    dependent.write_text("#pragma once\ninline fermata::u32 f() { return 1; }\n")
    check_equal(tool.compile_alone(str(alone)), [], "one that has what it needs")
    check_equal(len(tool.compile_alone(str(dependent))), 1, "one that needs another before it")


def test_numbers_are_the_kernels(_work):
    tool = _tool("tidy_headers")
    text = (ROOT / tool.NUMBERS).read_text()
    wrong, compared = tool.check_numbers(text)
    check(not wrong and compared > 200, f"{compared} compared, {wrong}")
    for right, other in (("kPollHup = 0x10,", "kPollHup = 0x20,"),
                         ("kCreate = 0100,  // O_CREAT", "kCreate = 0100,  // O_EXCL")):
        check(right in text, right)
        wrong, _ = tool.check_numbers(text.replace(right, other))
        check(len(wrong) == 1 and other.split(" ")[0] in wrong[0], f"{other}: {wrong}")


def test_the_form_of_commits(_work):
    tool = _tool("tidy_commits")
    good = ("cli: run several executables", "Why.", ["a"], 100)
    check_equal(list(tool.wrong(*good)), [], "a good one")
    check_equal(list(tool.wrong("cli, mpi: fix a word", "", ["a"], 20)), [], "a small one")
    for subject, body, paths, lines, words in (
            ("cli: " + "run " * 20, "Why.", ["a"], 9, "characters"),
            ("Run several executables", "Why.", ["a"], 9, "not `area"),
            ("cli: runs several executables", "Why.", ["a"], 9, "no verb"),
            ("cli: running several", "Why.", ["a"], 9, "no verb"),
            ("cli: run several executables.", "Why.", ["a"], 9, "full stop"),
            ("cli: run several executables", "", ["a"], 21, "no body says why"),
            ("docs: count again", "Why.", ["docs/STATUS.md"], 9, "only records a status")):
        found = list(tool.wrong(subject, body, paths, lines))
        check(any(words in text for text in found), f"{subject}: {found}")


def test_commits_are_not_asked_of_an_archive(work):
    """Without history there is nothing to check, and no error."""
    (work / "tools").mkdir()
    for name in ("tidy_commits.py", "tidy.py"):
        (work / "tools" / name).write_text((ROOT / "tools" / name).read_text())
    outside = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(work.parent)}
    done = subprocess.run([sys.executable, "-B", work / "tools/tidy_commits.py"], timeout=60,
                          capture_output=True, text=True, check=False, env=outside)
    check_equal((done.returncode, "no history here" in done.stdout), (0, True),
                done.stdout + done.stderr)


def _stop(line, quote):
    return f"[a.c:{line}](x)\n\n```c\n{quote}\n```\n"


def test_tours_follow_code_that_moves(work):
    tool = _tool("tours")
    page = work / "docs/tour.md"
    (work / "a.c").write_text("\n" * 9 + "  int a;\n  int b;\n" + "\n" * 99 + "int b;\n")
    text, wrong = tool.renumbered(work, page, _stop(3, "int a;\nint b;") + _stop(120, "int b;"))
    check_equal(wrong, [], "quotes nearby")
    check("[a.c:10](../a.c#L10)" in text and "[a.c:111](../a.c#L111)" in text, text)
    for stop, words in ((_stop(3, "int c;"), "does not have"), (_stop(99, "int a;"), "now line 10"),
                        (_stop(0, "int b;"), "this 2 times"), ("[a.c:1](x)\n", "no block"),
                        (_stop(3, "int a;\n\nint b;"), "does not have"),
                        (_stop(1, "int a;").replace("a.c", "b.c"), "there is no")):
        _, wrong = tool.renumbered(work, page, stop)
        check(len(wrong) == 1 and words in wrong[0], f"{words}: {wrong}")
    check_equal(tool.file_of(ROOT, "tools/gone.py", "def place_of(root, path, line, quote):"),
                "tools/tours.py", "where the quote of a file that is gone stands now")


ARGUMENTS = ", ".join(f"argument_{number}" for number in range(12))


def test_long_lines_of_generated_code_are_broken(_work):
    """At the outermost place that fits, with what is inside a bracket below each other; a text, a
    comment and a line that nothing makes shorter stay."""
    cpp = _tool("cpp", "gen")
    kept = "\n".join([f"// {ARGUMENTS}", f"#define X {ARGUMENTS}", "x" * 120, "short, line"])
    check_equal(cpp.fill(kept), kept, "lines that stay")
    text = (f"  return outer({ARGUMENTS}, inner({ARGUMENTS}));\n"
            f'  if (FIRST_CONDITION && second) return raise(comm, error, "{"name" * 10}");\n'
            f'  return say("{", ".join(["a text"] * 8)}", {", ".join(["number"] * 8)});\n')
    filled = cpp.fill(text)
    check_equal("".join(filled.split()), "".join(text.split()), "all but blanks")
    lines = filled.split("\n")
    check_equal([line for line in lines if len(line) > 100], [], "lines that are too long")
    check(lines[1].startswith(" " * 15 + "argument_"), f"arguments below each other\n{filled}")
    check("  if (FIRST_CONDITION && second)\n    return raise(" in filled, filled)
    check_equal(cpp.fill(filled), filled, "what fits")


class _Found:
    """A report that notes the lines of the breaches."""
    def __init__(self):
        self.lines = []

    def breach(self, _rule, _path, line, _text):
        self.lines.append(line)


def test_a_dropped_result_of_the_mpi_library_is_found(_work):
    tool = _tool("tidy")
    dropped = """
      (void)lower().Barrier(comm);
      if (host) lower().Comm_free(&host);
      else mpi.Comm_free(&host);
      lower().Bcast(&id, bytes,
                    byte, 0, real);
      (void)(lower().*end)(&comm);"""
    kept = """
      may_leak(lower().Comm_free(&host));
      const int error =
          lower().Barrier(comm);
      if (error || mpi.Barrier(comm)) return lower().Barrier(
          comm);
      *size = lower().Comm_size(comm, &size);
      // lower().Barrier(comm) in a comment"""
    for text, lines in (dropped, [2, 3, 4, 5, 7]), (kept, []):
        found = _Found()
        tool.check_dropped("runtime/mpi/x.cpp", tool.strip_comments(text).split("\n"), found)
        check_equal(found.lines, lines, "lines found")


def test_an_invariant_says_whether_it_is_checked(_work):
    text = """// Invariant: one that says
//            nothing.
// Invariant: another. Checked in park().
// Invariant: a third. Not
//            checked: why.
int x;
// Invariant: a fourth
int checked;
"""
    found = _Found()
    _tool("tidy").check_invariants("runtime/x.cpp", text.split("\n"), found)
    check_equal(found.lines, [1, 7], "lines found")
