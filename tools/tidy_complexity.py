#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cyclomatic complexity of every function by hand in C, C++, Rust and Python: at most 20. ./x lint
runs it; exit code 1 if a function has more.

It is one more than the decisions of a function: if, for, while, case, catch (except), the ternary
operator, && and || (and, or), each arm of a `match` but the first, and in Python the parts of
comprehensions. Rust's `?` is none: it passes an error on, as exceptions do elsewhere. A closure
counts to the function that it stands in; a function inside a function counts by itself.

ALLOWED names those that have more. It may only shrink: one that needs it no longer, or less of it,
is a breach as well. tools/tidy_complexity.py --list N shows the N most complex functions.
"""
import ast
import bisect
import pathlib
import re
import sys

from tidy import ROOT, is_generated, tracked_files

LIMIT = 20
# file:function -> what it has.
ALLOWED = {
    "gen/mpi/emit_core.py:narrow_body": 24,
    "runtime/files/sockets.cpp:restore_socket": 22,
    "runtime/image/reader.cpp:extents_in_bounds": 25,
    "runtime/launcher/traps.cpp:perform": 53,
    "runtime/launcher/threads/syscall_restart.cpp:restart_call": 21,
    "runtime/launcher/ids/process_ids.cpp:trap_id_call": 39,
    "runtime/launcher/image/save.cpp:write_image": 27,
    "runtime/memory/save.cpp:save_private": 23,
    "runtime/memory/shared.cpp:restore_objects": 25,
    "runtime/mpi/objects/errors.cpp:error_target": 23,
    "runtime/mpi/safepoint/park.cpp:follow_protocol": 36,
    "tests/foreign/mpi4py_suite.py:run_modules": 26,
    "tests/programs/chaos/main.c:main": 24,
    "tests/unit/memory_maps.cpp:plain_lines": 21,
}

C_SUFFIXES = (".c", ".cpp", ".h")
BLANKED = {
    "c": re.compile(r"""//[^\n]*|/\*.*?\*/|R"(?P<raw>[^()\s\\]{0,16})\(.*?\)(?P=raw)"
        |"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.[0-9a-fA-F]*|[^'\\\n])'
        |^[ \t]*\#(?:\\\n|[^\n])*""", re.S | re.X | re.M),
    "rust": re.compile(r"""//[^\n]*|/\*.*?\*/|\bb?r(?P<raw>\#*)".*?"(?P=raw)
        |"(?:\\.|[^"\\])*"|'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\\n])'""", re.S | re.X),
}
TOKEN = re.compile(r"[A-Za-z_]\w*|&&|\|\||::|->|=>|\S")
BRANCHES = {"if", "for", "while", "case", "catch", "?"}
SCOPES = {"namespace", "class", "struct", "union", "enum", "extern"}
# Before the body of a function, behind its parameters.
BEHIND_PARAMETERS = {")", "const", "noexcept", "override", "final", "mutable", "try", "volatile"}
NOT_NAMES = {"__attribute__", "alignas", "decltype", "requires", "noexcept", "explicit"}


class _Function:
    def __init__(self, name, line):
        self.name, self.line, self.decisions = name, line, 0


def _tokens(text, language):
    """(token, line number) without comments, strings and, in C, the preprocessor's lines."""
    bare = BLANKED[language].sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    ends = [match.start() for match in re.finditer(r"\n", bare)]
    return [(m[0], bisect.bisect_left(ends, m.start()) + 1) for m in TOKEN.finditer(bare)]


def _is_and_or(tokens, index):
    """Whether && or || is the operator, and not a reference to an rvalue or an empty closure."""
    before = tokens[index - 1][0] if index else ""
    behind = tokens[index + 1][0] if index + 1 < len(tokens) else ""
    if tokens[index][0] == "&&":
        return not (before in ("auto", "") or behind in (">", ")", ",", "."))
    return before not in ("(", ",", "=", "{", ";", "return", "move", "=>", "")


def _name_in_head(head):
    """The name of the function that these tokens, up to a {, begin; None if they begin none."""
    words = [token for token, _ in head]
    if "(" not in words or words[-1] not in BEHIND_PARAMETERS and "->" not in words:
        return None
    for index in range(1, len(words)):
        named = re.match(r"\w", words[index - 1]) and words[index - 1] not in NOT_NAMES
        if words[index] == "(" and (named or "operator" in words[:index]):
            start = index - 1
            while start >= 2 and words[start - 1] in ("::", "~", "operator"):
                start -= 2 if words[start - 1] == "::" else 1
            return "".join(words[start:index])
    return None


def _in_initializers(head):
    """Whether a { behind this head begins a member's value in a constructor's list."""
    words = [token for token, _ in head]
    depth = 0
    for index, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if word == ":" and depth == 0 and index and words[index - 1] in BEHIND_PARAMETERS:
            return re.match(r"[A-Za-z_]", words[-1]) is not None
    return False


