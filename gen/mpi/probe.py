#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks an installed MPI for the values of the constants we translate; freezes them under spec/mpi.

Usage: probe.py MPICC LIBRARY OUTPUT.json
Run by hand when a front end's ABI is added, not by the build.

A constant may be a macro, an enumerator or absent, so the preprocessor cannot tell: a first compile
of all names lists the undeclared ones by its error messages, the second prints the values of the
rest. Handles print as integers when they are integers, else as the name of the object they address.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import api  # noqa: E402

FLAGS = ["-x", "c++", "-std=c++17", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", "-fmax-errors=0"]
# With a type that MPICH names beyond the standard.
HEADER = ("#include <mpi.h>\n#ifdef MPIX_C_FLOAT16\n"
          "#define MPI_C_FLOAT16 MPIX_C_FLOAT16\n#endif\n")


def compile_with(mpicc, text, output=None):
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(text)
        source.flush()
        action = ["-o", output] if output else ["-fsyntax-only"]
        command = [mpicc, *FLAGS, source.name, *action, "-Wl,--no-as-needed", "-rdynamic"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def present(mpicc, names):
    lines = "".join(f"  (void)MPI_{name};\n" for name in names)
    result = compile_with(mpicc, HEADER + "void f() {\n" + lines + "}\n")
    missing = set(re.findall(r"MPI_(\w+)\W+ was not declared", result.stderr))
    return [name for name in names if name not in missing]


def values(mpicc, ints, handles):
    body = "".join(f'  printf("I {name} %lld\\n", (long long)MPI_{name});\n' for name in ints)
    for kind, names in handles.items():
        for name in names:
            body += f'  show("{kind} {name}", (long long)MPI_{name});\n'
        if kind == "Session":
            continue
        for name in names:
            integer = f"(int)MPI_{api_c2f(kind)}_c2f(MPI_{name})"
            body += f'  printf("F {kind} {name} %d\\n", {integer});\n'
    text = (HEADER + "#include <dlfcn.h>\n#include <stdio.h>\n"
            "static void show(const char* what, long long value) {\n"
            "  Dl_info info;\n"
            "  if (value > 0x100000000 && dladdr((void*)value, &info) && info.dli_sname)\n"
            '    printf("H %s %s\\n", what, info.dli_sname);\n'
            '  else printf("H %s %lld\\n", what, value);\n}\n'
            "int main() {\n  MPI_Init(nullptr, nullptr);\n" + body + "  MPI_Finalize();\n}\n")
    with tempfile.TemporaryDirectory() as folder:
        program = folder + "/probe"
        result = compile_with(mpicc, text, program)
        if result.returncode:
            raise SystemExit(result.stderr)
        return subprocess.run([program], capture_output=True, text=True, timeout=60,
                              check=True).stdout


def api_c2f(kind):
    return {"Datatype": "Type"}.get(kind, kind)


def exported(library):
    """What programs may import from the library: functions by name, objects with their size."""
    functions, objects = [], {}
    listing = subprocess.run(["nm", "-D", "-S", "--defined-only", library], capture_output=True,
                             text=True, check=True).stdout
    for line in listing.splitlines():
        _, size, kind, name = (line.split() + [""])[:4]
        if kind in "WT" and name.startswith(("MPI_", "MPIX_")):
            functions.append(name)
        if kind in "BD" and re.match(r"ompi_(mpi|request|message)_.*(?<!_addr)$", name):
            objects[name] = int(size, 16)
    return {"functions": functions, "objects": objects}


def main():
    mpicc, library, output = sys.argv[1:4]
    constants = api.load("abi_constants.json")
    ints = [n.removeprefix("MPI_") for n, (t, _) in constants.items() if t in ("int", "void*")]
    handles = {kind: [n for n, _ in entries] for kind, entries in api.predefined().items()}
    ints = present(mpicc, [n for n in ints if not n.startswith(("ABI_", "F_"))])
    handles = {kind: present(mpicc, names) for kind, names in handles.items()}
    result = {"constants": {}, "handles": {}, "fortran": {}}
    for line in values(mpicc, ints, handles).splitlines():
        tag, *rest = line.split()
        if tag == "I":
            result["constants"][rest[0]] = int(rest[1])
        elif tag == "H":
            value = int(rest[2]) if re.fullmatch(r"-?\d+", rest[2]) else rest[2]
            result["handles"].setdefault(rest[0], {})[rest[1]] = value
        elif tag == "F":
            result["fortran"].setdefault(rest[0], {})[rest[1]] = int(rest[2])
    result.update(exported(library))
    pathlib.Path(output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
