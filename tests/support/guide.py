# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/guide, as one shell script that stops at the first line that does not do
what the guide says. A fence marked `sh` holds commands that work, one marked `sh refused` commands
that end with an error; other fences are not commands.
"""
import re

from support.mpis import ROOT

GUIDE = ROOT / "docs/guide"


def chapters():
    return [GUIDE / "README.md", *sorted(GUIDE.glob("[0-9]*.md"))]


def _whole_commands(lines):
    """Joins what belongs together: here-documents and lines that end with a backslash. Yields
    (index of the first line, text)."""
    index = 0
    while index < len(lines):
        first, until = index, None
        here = re.search(r"<<-?\s*'?(\w+)'?", lines[index])
        if here:
            until = lines.index(here[1], index)
        while until is None and lines[index].endswith("\\"):
            index += 1
        index = (until or index) + 1
        yield first, "\n".join(lines[first:index])


def commands():
    """(file:line, command, works) for every command of the guide, in order."""
    for chapter in chapters():
        text = chapter.read_text()
        for fence in re.finditer(r"^```sh( refused)?\n(.*?)^```$", text, re.M | re.S):
            line = text.count("\n", 0, fence.start(2)) + 1
            for offset, command in _whole_commands(fence[2].rstrip("\n").split("\n")):
                yield f"{chapter.name}:{line + offset}", command, fence[1] is None


def script(selected):
    """A bash script: each command in the same shell, before it its place and the seconds so far."""
    parts = ["# Commands of docs/guide, in order."]
    for where, command, works in selected:
        wrong = "-ne 0" if works else "-eq 0"
        parts.append(f"printf '\\n##### {where} after %s s\\n' $SECONDS\n"
                     f"{{\n{command}\n}}\ncode=$?\n"
                     f"[ $code {wrong} ] && {{ echo 'GUIDE: {where} ended with' $code; exit 9; }}")
    return "\n".join(parts) + "\necho 'GUIDE: every line works'\n"


if __name__ == "__main__":
    print(script(commands()))
