#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes every generated file of the MPI layers. --check: only says which are stale (exit 1).

A file of spec/mpi that cannot be used ends this with a message (schema.py); nothing is written.
"""
import importlib
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

OUTPUTS = {
    "runtime/halves/mpi_calls.gen.h": ("emit_calls", "emit", ()),
    "runtime/mpi/core.gen.h": ("emit_core", "emit", ()),
    "runtime/mpi/nonblocking.gen.h": ("emit_core", "emit_nonblocking", ()),
    "runtime/mpi/narrow.gen.h": ("emit_core", "emit_narrow", ()),
    "runtime/backend/shim.gen.h": ("emit_backend", "emit", ()),
    "runtime/backend/names.gen.txt": ("emit_backend", "emit_names", ()),
    "runtime/frontend/ompi/tables.gen.h": ("emit_tables", "emit", ("ompi",)),
    "runtime/frontend/mpich/tables.gen.h": ("emit_tables", "emit", ("mpich",)),
    "runtime/frontend/ompi/wrappers.gen.h": ("emit_front", "emit", ("ompi",)),
    "runtime/frontend/mpich/wrappers.gen.h": ("emit_front", "emit", ("mpich",)),
    "docs/reference/mpi-coverage.md": ("coverage", "emit", ()),
    "runtime/frontend/ompi_fortran/functions.gen.h": ("emit_fortran", "emit", ()),
}


def main():
    check = "--check" in sys.argv[1:]
    texts = {name: getattr(importlib.import_module(module), function)(*args)
             for name, (module, function, args) in OUTPUTS.items()}
    stale = []
    for name, text in texts.items():
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    print("\n".join(f"{'stale' if check else 'wrote'} {name}" for name in stale) or "all fresh")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
