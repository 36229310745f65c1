# SPDX-License-Identifier: Apache-2.0
"""Changes a field of an image's header and makes every checksum fit again: what a rank saved on
another machine would have written. The layout comes from spec/image.toml, like the product's."""
import json
import struct
import sys
import tomllib

from support.mpis import ROOT

HEADER_BYTES = 4096


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def header_offsets():
    """Field name -> offset in the header block."""
    sys.path.insert(0, str(ROOT / "gen"))
    from contract import Layout
    spec = tomllib.loads((ROOT / "spec/image.toml").read_text())
    Layout(spec)
    header = next(struct for struct in spec["struct"] if struct["name"] == "ImageHeader")
    return {field["name"]: field["offset"] for field in header["fields"]}


def set_header_bit(snapshot, field, bit):
    """Sets a bit of a field, counted from its first byte, in the image of every rank."""
    def change(block, offset):
        block[offset + bit // 8] |= 1 << bit % 8
    _change_header(snapshot, field, change)


def set_header_field(snapshot, field, value):
    """Sets a field of 32 bits in the image of every rank."""
    def change(block, offset):
        struct.pack_into("<I", block, offset, value)
    _change_header(snapshot, field, change)


def header_field(snapshot, field):
    """A field of 32 bits of rank 0's image."""
    block = (snapshot / "rank-0.img").read_bytes()[:HEADER_BYTES]
    return struct.unpack_from("<I", block, header_offsets()[field])[0]


def _change_header(snapshot, field, change):
    offsets = header_offsets()
    manifest_path = snapshot / "manifest.json"
    sealed = json.loads(manifest_path.read_text())
    for record in sealed["manifest"]["images"]:
        with open(snapshot / record["file"], "r+b") as file:
            block = bytearray(file.read(HEADER_BYTES))
            change(block, offsets[field])
            struct.pack_into("<I", block, offsets["header_crc"], 0)
            record["header_crc"] = crc32c(block)
            struct.pack_into("<I", block, offsets["header_crc"], record["header_crc"])
            file.seek(0)
            file.write(block)
    compact = json.dumps(sealed["manifest"], separators=(",", ":"), ensure_ascii=False)
    sealed["crc32c"] = crc32c(compact.encode())
    manifest_path.write_text(json.dumps(sealed))
