# SPDX-License-Identifier: Apache-2.0
"""rank.svg: the address space of a rank, from runtime/halves/layout.h."""
import sources
from sources import address
from svg import Picture

WINDOWS = [  # first and last constant, kind, height, title, what is in it
    ("kUpperBase", "kUpperEnd", "upper", 306, "upper half",
     ["the application", "its libraries", "our front end", "", "SAVED", "thread register FS"]),
    ("kLauncherBase", "kLauncherEnd", "launcher", 88, "launcher",
     ["loads the other two, owns", "the system call boundary"]),
    ("kLowerBase", "kLowerEnd", "lower", 122, "lower half",
     ["back end, the real MPI,", "the agent's thread", "NEVER SAVED", "thread register GS"]),
]
PLACES = {  # what the upper half must find again, at a fixed place
    "kUpperVdso": "our vdso, with its jump table",
    "kCrossing": "what both halves share",
    "kClocks": "collective clocks",
    "kMailbox": "from the agent to the rank",
    "kSlots": "handle slots, by kind",
    "kMpiArena": "the front end's allocator",
    "kUpperHeap": "the heap (brk)",
    "kUpperLoader": "its ld.so",
    "kUpperProgram": "the application (PIE)",
    "kUpperMmap": "whatever it maps",
    "kUpperStackEnd": "end of the main stack",
}
GAP, LEFT, WIDTH, TOP = 26, 150, 196, 92


def draw():
    constants = sources.layout()
    for name in PLACES:
        if name not in constants:
            raise sources.SourceError(f"runtime/halves/layout.h has no {name}: rank.py draws it")
    picture = Picture(
        "The address space of a rank",
        "Three programs share one address space: the upper half, which is saved, the launcher, and "
        "the lower half with the real MPI, which never is. Addresses are those of layout.h.",
        800, 710)
    picture.text(24, 38, "One process, three programs", 20, bold=True)
    picture.text(24, 62, "A restart loads a fresh lower half, of any MPI, and maps the upper half "
                 "back from the image.", 13, "quiet")
    y = TOP
    for first, last, kind, height, title, inside in WINDOWS:
        picture.box(LEFT, y, WIDTH, height, kind)
        picture.text(LEFT - 8, y + 12, address(constants[first]), 12, "quiet", "end", mono=True)
        picture.text(LEFT - 8, y + height - 2, address(constants[last]), 12, "quiet", "end",
                     mono=True)
        middle, line = LEFT + WIDTH / 2, y + 30 + (height - 44 - 19 * len(inside)) / 2
        picture.text(middle, line, title, 17, f"{kind}-text", "middle", bold=True)
        for row, text in enumerate(inside):
            if text:
                picture.text(middle, line + 23 + 19 * row, text, 13, anchor="middle",
                             bold=text.isupper())
        y += height + GAP
    places(picture, constants)
    vdso = constants["kVdsoTop"]
    picture.box(424, 424, 352, 88, "plain")
    picture.text(440, 456, "the kernel's vdso", 14, bold=True)
    picture.paragraph(440, 477, f"is moved to below {address(vdso)}, elsewhere after each restart.",
                      322, 13)
    picture.box(424, 538, 352, 122, "lower")
    picture.text(440, 562, "An MPI call", 14, "lower-text", bold=True)
    picture.paragraph(440, 583, "crosses from blue to orange by a plain indirect call. As the "
                      "lower half's code is mapped, its FS prefixes become GS, so that both thread "
                      "registers are valid at any time.", 322, 13)
    picture.arrow([(346, 330), (384, 330), (384, 598), (347, 598)], "lower", thick=2)
    picture.text(24, 690, "Sizes are not to scale: each window has 16 TiB of addresses, of which "
                 "only what is used exists.", 12, "quiet")
    check_scale(constants)
    return picture.svg("runtime/halves/layout.h")


def check_scale(constants):
    for first, last in (("kUpperBase", "kUpperEnd"), ("kLowerBase", "kLowerEnd")):
        if constants[last] - constants[first] != 16 << 40:
            raise sources.SourceError(f"layout.h: {first} begins no window of 16 TiB: rank.py")


def places(picture, constants):
    """The fixed places of the upper window, beside it."""
    top, step = TOP + 8, 27
    picture.line([(LEFT + WIDTH, TOP), (424, top)], "upper", dashed=True)
    picture.line([(LEFT + WIDTH, TOP + 306), (424, top + step * len(PLACES) + 6)], "upper",
                 dashed=True)
    picture.box(424, top, 352, step * len(PLACES) + 6, "upper")
    for row, name in enumerate(sorted(PLACES, key=constants.get)):
        y = top + 21 + step * row
        picture.text(436, y, address(constants[name]), 12, "upper-text", mono=True)
        picture.text(560, y, PLACES[name], 12)

