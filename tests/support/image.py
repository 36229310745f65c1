# SPDX-License-Identifier: Apache-2.0
"""Changes images and makes every checksum fit again, as anybody can: what a rank saved on another
machine would have written, or an attacker. The layout comes from spec/image.toml, like the
product's."""
import json
import struct
import sys
import tomllib

from support.mpis import ROOT

HEADER_BYTES = 4096


def _crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        yield byte


CRC_TABLE = list(_crc_table())


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def forge_checksum(page, wanted):
    """Changes the first byte of a page, and its last four so that the CRC32C stays as it was."""
    page[0] ^= 1
    state = crc32c(page[:-4]) ^ 0xffffffff
    wanted ^= 0xffffffff
    for _ in range(4):  # backwards: which entry of the table shifted this state out?
        index = next(i for i, one in enumerate(CRC_TABLE) if one >> 24 == wanted >> 24)
        wanted = (wanted ^ CRC_TABLE[index]) << 8 | index
    page[-4:] = struct.pack("<I", state ^ wanted)


def offsets_of(name):
    """Field name -> offset, of a struct."""
    sys.path.insert(0, str(ROOT / "gen"))
    from contract import Layout
    spec = tomllib.loads((ROOT / "spec/image.toml").read_text())
    Layout(spec)
    found = next(struct for struct in spec["struct"] if struct["name"] == name)
    return {field["name"]: field["offset"] for field in found["fields"]}


def header_offsets():
    """Field name -> offset in the header block."""
    return offsets_of("ImageHeader")


EXTENT_BYTES, TAG_BYTES = 32, 16


class Extents:
    """The table of extents of an image, and their tags, in a file that is open for reading and
    writing."""

    def __init__(self, file):
        self.file, self.of = file, offsets_of("ImageExtent")
        self.ref = header_offsets()["extents"]
        file.seek(self.ref)
        self.table, self.count = struct.unpack("<QQ", file.read(16))
        file.seek(header_offsets()["tags"])
        self.tags = struct.unpack("<Q", file.read(8))[0]

    def get(self, index):
        """Address, bytes, offset in the file, CRC and tag."""
        self.file.seek(self.table + index * EXTENT_BYTES)
        entry = self.file.read(EXTENT_BYTES)
        self.file.seek(self.tags + index * TAG_BYTES)
        tag = self.file.read(TAG_BYTES)
        place = self.of["address"], self.of["bytes"], self.of["offset"]
        return (*(struct.unpack_from("<Q", entry, at)[0] for at in place),
                struct.unpack_from("<I", entry, self.of["crc"])[0], tag)

    def put_checksum(self, index, crc):
        """And that of the table."""
        self.file.seek(self.table + index * EXTENT_BYTES + self.of["crc"])
        self.file.write(struct.pack("<I", crc))
        self.file.seek(self.table)
        fits = crc32c(self.file.read(self.count * EXTENT_BYTES))
        self.file.seek(self.ref + offsets_of("TableRef")["crc"])
        self.file.write(struct.pack("<I", fits))


def fit_header(path):
    """The checksum of an image's header; returns it."""
    at = header_offsets()["header_crc"]
    with open(path, "r+b") as file:
        block = bytearray(file.read(HEADER_BYTES))
        struct.pack_into("<I", block, at, 0)
        crc = crc32c(block)
        struct.pack_into("<I", block, at, crc)
        file.seek(0)
        file.write(block)
    return crc


def fit_manifest(snapshot, key=None):
    """Its checksum, and what it has of the images' headers. `key`: that it is sealed with, as it
    says."""
    path = snapshot / "manifest.json"
    sealed = json.loads(path.read_text())
    if key is not None:
        sealed["key"] = key.hex()
    for record in sealed["manifest"]["images"]:
        record["header_crc"] = fit_header(snapshot / record["file"])
    compact = json.dumps(sealed["manifest"], separators=(",", ":"), ensure_ascii=False)
    sealed["crc32c"] = crc32c(compact.encode())
    path.write_text(json.dumps(sealed))


def set_header_bit(snapshot, field, bit):
    """Sets a bit of a field, counted from its first byte, in the image of every rank. If it was
    sealed it is somebody else's from then on: whoever wants to restart from that has to say that he
    trusts it."""
    def change(block, offset):
        block[offset + bit // 8] |= 1 << bit % 8
    _change_header(snapshot, field, change)


def set_header_field(snapshot, field, value):
    """Sets a field of 32 bits in the image of every rank, as `set_header_bit` does."""
    def change(block, offset):
        struct.pack_into("<I", block, offset, value)
    _change_header(snapshot, field, change)


def header_field(snapshot, field):
    """A field of 32 bits of rank 0's image."""
    block = (snapshot / "rank-0.img").read_bytes()[:HEADER_BYTES]
    return struct.unpack_from("<I", block, header_offsets()[field])[0]


def is_sealed(snapshot):
    return header_field(snapshot, "sealing") != 0


SOMEBODY = b"somebody"  # the id of a key that nobody has


def _change_header(snapshot, field, change):
    offset, key = header_offsets()[field], header_offsets()["key_id"]
    others = SOMEBODY if is_sealed(snapshot) else b""
    for path in snapshot.glob("rank-*.img"):
        with open(path, "r+b") as file:
            block = bytearray(file.read(HEADER_BYTES))
            change(block, offset)
            block[key:key + len(others)] = others
            file.seek(0)
            file.write(block)
    fit_manifest(snapshot, others)


def change_pages(path, fit):
    """Changes the pages of an image's smallest extent: `fit(extents, index, page, crc)`."""
    with open(path, "r+b") as file:
        extents = Extents(file)
        index = min(range(extents.count), key=lambda one: extents.get(one)[1])
        _, size, offset, crc, _ = extents.get(index)
        file.seek(offset)
        page = bytearray(file.read(size))
        fit(extents, index, page, crc)
        file.seek(offset)
        file.write(page)
