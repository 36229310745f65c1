#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The code tours, docs/tour/*.md: each stop names a place as [path:line](link#Lline) and quotes, in
the block of code behind it, what stands there.

    tools/tours.py           numbers lines again where the quoted text has moved, and finds the file
                             again if only one has the text now
    tools/tours.py --check   changes nothing; fails if a quote is not at, or near, its line

A quote of several lines stands in the file line for line; blanks at the beginning do not matter.
"""
import os
import pathlib
import re
import sys

from tidy import tracked_files

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOURS = ROOT / "docs/tour"
NEAR = 60  # lines by which a quote may have moved before the tour is stale
STOP = re.compile(r"\[(?P<path>[\w./-]+):(?P<line>\d+)\]\((?P<link>[^)]*)\)(?P<after>[^\n]*)\n\n"
                  r"```\w*\n(?P<quote>.*?)\n```", re.S)
PLACE = re.compile(r"\[[\w./-]+:\d+\]\(")


def lines_of(path):
    return [line.strip() for line in path.read_text().split("\n")]


def places(lines, quote):
    """Numbers of the lines at which the quote begins."""
    return [number + 1 for number in range(len(lines) - len(quote) + 1)
            if lines[number:number + len(quote)] == quote]


def file_of(root, path, quote):
    """Where the quote stands now: this path, else the one file of the same kind that has it."""
    wanted = [text.strip() for text in quote.split("\n")]
    if (root / path).is_file() and places(lines_of(root / path), wanted):
        return path
    like = [other for other in tracked_files() if other.endswith(pathlib.PurePath(path).suffix)
            and places(lines_of(root / other), wanted)]
    return like[0] if len(like) == 1 else path


def place_of(root, path, line, quote):
    """(the nearest line that the quote stands at, what is wrong with the stop or "")."""
    file = root / path
    if not file.is_file():
        return line, f"there is no {path}"
    found = places(lines_of(file), [text.strip() for text in quote.split("\n")])
    if not found:
        return line, f"{path} does not have: {quote.strip()}"
    nearest = min(found, key=lambda number: abs(number - line))
    if line == 0 and len(found) > 1:
        return nearest, f"{path} has this {len(found)} times, name a line near it: {quote.strip()}"
    if line and abs(nearest - line) > NEAR:
        return nearest, f"{path}:{line} is now line {nearest}"
    return nearest, ""


def moved(root, text):
    """The page with the paths of files that have been moved; their lines are to be found."""
    for stop in reversed(list(STOP.finditer(text))):
        path = file_of(root, stop["path"], stop["quote"])
        if path != stop["path"]:
            text = text[:stop.start("path")] + f"{path}:0" + text[stop.end("line"):]
    return text


def renumbered(root, page, text):
    """(the page with the lines that hold now, [what is wrong as it was])."""
    wrong = []
    stops = list(STOP.finditer(text))
    if len(stops) != len(PLACE.findall(text)):
        wrong.append(f"{page.name}: a place has no block of code behind it")
    for stop in reversed(stops):
        line, problem = place_of(root, stop["path"], int(stop["line"]), stop["quote"])
        if problem or not int(stop["line"]):
            wrong.append(f"{page.name}: {problem or 'a stop has no line yet'}")
        link = f"{os.path.relpath(root / stop['path'], page.parent)}#L{line}"
        head = f"[{stop['path']}:{line}]({link})"
        text = text[:stop.start()] + head + text[stop.end("link") + 1:]
    return text, wrong


def main():
    checks = "--check" in sys.argv[1:]
    left = []
    for page in sorted(TOURS.glob("*.md")):
        old = page.read_text()
        new, wrong = renumbered(ROOT, page, old if checks else moved(ROOT, old))
        if not checks and new != old:
            page.write_text(new)
            print(f"numbered {page.relative_to(ROOT)} again")
            wrong = renumbered(ROOT, page, new)[1]
        left += wrong
    if left:
        print("\n".join(left))
        sys.exit("tours: run tools/tours.py; what it cannot find has to be told anew")
    print("tours: clean")


if __name__ == "__main__":
    main()
