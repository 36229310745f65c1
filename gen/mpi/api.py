# SPDX-License-Identifier: Apache-2.0
"""The MPI API as the emitters need it.

Problem: the Forum's data describes parameters by kind; each of our three layers (application ABI,
canonical form, native form) spells a kind differently, and some kinds change value between ABIs.
Idea: every parameter gets one *category* here, and an emitter is a table from category to code.
Invariant: a parameter nobody has a category for stops the generator; nothing passes by accident.
What the functions here return is read once for all emitters; none of them changes it.
"""
import fnmatch
import functools
import json
import pathlib
import re
import tomllib

from schema import HANDLE_KINDS, SpecError, check, found

SPEC = pathlib.Path(__file__).resolve().parents[2] / "spec" / "mpi"

VOID_POINTERS = {
    "BUFFER", "C_BUFFER", "C_BUFFER2", "EXTRA_STATE", "EXTRA_STATE2", "ATTRIBUTE_VAL",
    "ATTRIBUTE_VAL_10", "FUNCTION", "POLYFUNCTION", "TOOL_MPI_OBJ", "EVENT_CB_FUNCTION",
    "EVENT_FREE_CB_FUNCTION", "EVENT_DROP_CB_FUNCTION", "LOGICAL_VOID",
}
POINTER_KINDS = VOID_POINTERS | {"STRING", "STATUS", "STRING_ARRAY", "F08_STATUS", "F90_STATUS"}
WORDS = {"MPI_Aint": "i64", "MPI_Offset": "i64", "MPI_Count": "i64", "MPI_Fint": "int"}


@functools.cache
def load(name):
    """A file of spec/mpi, checked."""
    parse = tomllib.loads if name.endswith(".toml") else json.loads
    try:
        data = parse((SPEC / name).read_bytes().decode())
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SpecError(name, f"line {line} is not UTF-8") from None
    except (OSError, ValueError) as error:
        raise SpecError(name, str(error)) from None
    except RecursionError:
        raise SpecError(name, "its values are nested too deeply") from None
    check(name, data)
    return data


@functools.cache
def _expression(patterns):
    return re.compile("|".join(map(fnmatch.translate, patterns)) or "(?!)")


def matches(name, patterns):
    return _expression(tuple(patterns)).match(name) is not None


def is_request_list(param):
    """An array of requests that the core reads and writes in place."""
    return param.kind == "REQUEST" and param.array and param.inout


def c_type(kind, large, where):
    """How C spells a parameter or a result of this kind."""
    text = found(load("kinds.json"), kind, "apis.json", where)[1 if large else 0]
    if text is None:
        raise SpecError("kinds.json", f"{kind}: {where} needs its C type")
    return WORDS.get(text, text)


class Param:
    """One C parameter: its category and its type in canonical spelling."""

    def __init__(self, function, data, large, notes):
        self.name = {"string": "text", "assert": "assertion"}.get(data["name"], data["name"])
        self.kind = data["kind"]
        self.out = data["param_direction"] in ("out", "inout")
        self.inout = data["param_direction"] == "inout"
        self.const = bool(data.get("constant"))
        self.length = data.get("length")
        self.poly = self.kind.startswith("POLY")
        self.array = self.length is not None and self.kind not in ("STRING", "C_BUFFER4")
        self.grid = isinstance(self.length, list)
        raw = f"{function}.{self.name}" in notes["raw"]["parameters"]
        self.table = None if raw else notes["kind_table"].get(self.kind)
        self.base = self._base(large, f"MPI_{function}.{self.name}")
        self.category = self._category()
        self.pointer = self._pointer(data)

    def _base(self, large, where):
        if self.kind in VOID_POINTERS:
            return "void"
        if self.kind in HANDLE_KINDS:
            return "handle"
        text = c_type(self.kind, large, where)
        return "void*" if text.startswith("MPI_T_") else text

    def _category(self):
        if self.kind in HANDLE_KINDS:
            return "handle"
        if self.kind == "STATUS":
            return "status"
        if self.kind == "BUFFER":
            return "buffer"
        if self.kind == "WEIGHT":
            return "weights"
        if self.kind == "STRING" and self.out and str(self.length).startswith("MPI_MAX"):
            return "string_out"
        return "number" if self.table and not self.grid else "plain"

    def _pointer(self, data):
        """Levels of pointer of the canonical C type, arrays included (one level each)."""
        if self.kind == "STRING_2DARRAY":
            return 3
        if self.kind == "ARGUMENT_LIST":
            return 3
        if self.kind == "STRING_ARRAY":
            return 2
        if self.kind in POINTER_KINDS:
            return 1
        if self.array or self.out or data.get("pointer"):
            return 1
        return 0

    def spelled(self, base):
        """Type and name with `base` in place of the base type."""
        const = "const " if self.const and not self.out else ""
        if self.grid:
            return f"{base} (*{self.name})[{self.length[1]}]"
        stars = "*" * self.pointer
        return f"{const}{base}{stars} {self.name}"


