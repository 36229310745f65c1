# SPDX-License-Identifier: Apache-2.0
"""What the files of spec/mpi must look like, and the error that says which does not, and where.

Idea: a rule is a function of a value and its place; rules are put together as the files are.
Invariant: what has passed is of the types that the emitters count on, and its names are C's. What
one file says about another is looked up where it is used, with `found`.
"""
import re

HANDLE_KINDS = {
    "COMMUNICATOR": "Comm", "DATATYPE": "Datatype", "REQUEST": "Request", "OPERATION": "Op",
    "GROUP": "Group", "INFO": "Info", "WINDOW": "Win", "FILE": "File",
    "ERRHANDLER": "Errhandler", "SESSION": "Session", "MESSAGE": "Message",
}
HANDLES = tuple(HANDLE_KINDS.values())
CLASSES = ("local", "tool", "absent", "hand", "icollective", "pcollective", "collective", "plain")


class SpecError(SystemExit):
    """Ends the generator, which writes nothing before it has everything."""

    def __init__(self, name, what):
        super().__init__(f"spec/mpi/{name}: {what}\n"
                         "hint: mend that and run ./x gen again; nothing has been written")


class Wrong(Exception):
    """A value that breaks a rule: its place, and what belongs there."""


def found(table, key, name, where):
    """table[key], which `where` in the file `name` counts on."""
    if key not in table:
        raise SpecError(name, f"{where} names {key}, which nothing defines")
    return table[key]


def rule(test, what):
    def check(value, where):
        if not test(value):
            shown = ascii(value)
            raise Wrong(f"{where}: {shown if len(shown) < 60 else shown[:56] + ' ...'} "
                        f"is not {what}")
    return check


def text(pattern, what):
    return rule(lambda value: isinstance(value, str)
                and re.fullmatch(pattern, value, re.ASCII) is not None, what)


def word(words):
    return rule(lambda value: isinstance(value, str) and value in words,
                "one of " + ", ".join(words))


def array(item, count=None):
    right = rule(lambda value: isinstance(value, list) and count in (None, len(value)),
                 "a list" if count is None else f"a list of {count}")

    def check(value, where):
        right(value, where)
        for number, inner in enumerate(value):
            item(inner, f"{where}[{number}]")
    return check


def table(key, item, needed=()):
    right = rule(lambda value: isinstance(value, dict), "a table")

    def check(value, where):
        right(value, where)
        for name, inner in value.items():
            key(name, where)
            item(inner, f"{where}.{name}")
        record(dict.fromkeys(needed, item))(value, where)
    return check


def record(fields):
    """Fields by name, `name?` for one that may be absent; others are not looked at."""
    right = rule(lambda value: isinstance(value, dict), "a table")

    def check(value, where):
        right(value, where)
        for field, item in fields.items():
            name = field.removesuffix("?")
            if name in value:
                item(value[name], f"{where}.{name}")
            elif name == field:
                raise Wrong(f"{where}: it has no {name}")
    return check


def either(first, second):
    def check(value, where):
        try:
            first(value, where)
        except Wrong:
            second(value, where)
    return check


def pair(first, second):
    def check(value, where):
        array(lambda *_: None, 2)(value, where)
        first(value[0], f"{where}[0]")
        second(value[1], f"{where}[1]")
    return check


FLAG = rule(lambda value: isinstance(value, bool), "true or false")
NUMBER = rule(lambda value: type(value) is int and abs(value) < 1 << 63, "an integer of 64 bits")
NAME = text(r"\w+", "a name")
LINE = text(r"[ -~]*", "a line of ASCII")
PATTERNS = array(text(r"[\w*]+", "a name or a pattern with *"))
C_TYPE = text(r"\\?\w+\**", "a C type")
PARAMETER = record({
    "name": text(r"[a-z]\w*", "the name of a parameter"), "kind": NAME,
    "param_direction": word(("in", "out", "inout")),
    "length?": either(text(r"\*|\w+", "a name, * or two names"), array(NAME, 2)),
    "suppress?": LINE, "pointer?": FLAG, "large_only?": FLAG,
})
FUNCTION = record({
    "name": text(r"MPI_[A-Z]\w+", "the name of an MPI function"), "return_kind": NAME,
    "callback": FLAG, "predefined": FLAG, "c": FLAG, "parameters": array(PARAMETER),
})


def abi(handle):
    return record({
        "constants": table(NAME, NUMBER, ("VERSION", "SUBVERSION", "ERR_OTHER")),
        "handles": table(word(HANDLES), table(NAME, handle)),
        "fortran": table(word(HANDLES), table(NAME, NUMBER)),
        "functions": array(NAME), "objects": table(NAME, NUMBER),
    })


FILES = {
    "annotations.toml": record({
        "order": array(word(CLASSES)),
        "class": table(word(CLASSES), PATTERNS, CLASSES),
        "own": table(NAME, pair(C_TYPE, NUMBER)),
        "alias": table(NAME, NAME),
        "extension": table(NAME, NAME),
        "kind_table": table(NAME, NAME),
        "table": table(NAME, PATTERNS, ("mask",)),
        "raw": record({"parameters": array(text(r"\w+\.\w+", "Function.parameter"))}),
        "error_scope": table(NAME, word(HANDLES)),
        "not_lower": record({"patterns": PATTERNS}),
        "after": table(NAME, LINE),
        "tool_refusal": table(NAME, PATTERNS),
        "null_in_error": record({"functions": PATTERNS}),
        "fortran": record({"hand": PATTERNS, "refused": PATTERNS, "omitted": PATTERNS}),
        "ompi_objects": table(NAME, pair(word(HANDLES), NAME)),
    }),
    "abi_constants.json": table(NAME, pair(C_TYPE, NUMBER)),
    "abi_mpich.json": abi(NUMBER),
    "abi_ompi.json": abi(NAME),
    "apis.json": table(LINE, FUNCTION),
    "kinds.json": table(NAME, array(either(C_TYPE, rule(lambda v: v is None, "a C type or null")),
                                    2)),
    "use.json": table(LINE, text(r"[\w ]*", "names of functions")),
}


def check(name, data):
    try:
        FILES[name](data, "it")
    except Wrong as wrong:
        raise SpecError(name, str(wrong).removeprefix("it: ").removeprefix("it.")) from None
