#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/img from the sources. --check: only says which pictures are stale (exit 1).

Each module draws one picture: `draw()` returns the SVG as text. What a picture shows comes from the
files that its module names, so a change there makes the picture stale, and a source that no longer
has what is drawn ends this with a message.
"""
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True

from outputs import main  # noqa: E402
from sources import SourceError  # noqa: E402
from svg import PictureError  # noqa: E402

PICTURES = ("demo", "cost", "rank", "crossing", "checkpoint", "states", "hosts", "tree", "layouts")


def outputs():
    return {f"docs/img/{name}.svg": importlib.import_module(name).draw() for name in PICTURES}


if __name__ == "__main__":
    try:
        sys.exit(main(__doc__, outputs()))
    except (PictureError, SourceError) as error:
        sys.exit(f"gen/pictures: {error}")
