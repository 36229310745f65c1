# SPDX-License-Identifier: Apache-2.0
"""hosts.svg: the processes of a job on two hosts; who speaks with whom, from spec/protocol.toml."""
import sources
from svg import Picture

TOP, HOST, BOTTOM = 84, 368, 300


def kinds(ends):
    """Names of the messages between two of the programs, either way."""
    return [name for name, message in sources.messages().items()
            if {message["from"], message["to"]} == set(ends)]


def draw():
    words = {name: kinds(ends) for name, ends in (
        ("agents", ("agent", "coordinator")), ("daemons", ("daemon", "coordinator")),
        ("commands", ("client", "coordinator")), ("ranks", ("client", "daemon")))}
    if not all(words.values()):
        raise sources.SourceError(f"spec/protocol.toml: a line has no messages: {words}: hosts.py")
    picture = Picture(
        "A job on two hosts",
        "On the host of the command, agents speak with the coordinator over a UNIX socket. On the "
        "other host they speak with a daemon, which has one encrypted TCP line to the coordinator.",
        800, 560)
    picture.text(24, 38, "A job on two hosts", 20, bold=True)
    picture.text(24, 62, "Agents see a UNIX socket on either host. Between hosts there is one "
                 "line, encrypted under the run's secret.", 13, "quiet")
    for x, title in ((24, "node1, where the command runs"), (408, "node2")):
        picture.box(x, TOP, HOST, BOTTOM, "plain", radius=8)
        picture.text(x + 14, TOP + 24, title, 14, bold=True)
    programs(picture, words)
    ranks(picture)
    storage(picture)
    return picture.svg("spec/protocol.toml")


def programs(picture, words):
    picture.box(40, 124, 152, 70, "plain")
    picture.text(116, 152, "fermata checkpoint", 13, anchor="middle", bold=True)
    picture.text(116, 172, "any command", 12, "quiet", "middle")
    picture.box(232, 124, 144, 70, "launcher")
    picture.text(304, 148, "coordinator", 14, "launcher-text", "middle", bold=True)
    picture.text(304, 166, "inside fermata run,", 12, anchor="middle")
    picture.text(304, 182, "one for each job", 12, anchor="middle")
    picture.arrow([(192, 159), (231, 159)], "launcher", both=True)
    picture.box(530, 124, 144, 70, "launcher")
    picture.text(602, 148, "daemon", 14, "launcher-text", "middle", bold=True)
    picture.text(602, 166, "speaks for all", 12, anchor="middle")
    picture.text(602, 182, "agents of its host", 12, anchor="middle")
    picture.arrow([(377, 150), (529, 150)], "good", both=True, thick=2.5)
    picture.text(453, 140, "TCP, Noise", 12, "good-text", "middle", bold=True)
    picture.text(272, 232, f"{len(words['agents'])} kinds of message", 12, "quiet", "end")
    picture.text(640, 222, "the same, passed on", 12, "quiet")


def ranks(picture):
    """Four ranks with their agents, MPI's own network between them."""
    for rank, (x, speaks) in enumerate(((40, 280), (212, 328), (424, 578), (596, 626))):
        picture.box(x, 262, 156, 108, "upper")
        picture.text(x + 12, 284, f"rank {rank}", 14, "upper-text", bold=True)
        picture.text(x + 68, 284, "the program", 12)
        picture.box(x + 10, 296, 136, 64, "lower")
        picture.text(x + 78, 318, "real MPI", 12, anchor="middle")
        picture.text(x + 78, 344, "agent", 13, "lower-text", "middle", bold=True)
        picture.arrow([(x + 78, 262), (x + 78, 240), (speaks, 240), (speaks, 195)], "launcher",
                      both=True)
    for left, right in ((186, 222), (358, 434), (570, 606)):
        picture.arrow([(left, 314), (right, 314)], "lower", dashed=True, both=True)
    picture.text(400, 402, "dashed: messages of the program, over the network that the MPI takes",
                 12, "lower-text", "middle")


def storage(picture):
    picture.box(24, 424, 752, 76, "good")
    picture.text(40, 448, "snapshots/N/", 14, "good-text", mono=True, bold=True)
    picture.text(160, 448, "rank-0.img  rank-1.img  rank-2.img  rank-3.img  manifest.json", 13,
                 mono=True)
    picture.text(40, 470, "on a directory that the hosts share, or, with --local-dir, first on "
                 "each host's own disk:", 13)
    picture.text(40, 489, "then daemons bring the images here before the snapshot counts.", 13)
    picture.paragraph(24, 524, f"Between daemon and coordinator: {words_of('daemon')}. A rank that "
                      f"is restored asks its daemon for the image: {words_of('client', 'daemon')}.",
                      752, 12, kind="quiet")


def words_of(end, other="coordinator"):
    return ", ".join(name.lower().replace("_", " ") for name in kinds((end, other)))
