# SPDX-License-Identifier: Apache-2.0
"""Inputs of fuzz targets that are made, not found: good ones, and what was found before.

They lie in tests/fuzz/findings like what was found (`./x fuzz --made` writes them). Images and
messages are laid out as spec/ says, and the targets put the current version into what they read, so
that none of them ends at a version, or at a field that has moved. Each comes with the outcome that
its target must tell of it, which shows how far it was read.
"""
import copy
import json
import struct
import sys
import tomllib

from support.image import HEADER_BYTES, crc32c
from support.mpis import ROOT

OTHER = 0xffffffff  # as a version: the targets leave it alone
PAGE = 4096
FIT_CHECKSUMS, FIT_SIZE, SEAL = 1, 2, 4  # tests/fuzz/image.cpp
ENCRYPTED = 2  # Sealing of spec/image.toml


def _spec(name):
    return tomllib.loads((ROOT / f"spec/{name}.toml").read_text())


# ----------------------------------------------------------------------------------------- image


class ImageLayout:
    """Packs the structs of spec/image.toml."""

    def __init__(self):
        sys.path.insert(0, str(ROOT / "gen"))
        from contract import Layout
        self.spec = _spec("image")
        self.layout = Layout(self.spec)
        self.fields = {one["name"]: one["fields"] for one in self.spec["struct"]}

    def pack(self, name, values):
        """A struct: bytes for its arrays, other structs packed; what is not named is zero."""
        out = bytearray(self.layout.sizes[name][0])
        left = dict(values)
        for field in self.fields[name]:
            value = left.pop(field["name"], 0)
            base, count = self.layout.split(field["type"])
            if not isinstance(value, bytes):
                value = (value % 2**64).to_bytes(8, "little")[:self.layout.sizes[base][0]]
            assert len(value) <= self.layout.sizes[base][0] * (count or 1), field["name"]
            out[field["offset"]:field["offset"] + len(value)] = value
        if left:
            raise KeyError(f"spec/image.toml: {name} has no {', '.join(left)}")
        return bytes(out)

    def tables(self):
        return [field["name"] for field in self.fields["ImageHeader"]
                if field["type"] == "TableRef"]

    def image(self, tables, header=None):
        """An image of one page and these tables, its header block cut to the header."""
        page = bytes(range(256)) * (PAGE // 256)
        body = bytearray(page)
        values = {"header_bytes": HEADER_BYTES, "machine": 62, "epoch": 1, "world_size": 2,
                  "job": b"j", "front": b"ompi", "lower": b"x", "payload_offset": HEADER_BYTES,
                  "payload_bytes": PAGE}
        for name in self.tables():
            entries = tables.get(name, [])
            if name == "strings":
                data, count = entries or b"\0", len(entries or b"\0")
            else:
                if name == "extents":
                    entries = [{"offset": HEADER_BYTES, "bytes": PAGE, "crc": crc32c(page), **one}
                               for one in entries]
                kind = f"Image{name[:-1].capitalize()}"
                data, count = b"".join(self.pack(kind, one) for one in entries), len(entries)
            body += bytes(-len(body) % 8)
            values[name] = self.pack("TableRef", {
                "offset": HEADER_BYTES + len(body), "count": count, "bytes": len(data),
                "crc": crc32c(data)})
            body += data
        values["file_bytes"] = HEADER_BYTES + len(body)
        return self.pack("ImageHeader", {**values, **(header or {})}) + bytes(body)


def _whole():
    """Tables with something of everything. All extents share the one page of the file."""
    return {
        "regions": [
            {"start": 0x10000, "end": 0x13000, "prot": 3, "first_extent": 0, "extent_count": 2},
            {"start": 0x20000, "end": 0x22000, "prot": 5, "path_string": 1, "build_id_string": 9,
             "file_offset": PAGE, "first_extent": 2},
            {"start": 0x30000, "end": 0x31000, "prot": 3, "object": 1},
        ],
        "objects": [
            {"host": 1, "device": 2, "inode": 3, "size": PAGE, "first_extent": 2,
             "extent_count": 1, "kind": 1, "flags": 3},
            {"host": 1, "device": 2, "inode": 4, "size": 2 * PAGE, "kind": 2, "path_string": 14},
        ],
        "extents": [{"address": 0x10000}, {"address": 0x12000}, {"address": 0}, {"address": 0}],
        "threads": [
            {"frame": 0x10100, "fs_base": 0x12000, "tid": 7, "flags": 1, "name": b"main",
             "processors": b"\3"},
            {"frame": 0x12100, "fs_base": 0x12800, "tid": 8, "name": b"helper", "nice": -5},
        ],
        "files": [
            {"fd": 3, "kind": 1, "flags": 2, "offset": 5, "size": 9, "path_string": 14},
            {"fd": 4, "kind": 7, "size": PAGE, "same_as": 4, "first_extent": 3,
             "extent_count": 1},
            {"fd": 5, "kind": 13},
        ],
        "members": [{"fd": 5, "kind": 2, "target": 1, "flags": 2, "path_string": 14},
                    {"fd": 3, "kind": 4, "flags": 1}],
        "actions": [{"signal": 10, "handler": 0x20010, "flags": 4}],
        "signals": [{"thread": 8, "info": b"\x0a"}, {"info": b"\x0c"}],
        "timers": [{"kind": 3, "id": 1, "signal": 10, "left_ns": 5, "interval_ns": 9}],
        "strings": b"\0/bin/x\0" b"\0abcd\0/tmp/f\0",
    }


def _image():
    layout = ImageLayout()
    fit = bytes([FIT_CHECKSUMS | FIT_SIZE])
    whole, smallest = _whole(), {"threads": [{}]}
    missing = sorted(set(layout.tables()) - {*whole, "tags"})
    if missing:
        raise KeyError(f"spec/image.toml has tables that this file does not know: {missing}")

    def with_address(extent, address):
        tables = copy.deepcopy(whole)
        tables["extents"][extent]["address"] = address
        return fit + layout.image(tables)

    def sealed(tables, header=None, tags=0):
        """`tags`: too many."""
        tags += len(tables.get("extents", []))
        return (bytes([FIT_CHECKSUMS | FIT_SIZE | SEAL])
                + layout.image({**tables, "tags": [{}] * tags}, header))

    encrypted = {"sealing": ENCRYPTED, "salt": b"salt"}
    one_extent = {**smallest, "extents": [{"address": 0x10000}]}
    refused = "not an image of this Fermata's formats"
    return {
        "whole": (fit + layout.image(whole), "accepted"),
        "smallest": (fit + layout.image(smallest), "accepted"),
        "sealed": (sealed(whole), "accepted"),
        "encrypted": (sealed(one_extent, encrypted), "accepted"),
        # Four extents share a page, which is encrypted for each of them in turn.
        "encrypted_for_another_extent": (sealed(whole, encrypted), "its pages are damaged"),
        "sealed_with_a_tag_too_few": (sealed(whole, tags=-1), "a table of the image is damaged"),
        "sealed_with_a_tag_too_many": (sealed(whole, tags=1), "a table of the image is damaged"),
        "sealed_with_nothing": (bytes([SEAL | FIT_SIZE]) + layout.image(smallest),
                                "the image's header is damaged"),
        "pages_changed": (fit + layout.image({**whole, "extents": [
            {**one, "crc": 1} for one in whole["extents"]]}), "its pages are damaged"),
        # Otherwise as `whole`, which is accepted.
        "region_extent_wraps_round_the_address_space":
            (with_address(1, 2**64 - PAGE), "a table of the image is damaged"),
        "object_extent_wraps_round_the_address_space":
            (with_address(2, 2**64 - PAGE), "a table of the image is damaged"),
        "raw": (b"\0" + layout.image(smallest), "the image's header is damaged"),
        "cut": (fit + b"FERMIMG1", "the image is truncated"),
        "other_version": (fit + layout.image(smallest, {
            "version": OTHER, "magic": layout.spec["magic"].encode()}), refused),
        "other_magic": (fit + layout.image(smallest, {"version": OTHER, "magic": b"x"}), refused),
    }


# ---------------------------------------------------------------------------------------- frames


SAMPLES = {"u32": struct.pack("<I", 2), "i32": struct.pack("<i", -2),
           "u64": struct.pack("<Q", 3), "str": b"\3\0\0\0abc", "bytes": b"\3\0\0\0\0\xff\7",
           "pairs": struct.pack("<5Q", 2, 1, 2, 3, 4)}


def _frame(message, sample, version=0):
    payload = b"".join(sample(field["type"]) for field in message.get("fields", ()))
    return struct.pack("<IHH", len(payload), message["type"], version) + payload


def _frames():
    parts = ("protocol", "stores", "site")
    messages = [message for part in parts for message in _spec(part)["message"]]
    told = [one for one in messages if one["to"] == "agent"]

    def stream(some, sample=SAMPLES.__getitem__, **version):
        return b"".join(_frame(one, sample, **version) for one in some)

    def outcome(control, agent):
        return f"the control plane took {control}, the agent {agent}"

    def zeros(kind):
        return bytes(8 if kind in ("u64", "pairs") else 4)

    everything, agents = outcome(len(messages), len(told)), outcome(len(told), len(told))
    one = stream(told[:1])
    return {
        "all_messages": (b"\xff" + stream(messages), everything),
        "all_messages_by_one": (b"\0" + stream(messages), everything),
        "all_messages_of_zeros": (b"\xff" + stream(messages, zeros), everything),
        "to_an_agent": (b"\xff" + stream(told), agents),
        "to_an_agent_by_three": (b"\2" + stream(told), agents),
        "other_version": (b"\xff" + one + stream(told[:1], version=OTHER & 0xffff) + one,
                          outcome(1, 1)),
        "too_long": (b"\xff" + one + struct.pack("<IHH", OTHER, 33, 0), outcome(1, 1)),
        "type_of_no_message": (b"\xff" + one + struct.pack("<IHH", 0, 999, 0) + one,
                               outcome(1, 2)),
    }


# ------------------------------------------------------------------------------------ membership


def _membership():
    def entry(node, incarnation=0, beat=5000, age=0, state=0, frozen=0):
        # Entry of control/membership/src/wire.rs, with a load of ones.
        return (struct.pack("<HH", node, incarnation) + beat.to_bytes(5, "little")
                + struct.pack("<HBHHHIIHHH", age, state, frozen, 1, 1, 1, 1, 1, 1, 1))

    def datagram(sender, entries, errand=0, token=0, tenths=3):
        content = struct.pack("<BQB", errand, token, len(entries)) + b"".join(entries)
        return struct.pack("<BBH", sender, tenths, len(content)) + content

    up, suspect, down = 0, 1, 2
    two = datagram(1, [entry(1), entry(2)])
    return {
        "two_nodes": (two, "understood 1"),
        "asked": (two + datagram(1, [entry(1, beat=5300)], errand=1, token=9), "understood 2"),
        "answered": (two + datagram(2, [entry(2, beat=9)], errand=2, token=1), "understood 2"),
        "suspected_and_refuted": (two + datagram(1, [entry(1, beat=5300),
                                                     entry(2, state=suspect)])
                                  + datagram(2, [entry(2, beat=5900, state=up)]), "understood 3"),
        "frozen": (two + datagram(2, [entry(2, beat=5300, frozen=600)])
                   + datagram(1, [entry(1, beat=9000)], tenths=200), "understood 3"),
        "down_and_back": (two + datagram(1, [entry(1, beat=5300), entry(2, state=down)])
                          + datagram(2, [entry(2, beat=5600)])
                          + datagram(2, [entry(2, incarnation=1, beat=5900)]), "understood 4"),
        "reader_is_called_down": (datagram(1, [entry(1), entry(0, OTHER & 0xffff, state=down)]),
                                  "understood 1"),
        "silence": (two + datagram(3, [entry(3)], tenths=20) + datagram(3, [entry(3)], tenths=20)
                    + datagram(3, [entry(3)], tenths=20), "understood 4"),
        "largest_clock": (datagram(1, [entry(1, beat=2**40 - 1, age=65535)]), "understood 1"),
        "impossible_node": (datagram(1, [entry(1), entry(4096)]), "understood 0"),
        "unknown_state": (datagram(1, [entry(1, state=3)]), "understood 0"),
        "unknown_errand": (datagram(1, [entry(1)], errand=3), "understood 0"),
        "no_entries": (datagram(1, []), "understood 0"),
        # It was read and came out otherwise.
        "token_for_nothing": (datagram(1, [entry(1)], token=189), "understood 0"),
    }


# --------------------------------------------------------------------------------------- records


def _records():
    image = {"rank": 0, "file": "rank-0.img", "bytes": 8192, "header_crc": 7, "mac": "0f",
             "pause_ns": 1, "host": "h"}
    # In the order of control/types/src/records.rs, over which the checksum is made.
    manifest = {"format": 2, "job": "j", "epoch": 1, "size": 2, "created_unix_s": 5, "lower": "x",
                "front": "ompi", "argv": ["a", "b"], "cwd": "/", "checkpointer": "native",
                "images": [image, {**image, "rank": 1, "file": "rank-1.img"}], "files": []}
    itself = {**manifest, "checkpointer": "self", "images": [],
              "files": [{"path": "program/state", "bytes": 7}]}
    job = {"job": "j", "argv": ["a"], "cwd": "/", "size": 2, "lower": "x", "front": "ompi",
           "run": "r", "host": "h", "socket": "/s", "addresses": ["1.2.3.4:5"],
           "coordinator_pid": 1, "started_unix_s": 2, "lost_host": "g", "ended_well": True,
           "restored_epoch": 3, "begun_after_epoch": 4, "keep": 2, "checkpointer": "self",
           "programs": [{"ranks": 1, "argv": ["a"]}, {"ranks": 1, "argv": ["b"]}],
           "every_ms": 5, "hosts": ["g", "h"], "remote_shell": "ssh", "local_dir": "/l",
           "mpirun_args": ["-x"]}

    def sealed(content, change=0):
        checksum = crc32c(json.dumps(content, separators=(",", ":")).encode()) ^ change
        return json.dumps({"crc32c": checksum, "manifest": content}).encode()

    whole, neither = "a whole manifest", "neither is whole"
    return {
        "manifest": (sealed(manifest), whole),
        "manifest_of_a_program_that_saves_itself": (sealed(itself), whole),
        "manifest_content": (json.dumps(manifest, separators=(",", ":")).encode(), whole),
        "manifest_that_was_changed": (sealed(manifest, change=1), whole),  # the target makes it fit
        "other_format": (sealed({**manifest, "format": OTHER}), neither),
        "job": (json.dumps(job).encode(), "a whole job record"),
        "job_with_a_seal": (json.dumps({**job, "key": "0" * 16, "mac": "0" * 64}).encode(),
                            "a whole job record"),
    }


# ------------------------------------------------------------------------------------ site_cache


def _site_cache():
    def entry(status, count, rest, version=1):
        # CacheHeader of runtime/launcher/patch/site_cache.cpp
        header = struct.pack("<8sIIQQ20sIII", b"FSITES01", version, status, count, 999, bytes(20),
                             20, crc32c(rest), 6)
        return b"\1" + header + rest

    offsets = struct.pack("<3Q", 5, 9, 700)
    return {
        "sites": (entry(0, 3, offsets), "accepted: 3"),
        "refused": (entry(1, 0, b"because\0"), "accepted: a reason"),
        "reason_without_an_end": (entry(1, 0, b"\xff" * 15), "damaged"),
        "other_version": (entry(0, 3, offsets, OTHER), "damaged"),
        "short": (b"\1FSITES01", "damaged"),
    }


MAKERS = {"frames": _frames, "image": _image, "membership": _membership,
          "records": _records, "site_cache": _site_cache}


def made(target):
    """Name -> contents, and what the target's outcome must begin with."""
    return MAKERS[target]() if target in MAKERS else {}
