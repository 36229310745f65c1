# SPDX-License-Identifier: Apache-2.0
"""The MPI API as the emitters need it.

Problem: the Forum's data describes parameters by kind; each of our three layers (application ABI,
canonical form, native form) spells a kind differently, and some kinds change value between ABIs.
Idea: every parameter gets one *category* here, and an emitter is a table from category to code.
Invariant: a parameter nobody has a category for stops the generator; nothing passes by accident.
"""
import fnmatch
import json
import pathlib
import tomllib

SPEC = pathlib.Path(__file__).resolve().parents[2] / "spec" / "mpi"

HANDLE_KINDS = {
    "COMMUNICATOR": "Comm", "DATATYPE": "Datatype", "REQUEST": "Request", "OPERATION": "Op",
    "GROUP": "Group", "INFO": "Info", "WINDOW": "Win", "FILE": "File",
    "ERRHANDLER": "Errhandler", "SESSION": "Session", "MESSAGE": "Message",
}
VOID_POINTERS = {
    "BUFFER", "C_BUFFER", "C_BUFFER2", "EXTRA_STATE", "EXTRA_STATE2", "ATTRIBUTE_VAL",
    "ATTRIBUTE_VAL_10", "FUNCTION", "POLYFUNCTION", "TOOL_MPI_OBJ", "EVENT_CB_FUNCTION",
    "EVENT_FREE_CB_FUNCTION", "EVENT_DROP_CB_FUNCTION", "LOGICAL_VOID",
}
POINTER_KINDS = VOID_POINTERS | {"STRING", "STATUS", "STRING_ARRAY", "F08_STATUS", "F90_STATUS"}
WORDS = {"MPI_Aint": "i64", "MPI_Offset": "i64", "MPI_Count": "i64", "MPI_Fint": "int"}


def load(name):
    path = SPEC / name
    if path.suffix == ".toml":
        return tomllib.loads(path.read_text())
    return json.loads(path.read_text())


class Param:
    """One C parameter: its category and its type in canonical spelling."""

    def __init__(self, function, data, large, notes, kinds):
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
        self.base = self._base(kinds, large)
        self.category = self._category()
        self.pointer = self._pointer(data)

    def _base(self, kinds, large):
        if self.kind in VOID_POINTERS:
            return "void"
        if self.kind in HANDLE_KINDS:
            return "handle"
        text = kinds[self.kind][1 if large else 0]
        text = WORDS.get(text, text)
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

    def __init__(self, name, data, large, notes, kinds):
        self.stem = name
        self.large = large
        self.name = name + ("_c" if large else "")
        self.returns = WORDS.get(kinds[data["return_kind"]][0], kinds[data["return_kind"]][0])
        self.can_fail = data["return_kind"] in ("ERROR_CODE", "ERROR_CLASS")
        if self.can_fail:
            self.returns = "int"
        self.params = [
            Param(name, item, large, notes, kinds) for item in data["parameters"]
            if "c_parameter" not in item.get("suppress", "")
            and (large or not item.get("large_only")) and item["kind"] != "VARARGS"
            and not (item["name"] == "ierror" or item["kind"] == "NOTHING")
        ]
        if large:  # what the large form has and the plain one does not
            self.extra = any(item.get("large_only") for item in data["parameters"])
        self.alias = notes["alias"].get(name)
        self.cls = self._class(notes)
        self.lower = not self.alias and not any(
            fnmatch.fnmatchcase(name, pattern) for pattern in notes["not_lower"]["patterns"])

    def _class(self, notes):
        for cls in notes["order"]:
            patterns = notes["class"][cls]
            if any(fnmatch.fnmatchcase(self.stem, pattern) for pattern in patterns):
                return cls
        raise SystemExit(f"no class for MPI_{self.name}")

    def narrow(self):
        """Whether the large form can be answered by the plain one when its counts fit an int."""
        poly = [p for p in self.params if p.poly]
        return (self.large and not self.extra and poly
                and not any(p.array or p.kind == "POLYFUNCTION" for p in poly))

    def scope_slot(self):
        """The parameter whose error handler is asked when the call fails."""
        for param in self.params:
            if param.kind in ("COMMUNICATOR", "WINDOW", "FILE") and not param.pointer:
                return param.name
        return None

    def is_collective(self):
        return any(p.kind == "COMMUNICATOR" for p in self.params) and (
            self.cls in ("collective", "icollective", "pcollective"))


def has_large(data):
    return any(p["kind"].startswith("POLY") for p in data["parameters"])


def functions():
    """All C functions, in the order of the standard's index; the plain form before the large."""
    notes, kinds, data = load("annotations.toml"), load("kinds.json"), load("apis.json")
    result = []
    for entry in data.values():
        name = entry["name"].removeprefix("MPI_")
        if entry["callback"] or entry["predefined"] or not entry["c"]:
            continue
        result.append(Function(name, entry, False, notes, kinds))
        if has_large(entry):
            result.append(Function(name, entry, True, notes, kinds))
    known = {function.name for function in result}
    by_stem = {entry["name"].removeprefix("MPI_"): entry for entry in data.values()}
    for old, new in notes["alias"].items():
        if old not in known:
            result.append(Function(old, by_stem[new], False, notes, kinds))
    return result


def tables():
    """Conversion tables: name -> list of (constant without MPI_, canonical value)."""
    notes, constants = load("annotations.toml"), load("abi_constants.json")
    result = {}
    for table, patterns in notes["table"].items():
        if table == "mask":
            continue
        result[table] = [
            (name.removeprefix("MPI_"), value) for name, (ctype, value) in constants.items()
            if ctype == "int" and name != "MPI_ERR_LASTCODE"
            and any(fnmatch.fnmatchcase(name.removeprefix("MPI_"), p) for p in patterns)]
    return result, set(notes["table"]["mask"])


def predefined():
    """Predefined handles: kind -> list of (constant without MPI_, canonical number)."""
    result = {kind: [] for kind in HANDLE_KINDS.values()}
    for name, (ctype, value) in load("abi_constants.json").items():
        kind = ctype.removeprefix("MPI_")
        if kind in result:
            result[kind].append((name.removeprefix("MPI_"), value))
    return result


def camel(name):
    """COMM_NULL -> kCommNull."""
    return "k" + "".join(part.capitalize() for part in name.split("_"))
