#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which MPI functions do programs use? Writes spec/mpi/use.json from Debian packages.

usage: tools/mpi_use.py FILE.deb... > spec/mpi/use.json     (apt-get download PACKAGE...)

Looks at the undefined dynamic symbols of every ELF file, C and Fortran, and joins the packages of
one source package: a program and its libraries are one family. A program that includes Open MPI's
C++ header imports some 150 functions, whether it calls them or not.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SPEC = pathlib.Path(__file__).resolve().parents[1] / "spec/mpi"
REMOVED = """Address Errhandler_create Errhandler_get Errhandler_set Type_hindexed Type_hvector
Type_struct Attr_get Attr_put Attr_delete Keyval_create Keyval_free Type_extent Type_lb Type_ub"""


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, errors="replace",
                          check=False).stdout


def known_names():
    """Lower-case name -> the function's name without MPI_."""
    names = [entry["name"].removeprefix("MPI_")
             for entry in json.loads((SPEC / "apis.json").read_text()).values()]
    return {name.lower(): name for name in names + REMOVED.split()}


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def imports(path, known):
    """The MPI functions one ELF file imports, by their C, Fortran or profiling names."""
    for line in output("nm", "-D", "--undefined-only", str(path)).splitlines():
        symbol = line.split()[-1].split("@")[0].lower()
        match = re.fullmatch(r"p?mpi_(\w+?)(_f08(ts)?)?_?", symbol)
        if match and match[1] in known:
            yield known[match[1]]


def family(package):
    source = output("dpkg-deb", "-f", package, "Source").split(" ")[0].strip()
    return source or output("dpkg-deb", "-f", package, "Package").strip()


def main():
    known, used = known_names(), collections.defaultdict(set)
    for package in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
            for path in filter(is_elf, pathlib.Path(folder).rglob("*")):
                used[family(package)].update(imports(path, known))
    lines = [f'  "{name}": "{" ".join(sorted(used[name]))}"' for name in sorted(used) if used[name]]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