def _before_list(head):
    """A constructor's head without the list of its members' values."""
    for index in range(1, len(head)):
        if head[index][0] == ":" and head[index - 1][0] in BEHIND_PARAMETERS:
            return head[:index]
    return head


def c_functions(text):
    """The functions of a C or C++ file. Braces are of three kinds: of a scope, of a function's
    body with all that is in it, and of values."""
    tokens = _tokens(text, "c")
    found, braces, head = [], [], []
    for index, (token, line) in enumerate(tokens):
        inside = next((it for it in reversed(braces) if it != "scope"), None)
        if token == "{" and inside is None:
            name = _name_in_head(_before_list(head))
            if _in_initializers(head):
                braces.append("value")
                continue
            if name:
                found.append(_Function(name, line))
            is_scope = any(word in SCOPES for word, _ in head)
            braces.append("body" if name else "scope" if is_scope else "value")
            head = []
        elif token == "{":
            braces.append(inside)
        elif token == "}":
            closed = braces.pop() if braces else None
            if closed != "value":
                head = []
        elif inside == "body":
            found[-1].decisions += token in BRANCHES or (token in ("&&", "||")
                                                         and _is_and_or(tokens, index))
        elif inside is None:
            head = [] if token == ";" else [*head, (token, line)]
    return found


def rust_functions(text):
    """The functions of a Rust file; one inside another counts by itself."""
    tokens = _tokens(text, "rust")
    found, open_ones, depth, waiting, parentheses = [], [], 0, None, 0
    for index, (token, line) in enumerate(tokens):
        if token == "fn" and re.match(r"[A-Za-z_]", tokens[index + 1][0]):
            waiting, parentheses = _Function(tokens[index + 1][0], line), 0
        elif waiting:
            parentheses += (token in "([") - (token in ")]")
            if token == ";" and not parentheses:
                waiting = None
            if token == "{" and not parentheses:
                found.append(waiting)
                open_ones.append((waiting, depth))
                waiting = None
        elif open_ones:
            _count_rust(open_ones[-1][0], tokens, index)
        depth += (token == "{") - (token == "}")
        if token == "}" and open_ones and open_ones[-1][1] == depth:
            open_ones.pop()
    return found


def _count_rust(function, tokens, index):
    token = tokens[index][0]
    if token in ("if", "for", "while", "=>"):
        function.decisions += 1
    elif token == "match":
        function.decisions -= 1
    elif token in ("&&", "||"):
        function.decisions += _is_and_or(tokens, index)


def _python_decisions(node):
    """Of a function's body, without the functions in it."""
    total = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        total += isinstance(child, ast.If | ast.For | ast.While | ast.IfExp | ast.ExceptHandler
                            | ast.match_case | ast.comprehension)
        if isinstance(child, ast.BoolOp):
            total += len(child.values) - 1
        if isinstance(child, ast.comprehension):
            total += len(child.ifs)
        total += _python_decisions(child)
    return total


def python_functions(text):
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = _Function(node.name, node.lineno)
            function.decisions = _python_decisions(node)
            found.append(function)
    return found


def language(path, text):
    suffix = pathlib.PurePath(path).suffix
    if suffix in C_SUFFIXES:
        return c_functions
    if suffix == ".rs":
        return rust_functions
    if suffix == ".py" or suffix == "" and text.startswith("#!/usr/bin/env python3"):
        return python_functions
    return None


def measured():
    """(complexity, path, line, name) of every function by hand."""
    for path in tracked_files():
        suffix = pathlib.PurePath(path).suffix
        if is_generated(path) or suffix not in (*C_SUFFIXES, ".rs", ".py", ""):
            continue
        try:
            text = (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue
        functions = language(path, text)
        for function in functions(text) if functions else ():
            yield function.decisions + 1, path, function.line, function.name


def breaches(functions, allowed):
    """What is wrong with these, given what is allowed: {"path:name": complexity}."""
    most = {}
    for complexity, path, line, name in functions:
        if complexity > most.get(f"{path}:{name}", (LIMIT, 0))[0]:
            most[f"{path}:{name}"] = complexity, line
    for key, (complexity, line) in sorted(most.items()):
        path, name = key.split(":", 1)
        if complexity > allowed.get(key, LIMIT):
            yield (f"{path}:{line}: complexity: {name} has {complexity}, at most "
                   f"{allowed.get(key, LIMIT)} are allowed")
    for key, complexity in sorted(allowed.items()):
        now = most.get(key, (0, 0))[0]
        if now < complexity:
            yield (f"tools/tidy_complexity.py: {key}: " +
                   (f"{now} suffices, lower it" if now else "no longer needed, remove it"))


def main():
    functions = sorted(measured(), reverse=True)
    if sys.argv[1:2] == ["--list"]:
        for complexity, path, line, name in functions[:int(sys.argv[2])]:
            print(f"{complexity:4} {path}:{line}: {name}")
        return 0
    found = list(breaches(functions, ALLOWED))
    for line in found:
        print(line)
    print(f"tidy_complexity: {len(found)} breaches" if found else
          f"tidy_complexity: clean ({len(functions)} functions)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