class Function:
    """One C function in one of its two forms (plain or large count)."""

    def __init__(self, name, data, large, notes):
        self.stem = name
        self.large = large
        self.name = name + ("_c" if large else "")
        self.can_fail = data["return_kind"] in ("ERROR_CODE", "ERROR_CLASS")
        self.returns = "int" if self.can_fail else c_type(data["return_kind"], False, f"MPI_{name}")
        self.params = [
            Param(name, item, large, notes) for item in data["parameters"]
            if "c_parameter" not in item.get("suppress", "")
            and (large or not item.get("large_only")) and item["kind"] != "VARARGS"
            and not (item["name"] == "ierror" or item["kind"] == "NOTHING")
        ]
        if large:  # what the large form has and the plain one does not
            self.extra = any(item.get("large_only") for item in data["parameters"])
        self.alias = notes["alias"].get(name)
        self.cls = self._class(notes)
        self.lower = not self.alias and not matches(name, notes["not_lower"]["patterns"])

    def _class(self, notes):
        for cls in notes["order"]:
            if matches(self.stem, notes["class"][cls]):
                return cls
        raise SpecError("annotations.toml", f"class: no pattern matches MPI_{self.name}")

    def need(self, attribute, *values):
        """The first parameter with such a name or kind, which a function of this class has."""
        for param in self.params:
            if getattr(param, attribute) in values:
                return param
        raise SpecError("apis.json", f"MPI_{self.name}: as a {self.cls} function it needs a "
                        f"parameter with the {attribute} {' or '.join(values)}")

    def narrow(self):
        """Whether the large form can be answered by the plain one when its counts fit an int."""
        poly = [p for p in self.params if p.poly]
        return (self.large and not self.extra and poly
                and not any(p.kind == "POLYFUNCTION" for p in poly))

    def narrows_arrays(self):
        """Likewise, with arrays of counts or displacements: runtime/mpi/narrow.gen.h."""
        return self.narrow() and any(p.poly and p.array for p in self.params)

    def scope_slot(self):
        """The parameter whose error handler is asked when the call fails."""
        for param in self.params:
            if param.kind in ("COMMUNICATOR", "WINDOW", "FILE", "SESSION") and (
                    param.inout or not param.pointer):  # what it frees, too
                return param.name
        return None

    def is_collective(self):
        return any(p.kind == "COMMUNICATOR" for p in self.params) and (
            self.cls in ("collective", "icollective", "pcollective"))


def has_large(data):
    return any(p["kind"].startswith("POLY") for p in data["parameters"])


@functools.cache
def functions():
    """All C functions, in the order of the standard's index; the plain form before the large."""
    notes, data = load("annotations.toml"), load("apis.json")
    for kind, table in notes["kind_table"].items():
        found(notes["table"], table, "annotations.toml", f"kind_table.{kind}")
    result = []
    for entry in data.values():
        name = entry["name"].removeprefix("MPI_")
        if entry["callback"] or entry["predefined"] or not entry["c"]:
            continue
        result.append(Function(name, entry, False, notes))
        if has_large(entry):
            result.append(Function(name, entry, True, notes))
    known = {function.name for function in result}
    by_stem = {entry["name"].removeprefix("MPI_"): entry for entry in data.values()}
    for old, new in notes["alias"].items():
        if old not in known:
            entry = found(by_stem, new, "annotations.toml", f"alias.{old}")
            result.append(Function(old, entry, False, notes))
    return result


@functools.cache
def constants():
    """name -> (C type, canonical value): the standard's, and our own."""
    return {**load("abi_constants.json"), **load("annotations.toml")["own"]}


@functools.cache
def tables():
    """Conversion tables: name -> list of (constant without MPI_, canonical value)."""
    notes = load("annotations.toml")
    result = {}
    for table, patterns in notes["table"].items():
        if table == "mask":
            continue
        result[table] = [
            (name.removeprefix("MPI_"), value) for name, (ctype, value) in constants().items()
            if ctype == "int" and name != "MPI_ERR_LASTCODE"
            and matches(name.removeprefix("MPI_"), patterns)]
    return result, set(notes["table"]["mask"])


def predefined():
    """Predefined handles: kind -> list of (constant without MPI_, canonical number)."""
    result = {kind: [] for kind in HANDLE_KINDS.values()}
    for name, (ctype, value) in constants().items():
        kind = ctype.removeprefix("MPI_")
        if kind in result:
            result[kind].append((name.removeprefix("MPI_"), value))
    return result


def forget():
    """After a file has changed: read them all again."""
    for function in (load, constants, functions, tables):
        function.cache_clear()


def camel(name):
    """COMM_NULL -> kCommNull."""
    return "k" + "".join(part.capitalize() for part in name.split("_"))
