#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house rules that a machine can check. Prints every breach as file:line: text; exit code 1.

    layers        every #include of the runtime against the table of who may use whom (the rooms
                  within a folder, and headers: tidy_headers.py)
    syscalls      only runtime/sys issues system calls, only runtime/arch holds assembly
    dropped       no result of a call of the MPI library below is dropped: whatever nothing follows
                  from goes to may_leak() or may_fail() (mpi/handles/lower_errors.h)
    freestanding  the linked launcher needs no symbol from anywhere (nm -u is empty)
    SPDX, length  first lines, 100 columns, 500 lines a file, 70 lines a function
    invariants    each `Invariant:` of the runtime's comments says where it is checked, or why not
    paths         no path of somebody's machine
    words         none that the glossary has another one for

Exceptions stand in tools/tidy-exceptions.txt, `rule path limit` per line (limit: how many breaches,
or for lengths the longest). The file may only shrink: one that is no longer needed is a breach.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXCEPTIONS = ROOT / "tools/tidy-exceptions.txt"

# folder -> folders it may include from, beside itself. "libc" allows <...> headers of a libc;
# without it only the freestanding ones, the compiler's intrinsics and the kernel's are allowed.
LAYERS = {
    "base": "",
    "arch": "base",
    "sys": "base arch",
    "halves": "base",
    "image": "base sys arch",
    "memory": "base sys arch image halves",
    "files": "base sys arch image halves",
    "launcher": "base sys arch halves image memory files",
    "interface": "libc",
    "mpi": "base sys halves interface libc frontend/callbacks.h",
    "frontend": "base sys halves mpi libc",
    "backend": "base halves agent libc",
    "agent": "base sys halves libc",
    "sites": "base libc",
}
FREESTANDING = {"stddef.h", "stdint.h", "stdarg.h", "stdbool.h", "immintrin.h", "x86intrin.h",
                "cpuid.h", "elf.h"}
KERNEL = ("linux/", "asm/", "asm-generic/")
NUMBERS_ONLY = {"sys/syscall.h"}  # macros, no declarations

SOURCES = (".h", ".cpp", ".c", ".S", ".py", ".sh", ".rs", ".toml")
MAX_COLUMNS, MAX_LINES, MAX_FUNCTION = 100, 500, 70
SYSCALL = re.compile(r"\bsyscall\s*\(|\braw_syscall\s*\(|\"syscall\"")
ASSEMBLY = re.compile(r"\b(?:asm|__asm__)\b\s*(?:volatile|goto|\()")
# A call of the lower half whose result goes nowhere: cast away, or a statement of its own.
LOWER_CALL = r"\(?(?:lower\(\)\.|mpi\.)[A-Z*]"
DROPPED = re.compile(rf"\(void\)\s*{LOWER_CALL}|(?:\)|\belse)\s+{LOWER_CALL}")
STATEMENT = re.compile(rf"\s*{LOWER_CALL}")
BANNED = re.compile(r"\b(?:go|goes|going|gone|went) on\b(?! the\b)|\bpatience\b|\bearly message|"
                    r"\b(?:the|our) books\b|\bneedy\b|\bdut(?:y|ies)\b", re.I)
MACHINE = re.compile(r"(?<![\w./$}-])/(?:work|root|home/\w+)/")


class Report:
    def __init__(self):
        self.found = {}  # (rule, path) -> [text of each breach]
        self.amounts = {}  # (rule, path) -> how bad: the longest, or how many
        self.exceptions = {}
        for line in EXCEPTIONS.read_text().split("\n"):
            words = line.split("#")[0].split()
            if words:
                self.exceptions[words[0], words[1]] = int(words[2])

    def breach(self, rule, path, line, text, amount=None):
        key = rule, path
        self.found.setdefault(key, []).append(f"{path}:{line}: {rule}: {text}")
        before = self.amounts.get(key, 0)
        self.amounts[key] = before + 1 if amount is None else max(before, amount)

    def close(self):
        """Returns the breaches that no exception covers. Prints notes on exceptions to lower."""
        left = []
        for key, texts in self.found.items():
            if self.amounts[key] > self.exceptions.get(key, 0):
                left += texts
        for key, limit in sorted(self.exceptions.items()):
            if key not in self.found:
                left.append(f"{EXCEPTIONS.name}: {' '.join(key)}: no longer needed, remove it")
            elif self.amounts[key] < limit:
                print(f"note: {EXCEPTIONS.name}: {' '.join(key)}: {self.amounts[key]} suffices")
        return left


def tracked_files():
    """Files of the repository, and new ones that git does not ignore."""
    listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                             capture_output=True, text=True, timeout=30).stdout
    return [p for p in sorted(set(listing.split("\n"))) if p and (ROOT / p).is_file()]


def is_generated(path):
    return ".gen." in path or path.endswith("_gen.rs") or path.endswith("Cargo.lock")


def strip_comments(text):
    """Blanks comments, keeping line numbers (strings may look like comments: good enough)."""
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    return re.sub(r"(?<!:)//[^\n]*", "", text)


def check_includes(path, lines, report):
    folder = path.split("/")[1]
    if folder not in LAYERS:
        report.breach("layers", path, 1, f"folder {folder} is not in the table of tools/tidy.py")
        return
    allowed = LAYERS[folder].split() + [folder]
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        kind, name = match.groups()
        if kind == "<":
            hosted = not (name in FREESTANDING or name in NUMBERS_ONLY or name.startswith(KERNEL))
            if hosted and "libc" not in allowed:
                report.breach("layers", path, number, f"{folder} is freestanding: <{name}>")
        elif "/" in name and name.split("/")[0] not in allowed and name not in allowed:
            report.breach("layers", path, number, f"{folder} may not use {name}")


