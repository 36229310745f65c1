# SPDX-License-Identifier: Apache-2.0
"""A picture as SVG: boxes, lines, arrows and texts on a card, in light and in dark.

A picture is shown by forges, in pages of either colour, so it brings its own background, follows
prefers-color-scheme, and carries a title and a description for screen readers. Which font a reader
has is unknown, so every text counts as wide as a wide font (DejaVu Sans) would set it.

Invariant: no text of a picture overlaps another one or leaves the card; svg() raises otherwise.
"""
import math
from html import escape

SANS = "-apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
MONO_ADVANCE = 0.602  # of the size; all of these fonts agree within a hundredth

# kind -> (fill, line) in light, (fill, line) in dark. `ink` and `quiet` are colours of text.
COLOURS = {
    "card": ("#ffffff", "#d0d7de", "#0d1117", "#30363d"),
    "plain": ("#f6f8fa", "#818b98", "#161b22", "#656c76"),
    "upper": ("#ddf4ff", "#0969da", "#0c2a46", "#4493f8"),
    "lower": ("#fff1e5", "#bc4c00", "#3a1d08", "#e0883c"),
    "launcher": ("#f5ecff", "#8250df", "#271641", "#ab7df8"),
    "good": ("#dafbe1", "#1a7f37", "#0b2f17", "#3fb950"),
    "bad": ("#ffebe9", "#d1242f", "#3c1214", "#f85149"),
}
INK, QUIET = ("#1f2328", "#f0f6fc"), ("#59636e", "#9aa4af")

NARROW, SLIM, WIDE = set("ijlI.,:;'|!"), set("frt()[]/ -\""), set("mwMW@%→←")


class PictureError(Exception):
    """Something in a picture does not fit; names the picture and the text."""


def text_width(text, size, mono=False, bold=False):
    """An upper bound of the width of a text in pixels."""
    if mono:
        return len(text) * size * MONO_ADVANCE
    ems = 0.0
    for letter in text:
        if letter in NARROW:
            ems += 0.34
        elif letter in SLIM:
            ems += 0.41
        elif letter in WIDE:
            ems += 0.96
        else:
            ems += 0.74 if letter.isupper() else 0.62
    return ems * size * (1.1 if bold else 1.0)


def wrap(text, width, size, mono=False):
    """The text as lines that fit `width`."""
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and text_width(longer, size, mono) > width:
            lines.append(line)
            longer = word
        line = longer
    return lines + [line] if line else lines


def style():
    """Classes: `KIND` of a shape, `KIND-line` of a line, `KIND-text` of a text or an arrow head."""
    def rules(fill, line, ink, quiet):
        out = [f".ink {{ fill: {ink} }} .quiet {{ fill: {quiet} }} "
               f".ink-line {{ stroke: {ink} }} "
               f".cut-line {{ stroke: {COLOURS['card'][fill]} }}"]
        for kind, colours in COLOURS.items():
            out.append(f".{kind} {{ fill: {colours[fill]}; stroke: {colours[line]} }} "
                       f".{kind}-line {{ stroke: {colours[line]} }} "
                       f".{kind}-text {{ fill: {colours[line]} }}")
        return out
    out = [f"text {{ font-family: {SANS} }}", f".mono {{ font-family: {MONO} }}",
           ".bold { font-weight: 600 }", ".line { fill: none }"]
    out += rules(0, 1, INK[0], QUIET[0])
    out += ["@media (prefers-color-scheme: dark) {"]
    out += ["  " + rule for rule in rules(2, 3, INK[1], QUIET[1])]
    return out + ["}"]


def number(value):
    """Coordinates with at most one digit behind the point, so that outputs stay the same."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


class Picture:
    """What is drawn later lies above what was drawn before."""

    def __init__(self, title, description, width, height):
        self.title, self.description = title, description
        self.width, self.height = width, height
        self.parts = []
        self.texts = []  # (left, top, right, bottom, text)

    def box(self, x, y, width, height, kind="plain", radius=6):
        """A `kind` ending in -text is filled with the colour of its line."""
        self.parts.append(f'<rect class="{kind}" x="{number(x)}" y="{number(y)}" '
                          f'width="{number(width)}" height="{number(height)}" rx="{radius}"/>')

    def text(self, x, y, text, size=14, kind="ink", anchor="start", mono=False, bold=False):
        """`y` is the base line. Returns where the text ends."""
        width = text_width(text, size, mono, bold)
        left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
        self.texts.append((left, y - 0.76 * size, left + width, y + 0.22 * size, text))
        classes = " ".join([kind] + ["mono"] * mono + ["bold"] * bold)
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text class="{classes}" x="{number(x)}" y="{number(y)}" '
                          f'font-size="{number(size)}"{place}>{escape(text, quote=False)}</text>')
        return left + width

    def paragraph(self, x, y, text, width, size=13, leading=1.3, **how):
        """A text in lines of at most `width`. Returns the base line that would come next."""
        for line in wrap(text, width, size, how.get("mono", False)):
            self.text(x, y, line, size, **how)
            y += size * leading
        return y

    def line(self, points, kind="plain", dashed=False, thick=1.5):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        path = "M" + " L".join(f"{number(x)} {number(y)}" for x, y in points)
        self.parts.append(f'<path class="line {kind}-line" stroke-width="{number(thick)}" '
                          f'd="{path}"{dash}/>')

    def head(self, x, y, from_x, from_y, kind):
        """An arrow head with its tip at x, y."""
        angle = math.atan2(y - from_y, x - from_x)
        corners = [(x, y)] + [(x - 9 * math.cos(angle + turn), y - 9 * math.sin(angle + turn))
                              for turn in (0.42, -0.42)]
        points = " ".join(f"{number(a)},{number(b)}" for a, b in corners)
        self.parts.append(f'<polygon class="{kind}-text" points="{points}"/>')

    def arrow(self, points, kind="plain", dashed=False, both=False, thick=1.5):
        self.line(points, kind, dashed, thick)
        self.head(*points[-1], *points[-2], kind)
        if both:
            self.head(*points[0], *points[1], kind)

    def check(self):
        for index, (left, top, right, bottom, text) in enumerate(self.texts):
            if left < 4 or top < 4 or right > self.width - 4 or bottom > self.height - 4:
                raise PictureError(f"{self.title}: '{text}' leaves the picture")
            for other in self.texts[:index]:
                if (left < other[2] and other[0] < right and top < other[3] and other[1] < bottom):
                    raise PictureError(f"{self.title}: '{text}' overlaps '{other[4]}'")

    def svg(self, source):
        """`source`: what the picture is made of, for a reader of the file."""
        self.check()
        width, height = self.width, self.height
        out = ["<!-- SPDX-License-Identifier: Apache-2.0",
               f"     Generated by gen/pictures from {source}. Do not edit. -->",
               f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
               f'width="{width}" height="{height}" role="img" aria-labelledby="title desc">',
               f'<title id="title">{escape(self.title, quote=False)}</title>',
               f'<desc id="desc">{escape(self.description, quote=False)}</desc>',
               "<style>", *style(), "</style>",
               f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" '
               'rx="8"/>',
               *self.parts, "</svg>", ""]
        return "\n".join(out)
