# SPDX-License-Identifier: Apache-2.0
"""What all generators have in common: their files are written, or only looked at."""
import argparse
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def write(files, check=False):
    """Writes those of `files`, {name: text}, that are stale, or only looks. Returns their names."""
    stale = [name for name, text in files.items()
             if not (ROOT / name).exists() or (ROOT / name).read_text() != text]
    for name in [] if check else stale:
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(files[name])
    return stale


def main(description, files):
    """A generator's command; with --check it says what is stale. Returns the exit code."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say which files are stale")
    check = parser.parse_args().check
    stale = write(files, check)
    print("\n".join(f"{'stale' if check else 'wrote'} {name}" for name in stale) or "all fresh")
    return 1 if check and stale else 0
