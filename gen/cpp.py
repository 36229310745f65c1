# SPDX-License-Identifier: Apache-2.0
"""Breaks the long lines of generated C++, so that emitters need not think of them."""
COLUMNS = 100
DEEPEST = 60  # where a continued line may begin to stand under what is inside a bracket
# How far out a line is broken counts first, then at what: a smaller number is better.
SEPARATORS = {", ": 0, " && ": 1, " || ": 1, " ? ": 2, " : ": 2, " = ": 1000}
DEPTH = 10
BEGIN_A_LINE = (" ? ", " : ")


def _places(line, start, open_at):
    """(rank, position, the columns to stand under) of each place behind `start` where the line may
    be broken, outside of texts. `open_at`: the columns of brackets open where it begins."""
    open_at, quoted, at = list(open_at), False, start
    condition = line.startswith("if (", start) and not open_at
    while at < len(line):
        letter = line[at]
        if quoted:
            at += letter == "\\"
            quoted = letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "([{":
            open_at.append(at + 1)
        elif letter in ")]}" and open_at:
            open_at.pop()
            if condition and not open_at:  # what follows an if stands below it
                condition = False
                yield -1, at + 1, (start + 2,)
        separator = next((s for s in SEPARATORS if not quoted and line.startswith(s, at)), None)
        if separator and at > start:
            place = at + (1 if separator in BEGIN_A_LINE else len(separator))
            yield len(open_at) * DEPTH + SEPARATORS[separator], place, tuple(open_at)
        at += 1


def _broken(line, indent, open_at=()):
    """The line as lines that fit, each broken as far out as it can be, and as late as it can be."""
    start = len(line) - len(line.lstrip())
    if len(line) <= COLUMNS:
        return [line]
    places = [place for place in _places(line, start, open_at) if place[1] <= COLUMNS + 1]
    if places:
        best = min(rank for rank, _, _ in places)
        _, at, columns = max(place for place in places if place[0] == best)
    else:
        at, columns = line.rfind("(", start, COLUMNS) + 1, (indent + 4,)
    lead = columns[-1] if columns and columns[-1] <= DEEPEST else indent + 4
    rest = " " * lead + line[at:].lstrip()
    if at == 0 or len(rest) >= len(line):  # nothing makes it shorter
        return [line]
    if places and best == -1:
        return [line[:at].rstrip(), *_broken(rest, lead)]
    return [line[:at].rstrip(), *_broken(rest, indent, (*columns[:-1], lead) if columns else ())]


def fill(text):
    lines = []
    for line in text.split("\n"):
        keeps = line.lstrip().startswith(("#", "//"))
        lines += [line] if keeps else _broken(line, len(line) - len(line.lstrip()))
    return "\n".join(lines)
