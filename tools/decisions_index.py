#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/decisions/README.md, the index of all decisions; --check compares instead.

Numbers, titles and gaps come from the records. The sentence of each row and the records that
changed it later are written by hand, in the index itself, and stay; a record without a row gets
the first sentence of its choice.
"""
import pathlib
import re
import sys

import markdown_lines

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/decisions"
HEAD = """\
# Decisions

Why things are as they are: one record for each mechanism that was decided, with its context, the
choice, what was rejected, and the consequences. A record stays when a later one changes a part of
it; the last column names that one. A new record takes the next free number and a row here:
`python3 tools/decisions_index.py` writes the row, the sentence in it is for people to mend.

Titles and sentences come from the records' own time; [the glossary](GLOSSARY) has the words.

| number | title | what was decided | changed by |
|---|---|---|---|
"""
GLOSSARIES = ("GLOSSARY.md", "glossary.md", "reference/glossary.md")  # in docs/
ROW = re.compile(r"^\| \[(\d{4})\]\([^)]*\) \| [^|]* \| (?P<what>[^|]*) \| (?P<by>[^|]*) \|$",
                 re.M)


def records():
    """number -> (file name, title, first sentence of the choice)."""
    found = {}
    for path in sorted(FOLDER.glob("[0-9][0-9][0-9][0-9]-*.md")):
        text = path.read_text()
        title = re.sub(r"^# \d+[.:]? ", "", text.split("\n")[0])
        choice = re.search(r"^\**Choice\.\**\s+(.*?)(?=\n\n|\Z)", text, re.S | re.M)
        words = re.sub(r"\s+", " ", choice[1]) if choice else ""
        first = re.split(r"(?<=[.:;]) ", words)[0].replace("|", "\\|")
        if path.name[:4] in found:
            sys.exit(f"{path.name}: {found[path.name[:4]][0]} has the same number")
        found[path.name[:4]] = path.name, title, first
    return found


def changed_by(number, by, found):
    """The cell that names later records, with their links as they are now."""
    numbers = re.findall(r"\[(\d{4})\]", by)
    for later in numbers:
        if later not in found or later <= number:
            sys.exit(f"docs/decisions/README.md: {number} cannot be changed by {later}")
    return ", ".join(f"[{later}]({found[later][0]})" for later in numbers)


def index(old, found):
    """What the index is to be, given what it is."""
    kept = {row[1]: row for row in ROW.finditer(old)}
    text = HEAD.replace("(GLOSSARY)", f"({glossary()})")
    for number, (name, title, first) in found.items():
        row = kept.get(number)
        what = row["what"] if row else first
        by = changed_by(number, row["by"], found) if row else ""
        text += f"| [{number}]({name}) | {title} | {what} | {by} |\n"
    gaps = [f"{n:04}" for n in range(1, int(max(found))) if f"{n:04}" not in found]
    if gaps:
        text += f"\nNo record has ever had these numbers: {', '.join(gaps)}.\n"
    return text


def glossary():
    for path in GLOSSARIES:
        if (ROOT / "docs" / path).exists():
            return "../" + path
    return sys.exit("decisions_index: there is no glossary")


def fill(text):
    """The last paragraph within 100 columns."""
    lines, _, paragraphs = markdown_lines.read(text)
    for paragraph in reversed(paragraphs):
        lines[paragraph.first:paragraph.end] = markdown_lines.filled(lines, paragraph, 100)
    return "\n".join(lines)


def main():
    page = FOLDER / "README.md"
    old = page.read_text() if page.exists() else ""
    new = fill(index(old, records()))
    if "--check" in sys.argv[1:]:
        if new != old:
            sys.exit("docs/decisions/README.md is stale: python3 tools/decisions_index.py")
        return
    page.write_text(new)
    print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