def check_danger(path, lines, report):
    """Assembly and system calls live in their folders."""
    folder = path.split("/")[1]
    for number, line in enumerate(lines, 1):
        if folder not in ("sys", "arch") and SYSCALL.search(line):
            report.breach("syscalls", path, number, line.strip())
        if folder != "arch" and ASSEMBLY.search(line):
            # An empty asm is a compiler barrier and `register asm` a name: neither is code.
            if not re.search(r'asm\s*(volatile)?\s*\(\s*""', line):
                report.breach("assembly", path, number, line.strip())


def check_dropped(path, lines, report):
    if not path.startswith("runtime/mpi/"):
        return
    before = ";"
    for number, line in enumerate(lines, 1):
        begins = before[-1] in ";{})" or before.endswith("else")
        if DROPPED.search(line) or (begins and STATEMENT.match(line)):
            report.breach("dropped", path, number, line.strip()[:80])
        before = line.strip() or before


def check_invariants(path, lines, report):
    if not path.startswith("runtime/"):
        return
    begun, text = 0, ""

    def close():
        if begun and not re.search(r"\b[Cc]hecked\b", text):
            report.breach("invariants", path, begun, "neither `Checked` nor `Not checked: why`")

    for number, line in enumerate(lines, 1):
        comment = line.strip().startswith("//")
        if begun and (not comment or "Invariant:" in line):
            close()
            begun, text = 0, ""
        if comment and "Invariant:" in line:
            begun = number
        text += line
    close()


def functions(lines):
    """Yields (first line number, length, name) of C and C++ functions: a brace opened at namespace,
    class or file level after a `)`, up to the line where it closes."""
    scope = r"\b(namespace|class|struct|union|enum|extern)\b[^;{}()]*\{?\s*$"
    depth_stack, start = [], None
    for number, line in enumerate(lines, 1):
        code = re.sub(r"'(?:\\.|[^'\\])'|\"(?:\\.|[^\"\\])*\"", "''", line)
        for character in code:
            if character == "{":
                context = " ".join(lines[max(0, number - 4):number])
                is_scope = re.search(scope, code.split("{")[0] + "{") is not None
                if start is None and not is_scope and ")" in context:
                    start = (number, len(depth_stack))
                depth_stack.append(number)
            elif character == "}" and depth_stack:
                depth_stack.pop()
                if start and len(depth_stack) == start[1]:
                    yield start[0], number - start[0] + 1, lines[start[0] - 1].strip()
                    start = None


def check_shape(path, text, lines, report):
    suffix = pathlib.Path(path).suffix
    if suffix in (".h", ".cpp", ".c", ".S", ".py", ".sh", ".rs"):
        head = "\n".join(lines[:2])
        if "SPDX-License-Identifier: Apache-2.0" not in head:
            report.breach("spdx", path, 1, "no SPDX line at the top")
    generated = is_generated(path)
    for number, line in enumerate(lines, 1):
        # Generated Rust may be longer; generated C++ is to be read.
        if len(line) > MAX_COLUMNS and (suffix == ".h" or suffix != ".toml" and not generated):
            report.breach("columns", path, number, f"{len(line)} columns")
        if line != line.rstrip() and not generated:
            report.breach("blanks", path, number, "blanks at the end of the line")
    if generated:
        return
    if suffix in SOURCES and len(lines) > MAX_LINES + 1:
        report.breach("lines", path, 1, f"{len(lines) - 1} lines", len(lines) - 1)
    if suffix in (".h", ".cpp", ".c"):
        for number, length, name in functions(strip_comments(text).split("\n")):
            if length > MAX_FUNCTION:
                report.breach("function", path, number, f"{length} lines: {name[:60]}", length)


def check_freestanding(report):
    program = ROOT / "build/libexec/fermata/launcher"
    if not program.exists():
        print("tidy: the launcher is not built; the freestanding proof is skipped")
        return
    wanted = subprocess.run(["nm", "-u", str(program)], capture_output=True, text=True, timeout=30,
                            check=False).stdout.split("\n")
    for line in filter(None, (w.strip() for w in wanted)):
        report.breach("freestanding", "build/libexec/fermata/launcher", 0, f"needs {line}")


def main():
    report = Report()
    for path in tracked_files():
        suffix = pathlib.Path(path).suffix
        script = suffix == "" and path in ("x", ".ci/run", "tests/run", "tests/demo", "bench/run",
                                         "bench/one-sided",
                                         "tests/fuzz/run")
        if suffix not in SOURCES and suffix != ".md" and not script:
            continue
        text = (ROOT / path).read_text(errors="replace")
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if MACHINE.search(line) and path != "tools/tidy.py":
                report.breach("paths", path, number, line.strip()[:80])
            if BANNED.search(line) and path not in ("tools/tidy.py", "CHANGELOG.md"):
                report.breach("words", path, number, line.strip()[:80])
        if suffix == ".md":
            continue
        check_shape(path, text, lines, report)
        native = suffix in (".h", ".cpp", ".S")
        if path.startswith("runtime/") and native and not is_generated(path):
            code = strip_comments(text).split("\n")
            check_includes(path, code, report)
            check_danger(path, code, report)
            check_dropped(path, code, report)
            check_invariants(path, lines, report)
    check_freestanding(report)
    breaches = report.close()
    for line in breaches:
        print(line)
    print(f"tidy: {len(breaches)} breaches" if breaches else "tidy: clean")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
