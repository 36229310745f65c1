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
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from sources import ROOT, SourceError  # noqa: E402
from svg import PictureError  # noqa: E402

PICTURES = ("demo", "cost", "rank", "crossing", "checkpoint", "states", "hosts", "tree")


def main():
    check = "--check" in sys.argv[1:]
    texts = {f"docs/img/{name}.svg": importlib.import_module(name).draw() for name in PICTURES}
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
    try:
        sys.exit(main())
    except (PictureError, SourceError) as error:
        sys.exit(f"gen/pictures: {error}")
