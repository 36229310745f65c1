#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house rules for Markdown: ./x lint runs them. Prints every breach as file:line: text; exit
code 1.

    columns   100 columns; tables, code, HTML and what is one word (a link) may be longer
    links     a relative link leads to a file or folder of the repository, a #part to a heading
    mentions  a page that any file names as docs/...md is there

tools/tidy_markdown.py --write fills the paragraphs that have a line too long, with --all every
paragraph; nothing but the places where lines end is changed.
"""
import argparse
import pathlib
import posixpath
import re
import sys
import urllib.parse

import markdown_lines as markdown
from tidy import MAX_COLUMNS, ROOT, tracked_files

MENTION = re.compile(r"(?<![\w/.-])(?:\.\./)*(docs/[\w./-]*\w\.md)\b")
SAID_OF_OTHERS = "tests/fuzz/findings/"  # inputs, not text
# A page's path in a test's invented tree is no mention.
INVENTED = {"tests/suites/project/lint.py"}


def long_lines(text):
    """(line number, what is wrong) of each line that is too long and could be broken."""
    lines, kinds, paragraphs = markdown.read(text)
    whole = {}
    for paragraph in paragraphs:
        for number, line in enumerate(lines[paragraph.first:paragraph.end], paragraph.first):
            lead = paragraph.lead if number == paragraph.first else ""
            whole[number] = len(markdown.words(line[len(lead):])) == 1
    for number, (line, kind) in enumerate(zip(lines, kinds, strict=True)):
        may_be_long = kind in (markdown.CODE, markdown.TABLE, markdown.HTML, markdown.DEFINITION)
        if len(line) > MAX_COLUMNS and not may_be_long and not whole.get(number):
            yield number + 1, f"{len(line)} columns"


def wrong_links(path, text, pages, places):
    """(line number, what is wrong). pages: path -> text of every page; places: every tracked file
    and folder."""
    for number, to in markdown.links(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", to, re.I):
            continue
        target, _, part = urllib.parse.unquote(to).partition("#")
        if target.startswith("/"):
            yield number, f"{to}: a path from the root leads nowhere in a clone"
            continue
        there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target \
            else path
        if there not in places:
            yield number, f"{to}: there is no {there}"
        elif part and there in pages and part not in markdown.anchors(pages[there]):
            yield number, f"{to}: {there} has no part #{part}"


def wrong_mentions(text, places):
    """(line number, what is wrong) of each page that is named and is not there."""
    for match in MENTION.finditer(text):
        if match[1] not in places:
            yield text.count("\n", 0, match.start()) + 1, f"there is no {match[1]}"


def refill(text, everything):
    """The page with its paragraphs filled."""
    lines, _, paragraphs = markdown.read(text)
    for paragraph in reversed(paragraphs):
        old = lines[paragraph.first:paragraph.end]
        if everything or any(len(line) > MAX_COLUMNS for line in old):
            lines[paragraph.first:paragraph.end] = markdown.filled(lines, paragraph, MAX_COLUMNS)
    return "\n".join(lines)


def texts():
    """(path -> text of everything that can be read as text, all files and folders)."""
    files = tracked_files()
    places = {"."} | {str(parent) for path in files for parent in pathlib.PurePath(path).parents}
    read = {}
    for path in files:
        if not path.startswith(SAID_OF_OTHERS):
            try:
                read[path] = (ROOT / path).read_text()
            except UnicodeDecodeError:
                continue
    return read, places | set(files)


def breaches():
    read, places = texts()
    pages = {path: text for path, text in read.items() if path.endswith(".md")}
    for path, text in read.items():
        found = []
        if path not in INVENTED:
            found = [("mentions", *it) for it in wrong_mentions(text, places)]
        if path in pages:
            found += [("columns", *it) for it in long_lines(text)]
            found += [("links", *it) for it in wrong_links(path, text, pages, places)]
        for rule, number, what in sorted(found, key=lambda it: it[1]):
            yield f"{path}:{number}: {rule}: {what}"


def write(everything):
    for path in tracked_files():
        if path.endswith(".md"):
            old = (ROOT / path).read_text()
            new = refill(old, everything)
            if new != old:
                (ROOT / path).write_text(new)
                print(f"filled {path}")


def main():
    parser = argparse.ArgumentParser(description="The house rules for Markdown.")
    parser.add_argument("--write", action="store_true", help="fill paragraphs with long lines")
    parser.add_argument("--all", action="store_true", help="with --write: every paragraph")
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments.all)
    found = list(breaches())
    for line in found:
        print(line)
    print(f"tidy_markdown: {len(found)} breaches" if found else "tidy_markdown: clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
