#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes every generated file of the MPI layers. --check: only says which are stale (exit 1).

A file of spec/mpi that cannot be used ends this with a message (schema.py); nothing is written.
"""
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import cpp  # noqa: E402
from outputs import main  # noqa: E402

OUTPUTS = {
    "runtime/halves/handles.gen.h": ("emit_calls", "emit_handles", ()),
    "runtime/halves/mpi_calls.gen.h": ("emit_calls", "emit", ()),
    "runtime/mpi/core.gen.h": ("emit_core", "emit", ()),
    "runtime/mpi/handles/calls.gen.h": ("emit_core", "emit_calls", ()),
    "runtime/mpi/comms/nonblocking.gen.h": ("emit_core", "emit_nonblocking", ()),
    "runtime/mpi/narrow.gen.h": ("emit_core", "emit_narrow", ()),
    "runtime/backend/shim.gen.h": ("emit_backend", "emit", ()),
    "runtime/backend/names.gen.txt": ("emit_backend", "emit_names", ()),
    "runtime/frontend/ompi/tables.gen.h": ("emit_tables", "emit", ("ompi",)),
    "runtime/frontend/mpich/tables.gen.h": ("emit_tables", "emit", ("mpich",)),
    "runtime/frontend/wrappers.gen.h": ("emit_front", "emit", ()),
    "runtime/frontend/ompi/extensions.gen.h": ("emit_front", "emit_extensions", ("ompi",)),
    "runtime/frontend/mpich/extensions.gen.h": ("emit_front", "emit_extensions", ("mpich",)),
    "docs/reference/mpi-coverage.md": ("coverage", "emit", ()),
    "runtime/frontend/bindings/fortran/functions.gen.h": ("emit_fortran", "emit", ()),
}


def outputs():
    texts = {name: getattr(importlib.import_module(module), function)(*args)
             for name, (module, function, args) in OUTPUTS.items()}
    return {name: cpp.fill(text) if name.endswith(".h") else text for name, text in texts.items()}


if __name__ == "__main__":
    sys.exit(main(__doc__, outputs()))
