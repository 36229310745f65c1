# SPDX-License-Identifier: Apache-2.0
"""What all generators have in common: their files are written, or only looked at."""
import argparse
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main(description, files):
    """Writes those of `files`, {name: text}, that are stale, or with --check says which these are.
    Returns the exit code."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say which files are stale")
    check = parser.parse_args().check
    stale = [name for name, text in files.items()
             if not (ROOT / name).exists() or (ROOT / name).read_text() != text]
    for name in stale:
        print(f"{'stale' if check else 'wrote'} {name}")
        if not check:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(files[name])
    return 1 if check and stale else 0
