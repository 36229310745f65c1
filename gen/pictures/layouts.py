# SPDX-License-Identifier: Apache-2.0
"""layouts.svg: the time of a turn around a ring while a job moves through layouts, networks and
MPIs. Its data, docs/evidence/layouts.json, is what `./x bench --layouts --data` writes."""
import json
import math

import sources
from svg import Picture

DATA = "docs/evidence/layouts.json"
LEFT, RIGHT, TOP, BOTTOM = 76, 20, 108, 96
WIDTH, HEIGHT = 900, 460
KINDS = {"memory": "good", "first": "upper", "second": "lower", "ofi": "launcher"}
NAMES = {"memory": "shared memory", "first": "Open MPI, TCP on the first network",
         "second": "MPICH, UCX on the second", "ofi": "MPICH 5, libfabric on the second"}


def draw():
    layouts = json.loads(sources.read(DATA))["layouts"]
    begin, end = layouts[0]["turns"][0][0], layouts[-1]["turns"][-1][0]
    times = [took for layout in layouts for _, took in layout["turns"]]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    across = (WIDTH - LEFT - RIGHT) / (end - begin)
    down = (HEIGHT - TOP - BOTTOM) / (high - low)

    def place(at, took):
        return LEFT + (at - begin) * across, HEIGHT - BOTTOM - (math.log10(took) - low) * down

    picture = Picture(
        "A job through layouts, networks and MPIs",
        "The time of a turn of 8 KB around a ring of eight ranks. The job is saved, stopped and "
        "restarted between the layouts " + ", ".join(each["letter"] for each in layouts) + ".",
        WIDTH, HEIGHT)
    picture.text(24, 38, "A job through layouts, networks and MPIs", 20, bold=True)
    picture.text(24, 62, "8 KB around a ring of 8 ranks: time of a turn, logarithmic. In the gaps "
                 "the job is on disk.", 13, "quiet")
    for power in range(low, high + 1):
        y = place(begin, 10 ** power)[1]
        picture.line([(LEFT, y), (WIDTH - RIGHT, y)], "card")
        unit = f"{10 ** (power - 3):g} ms" if power >= 3 else f"{10 ** power:g} us"
        picture.text(LEFT - 8, y + 4, unit, 12, "quiet", "end")
    for layout in layouts:
        kind = KINDS[layout["network"]]
        picture.line([place(*turn) for turn in layout["turns"]], kind, thick=1.2)
        middle = (place(*layout["turns"][0])[0] + place(*layout["turns"][-1])[0]) / 2
        picture.text(middle, TOP - 14, layout["letter"], 15, f"{kind}-text", "middle", bold=True)
        picture.text(middle, HEIGHT - BOTTOM + 22, f"{layout['hosts']}", 12, "quiet", "middle")
    picture.text(LEFT - 8, HEIGHT - BOTTOM + 22, "hosts", 12, "quiet", "end")
    x = 24
    for network, name in NAMES.items():
        picture.box(x, HEIGHT - 46, 12, 12, KINDS[network], 3)
        x = picture.text(x + 18, HEIGHT - 36, name, 12) + 16
    seconds = round(end - begin)
    picture.text(24, HEIGHT - 14, f"{seconds} s from the first turn to the last", 12, "quiet")
    return picture.svg(DATA)
