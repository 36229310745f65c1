# SPDX-License-Identifier: Apache-2.0
"""What the generator makes of the files of spec/mpi: whatever they hold, it writes all its outputs,
or none and says which file is wrong.

An input's first line is a file's name. What follows is its contents, or, after `NAME edit`, lines
of JSON that change the project's own: [path, value], or [path] to remove what is there. The other
files are the project's, without most functions, so that thousands of inputs run in a minute.
"""
import contextlib
import io
import json
import pathlib
import random
import re
import shutil
import sys
import tempfile
import tomllib

import atheris

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "gen/mpi"), str(ROOT / "gen")]
sys.dont_write_bytecode = True

with atheris.instrument_imports():
    import api
    import coverage
    import emit_backend  # noqa: F401
    import emit_calls  # noqa: F401
    import emit_core  # noqa: F401
    import emit_fortran  # noqa: F401
    import emit_front  # noqa: F401
    import emit_tables  # noqa: F401
    import generate
    import outputs

FUNCTIONS = set("""Send Recv Sendrecv Waitall Testsome Test Get_count Pack Bcast Alltoallw
    Ialltoallw Ibcast Bcast_init Cart_create Comm_rank Comm_c2f Comm_get_name Comm_spawn
    Group_range_incl Info_get_nthkey File_open File_read_at File_read_all File_get_view Put
    Type_get_contents Type_create_darray Win_allocate Session_init T_init_thread Wtime Abort
    Get_version""".split())
KEPT = {"ompi": "MPIX_Bcast_init", "mpich": "MPIX_Comm_agree"}
JUNK = [None, True, 0, -1, 10 ** 30, 1.5, "", "*", "NOPE", "a b", "\n", "[", "int", [], ["*"], {},
        [[]], {"": 0}, "MPI_", "\u00e9", "MPI_MAX_OBJECT_NAME"]


def cut():
    """The project's files as values, with the chosen functions alone."""
    files = {}
    for path in sorted((ROOT / "spec/mpi").glob("*.[jt]*")):  # .json and .toml
        text = path.read_text()
        files[path.name] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    wanted = FUNCTIONS | set(files["annotations.toml"]["alias"].values())
    wanted = {f"MPI_{name}" for name in wanted}
    files["apis.json"] = {key: value for key, value in files["apis.json"].items()
                          if value["name"] in wanted}
    files["use.json"] = dict(list(files["use.json"].items())[:2])
    for front, extra in KEPT.items():
        functions = files[f"abi_{front}.json"]["functions"]
        functions[:] = [name for name in functions if name in wanted | {extra}]
    return files


def toml(value):
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{" + ", ".join(f"{json.dumps(key)} = {toml(v)}" for key, v in value.items()) + "}"


def text_of(name, value):
    if name.endswith(".json") or not isinstance(value, dict):
        return json.dumps(value)
    return "".join(f"{json.dumps(key)} = {toml(v)}\n" for key, v in value.items())


def edited(value, change):
    """`value` with one change; TypeError and the like if the change does not fit."""
    path, *new = change
    value = json.loads(json.dumps(value))
    if not path:
        return new[0]
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    if new:
        inner[path[-1]] = new[0]
    else:
        del inner[path[-1]]
    return value


class Target:
    def __init__(self, folder):
        self.files = cut()
        self.spec, self.out = folder / "spec/mpi", folder / "out"
        self.spec.mkdir(parents=True)
        for name, value in self.files.items():
            (self.spec / name).write_text(text_of(name, value))
        api.SPEC, outputs.ROOT, coverage.ROOT = self.spec, self.out, folder

    def contents(self, data):
        """The name and the bytes of the file an input stands for; None if for none."""
        head, _, body = data.partition(b"\n")
        name, _, how = head.decode("latin-1").partition(" ")
        if name not in self.files or how not in ("", "edit"):
            return None
        if not how:
            return name, body
        value = self.files[name]
        try:
            for line in body.splitlines():
                value = edited(value, json.loads(line))
            return name, text_of(name, value).encode()
        except (ValueError, LookupError, TypeError, RecursionError):
            return None

    def refusal(self):
        """Runs the generator. Returns what it says when it refuses."""
        said = io.StringIO()
        try:
            api.forget()
            with contextlib.redirect_stdout(said):
                outputs.write(generate.outputs())
        except SystemExit as ended:
            return str(ended)
        return None

    def run(self, data):
        changed = self.contents(data)
        if changed is None:
            return -1  # not to be kept
        name, text = changed
        path = self.spec / name
        good = path.read_bytes()
        path.write_bytes(text)
        shutil.rmtree(self.out, ignore_errors=True)
        message = self.refusal()
        path.write_bytes(good)
        written = self.out.exists() and any(self.out.rglob("*.*"))
        assert written == (message is None), f"written: {written}, said: {message}"
        assert message is None or re.match(r"spec/mpi/[\w.]+: .*\nhint: .*\Z", message), message
        return 0

    def mutate(self, data, max_size, seed):
        """One more change to the project's file, one in its place, or one of bytes."""
        dice = random.Random(seed)
        head, _, body = data.partition(b"\n")
        if dice.randrange(4) == 0 and self.contents(data):
            return head + b"\n" + atheris.Mutate(body, max(1, max_size - len(head) - 1))
        name = dice.choice(sorted(self.files))
        lines = []
        if head.endswith(b" edit") and dice.randrange(2):
            name, lines = head.decode("latin-1").split()[0], body.splitlines()[:3]
        if name not in self.files:
            return data
        change = self.change(dice, self.files[name])
        return b"\n".join([f"{name} edit".encode(), *lines, json.dumps(change).encode()])

    def change(self, dice, value):
        path = []
        while isinstance(value, (dict, list)) and value and dice.randrange(6):
            path.append(dice.choice(list(value) if isinstance(value, dict)
                                    else range(len(value))))
            value = value[path[-1]]
        if path and dice.randrange(5) == 0:
            return [path]
        if path and isinstance(path[-1], str) and dice.randrange(8) == 0:
            path[-1] += "x"  # a new key
        return [path, dice.choice(JUNK)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        target = Target(pathlib.Path(folder))
        atheris.Setup(sys.argv, target.run, custom_mutator=target.mutate)
        atheris.Fuzz()


main()
