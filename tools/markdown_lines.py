# SPDX-License-Identifier: Apache-2.0
"""The little of Markdown that the tools of this folder need: what kind each line is of, which lines
are one paragraph, how a paragraph is filled, where links lead, and what headings are called.

It reads what this repository writes (CommonMark with tables) and leaves alone what it is not sure
of: a line of a kind other than TEXT is never changed.
"""
import dataclasses
import re

BLANK, CODE, TABLE, HEADING, HTML, QUOTE, RULE, DEFINITION, TEXT = (
    "blank", "code", "table", "heading", "html", "quote", "rule", "definition", "text")

FENCE = re.compile(r"\s*(`{3,}|~{3,})")
ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])(\s{1,4})(?=\S)")
# The first match is the kind of a line, unless the line belongs to code or to a paragraph before.
KINDS = ((BLANK, re.compile(r"\s*$")), (TABLE, re.compile(r"\s*\|")),
         (HEADING, re.compile(r"\s{0,3}#{1,6}(\s|$)")),
         (RULE, re.compile(r"\s{0,3}([-*_=])(\s*\1){2,}\s*$")), (QUOTE, re.compile(r"\s{0,3}>")),
         (HTML, re.compile(r"\s{0,3}<(!--|/?[A-Za-z][\w-]*(?=[\s>/]|$))")),
         (DEFINITION, re.compile(r"\s{0,3}\[[^\]]+\]:\s")))
# What a line of a paragraph must not begin with: it would begin something else.
BEGINS_SOMETHING = re.compile(r"([-+*]|\d{1,9}[.)])$|[>#|=~<]|`{3}|-{2,}$|\[[^\]]*\]:$")
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"!?\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\(\s*<?(?P<to>[^)\s>]*)>?[^)]*\)")
DEFINED = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?(?P<to>[^\s>]+)", re.M)
ATTRIBUTE = re.compile(r"<[a-z]+\s[^>]*?\b(?:href|src|srcset)=\"(?P<to>[^\"]*)\"", re.I)
NAMED = re.compile(r"<[a-z]+\s[^>]*?\b(?:id|name)=\"([^\"]*)\"", re.I)


@dataclasses.dataclass
class Paragraph:
    first: int  # index of its first line
    end: int  # index of the line behind its last one
    lead: str  # what stands before its first word: blanks, and the mark of a list's item
    hang: str  # blanks before each further line


class _Reader:
    """Goes through the lines once; kinds[i] and paragraphs are the result."""

    def __init__(self, lines):
        self.lines, self.kinds, self.paragraphs = lines, [], []
        self.fence = ""  # what ends the fenced code that is open
        self.inside = []  # where the text of each open list's item begins, outermost first
        self.html = False  # in an HTML block, which a blank line ends

    def read(self):
        for index, line in enumerate(self.lines):
            self.kinds.append(self.kind(index, line))
        return self

    def kind(self, index, line):
        if self.fence:
            if line.strip().startswith(self.fence) and not line.strip().strip(self.fence[0]):
                self.fence = ""
            return CODE
        if not line.strip():
            self.html = False
            return BLANK
        continues = bool(self.kinds) and self.kinds[-1] == TEXT
        depth = len(line) - len(line.lstrip())
        if not continues:
            self.leave_items(line, depth)
            if depth >= (self.inside[-1] if self.inside else 0) + 4:
                return CODE
        opening = FENCE.match(line)
        if opening:
            self.fence = opening[1]
            return CODE
        if self.html:
            return HTML
        return self.kind_of_text(index, line, depth, continues)

    def leave_items(self, line, depth):
        while self.inside and depth < self.inside[-1]:
            self.inside.pop()

    def kind_of_text(self, index, line, depth, continues):
        item = ITEM.match(line)
        for kind, pattern in KINDS:
            if pattern.match(line[min(depth, self.inside[-1]) if self.inside else 0:]):
                self.html = kind == HTML
                return kind
        if item and not (continues and not self.inside and item[2] not in "-*+1.1)"):
            while self.inside and len(item[1]) < self.inside[-1]:
                self.inside.pop()
            self.inside.append(item.end())
            self.paragraphs.append(Paragraph(index, index + 1, item[0], " " * item.end()))
        elif continues:
            self.paragraphs[-1].end = index + 1
        else:
            self.paragraphs.append(Paragraph(index, index + 1, line[:depth], " " * depth))
        return TEXT


def read(text):
    """(the lines, the kind of each, the paragraphs)."""
    reader = _Reader(text.split("\n")).read()
    return reader.lines, reader.kinds, reader.paragraphs


def words(text):
    """What a paragraph is broken between. A span of code stays whole, a word that would begin
    something else at the beginning of a line stays behind the one before it."""
    held = CODE_SPAN.sub(lambda span: re.sub(r"\s+", "\0", span[0]), text)
    found = []
    for word in held.split():
        if found and BEGINS_SOMETHING.match(word):
            found[-1] += " " + word
        else:
            found.append(word)
    return [word.replace("\0", " ") for word in found]


def filled(lines, paragraph, columns):
    """The lines of the paragraph, none longer than `columns` unless it is a single word. A
    paragraph with hard line breaks stays as it is."""
    old = lines[paragraph.first:paragraph.end]
    if any(re.search(r"(  |\\)$", line) for line in old[:-1]):
        return old
    text = "\n".join([old[0][len(paragraph.lead):], *old[1:]])
    new, line = [], paragraph.lead
    empty = True
    for word in words(text):
        if not empty and len(line) + 1 + len(word) > columns:
            new.append(line)
            line, empty = paragraph.hang, True
        line += word if empty else " " + word
        empty = False
    return [*new, line]


def without_code(text):
    """The text with code made blank, so that nothing in it is taken for a link; all else stays
    where it is."""
    lines, kinds, _ = read(text)
    shown = "\n".join(" " * len(line) if kind == CODE else line
                      for line, kind in zip(lines, kinds, strict=True))
    return CODE_SPAN.sub(lambda span: re.sub(r"[^\n]", " ", span[0]), shown)


def links(text):
    """(line number, where it leads) of each link, image and definition."""
    shown = without_code(text)
    for pattern in (LINK, DEFINED, ATTRIBUTE):
        for match in pattern.finditer(shown):
            yield shown.count("\n", 0, match.start("to")) + 1, match["to"]


def anchors(text):
    """The names by which links reach a part of the page: of headings as forges make them."""
    lines, kinds, _ = read(text)
    names, seen = set(NAMED.findall(text)), {}
    for line, kind in zip(lines, kinds, strict=True):
        if kind == HEADING:
            title = LINK.sub(r"\g<text>", line.lstrip(" #").rstrip(" #"))
            name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            names.add(f"{name}-{seen[name]}" if name in seen else name)
            seen[name] = seen.get(name, 0) + 1
    return names
