# SPDX-License-Identifier: Apache-2.0
"""The finder of FS prefixes: hand-made code whose sites are known, code that must be refused, the
libraries of both MPIs compared with an independent disassembler, and the cache files."""
import pathlib
import re
import struct
import subprocess

from support import fermata, mpis, process
from support.cases import Failed, Skipped, check, check_equal, slow, timeout
from support.mpis import BUILD, ROOT

TOOL = BUILD / "libexec/fermata/sites"
FIXTURES = ROOT / "tests/fixtures/sites"
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")


def _assemble(work, name, *flags, output=None):
    out = work / f"{output or name}.so"
    process.run(["gcc", "-shared", "-nostdlib", *flags, "-o", out, FIXTURES / f"{name}.S"]
                ).expect_success(f"assembling {name}.S")
    return out


def _find(*arguments, code=0):
    check(TOOL.exists(), "build/libexec/fermata/sites is missing: ./x build")
    result = process.run([TOOL, *arguments])
    check_equal(result.code, code, f"exit code of sites {arguments[-1]}\n{result.err}")
    return result


def _offsets(path):
    """What --print lists: file offsets."""
    return [int(x, 16) for x in re.findall(r"^ +0x([0-9a-f]+)$", _find("--print", path).out, re.M)]


def _refused(path, reason):
    result = _find(path, code=3)
    check(str(path) in result.err and re.search(reason, result.err),
          f"expected a refusal by name that says {reason!r}: {result.err}")


def _labelled(library):
    """File offsets of the labels site_N, ascending."""
    symbols = process.run(["nm", library]).expect_success("nm").out
    expected = sorted(int(line.split()[0], 16) for line in symbols.split("\n")
                      if " T site_" in line)
    # Text is mapped at its own file offset in such a small library (checked here, not assumed).
    headers = process.run(["readelf", "-lW", library]).out
    load = re.search(r"LOAD\s+0x(\w+)\s+0x(\w+)\s+\S+\s+\S+\s+\S+\s+R E", headers)
    shift = int(load[2], 16) - int(load[1], 16)
    return [address - shift for address in expected]


def test_known_sites(work):
    library = _assemble(work, "known")
    check_equal(len(_labelled(library)), 7, "labels in known.S")
    check_equal(_offsets(library), _labelled(library), "sites")


def test_every_site_is_a_prefix_byte(work):
    library = _assemble(work, "known")
    data = library.read_bytes()
    check(all(data[offset] == 0x64 for offset in _offsets(library)), "a site is no 0x64 byte")


def test_lying_frame_is_refused(work):
    _refused(_assemble(work, "lying_frame"), r"no instruction at 0x\w+, in the function")


def test_table_in_text_is_refused(work):
    _refused(_assemble(work, "table_in_text"), r"table inside a function")


def test_jump_table_is_followed(work):
    library = _assemble(work, "jump_table")
    data = library.read_bytes()
    check(b"\x64\x0a\x00" in data, "the fixture holds the entry that looks like code")
    check_equal(len(_labelled(library)), 3, "labels in jump_table.S")
    check_equal(_offsets(library), _labelled(library), "sites")


def test_branch_over_data_is_followed(work):
    library = _assemble(work, "branch_into_data")
    check_equal(_offsets(library), _labelled(library), "sites")


def test_branch_over_possible_prefix_is_refused(work):
    _refused(_assemble(work, "branch_into_data", "-DHARMFUL"), r"inside an instruction")


def test_fill_behind_a_call_that_does_not_return_is_passed_over(work):
    for number, flags in enumerate([(), ("-DAT_END",), ("-DNO_FRAME",), ("-DNO_CODE",),
                                    ("-DNO_CODE", "-DAT_END"), ("-DNO_CODE", "-DNO_FRAME")]):
        library = _assemble(work, "fill_behind_call", *flags, output=f"fill{number}")
        check_equal(len(_labelled(library)), 2, "labels in fill_behind_call.S")
        check_equal(_offsets(library), _labelled(library), f"sites with {flags}")


def test_fill_that_may_hold_a_prefix_is_refused(work):
    _refused(_assemble(work, "fill_behind_call", "-DHARMFUL"), r"inside an instruction")


def test_fs_base_access_is_refused(work):
    _refused(_assemble(work, "fs_base"), r"FS base itself")


def test_harmless_constants_are_accepted(work):
    check_equal(len(_offsets(_assemble(work, "constant_in_gap"))), 1, "sites")


def test_harmful_constants_are_refused(work):
    _refused(_assemble(work, "constant_in_gap", "-DHARMFUL"), r"that nothing leads to")


def test_constants_that_nothing_leads_to_are_accepted(work):
    check_equal(len(_offsets(_assemble(work, "constant_in_gap", "-DDECODABLE"))), 1, "sites")


def test_code_among_constants_is_followed(work):
    check_equal(len(_offsets(_assemble(work, "constant_in_gap", "-DREACHED"))), 2, "sites")


def test_constants_that_may_be_code_are_refused(work):
    why = r"constant or code that uses FS"
    _refused(_assemble(work, "constant_in_gap", "-DTAKEN"), why)
    _refused(_assemble(work, "constant_in_gap", "-DSTORED", output="stored"), why)
    _refused(_assemble(work, "constant_in_gap", "-DSTORED", "-Wl,-z,pack-relative-relocs",
                       output="packed"), why)


def test_damaged_frame_table_is_refused(work):
    library = _assemble(work, "known")
    sections = process.run(["readelf", "-SW", library]).out
    match = re.search(r"\.eh_frame\s+\S+\s+\w+\s+(\w+)\s+(\w+)", sections)
    data = bytearray(library.read_bytes())
    data[int(match[1], 16)] = 0xf0  # the length of the first entry
    damaged = work / "damaged.so"
    damaged.write_bytes(data)
    _refused(damaged, r"\.eh_frame: entry of impossible length")


def test_not_elf_is_an_error(work):
    text = work / "text.so"
    text.write_text("#!/bin/sh\n" * 20)
    check("not an ELF file" in _find(text, code=1).err, "the message says what is wrong")


def test_truncated_file_is_an_error(work):
    whole = (LIBRARIES / "libc.so.6").read_bytes()
    cut = work / "cut.so"
    cut.write_bytes(whole[:len(whole) // 2])
    check("outside the file" in _find(cut, code=1).err, "the message says what is wrong")


def _crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def test_cache_file(work):
    library = _assemble(work, "known", "-Wl,--build-id=0x0123456789abcdef0123")
    _find("--cache", work / "cache", library)
    data = (work / "cache/0123456789abcdef0123.sites").read_bytes()
    magic, version, status, count, size, identity, used, crc, _ = struct.unpack("<8sIIQQ20sIII",
                                                                                data[:64])
    check_equal((magic, version, status, count), (b"FSITES01", 1, 0, 7), "header")
    check_equal((size, used), (library.stat().st_size, 10), "sizes")
    check_equal(identity[:10].hex(), "0123456789abcdef0123", "build-id")
    offsets = struct.unpack("<7Q", data[64:])
    check_equal(list(offsets), _offsets(library), "offsets")
    check_equal(crc, _crc32c(data[64:]), "crc32c")
    again = ("--verbose", "--cache", work / "cache", library)
    check("(cached)" in _find(*again).out, "the second time is cached")
    (work / "cache/0123456789abcdef0123.sites").write_bytes(data[:64] + b"x" + data[65:])
    check("(cached)" not in _find(*again).out, "damage is noticed")
    check_equal(_find("--cache", work / "cache", library).out, "", "output in the middle of a job")


@timeout(120)
def test_what_older_rules_found_is_found_again(work):
    """A cache of before an upgrade, in which the C library is refused: a job does not mind."""
    prefix = fermata.installation(work)
    cache = prefix / "lib/fermata/sites"
    _find("--cache", work / "libc", LIBRARIES / "libc.so.6")
    name = next((work / "libc").iterdir()).name
    good = (cache / name).read_bytes()
    revision = struct.unpack("<I", good[60:64])[0] - 1
    old = good[:12] + struct.pack("<IQ", 1, 0) + good[24:60] + struct.pack("<I", revision)
    (cache / name).write_bytes(old + b"by the rules of yesterday\0")
    job = fermata.Job(work)
    job.fermata = prefix / "bin/fermata"
    job.start("mpich", [mpis.program("mpich", "selfcheck"), "--steps", 2])
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, 2), "checksum")
    check_equal((cache / name).read_bytes(), good, "the entry, which is written anew")


def test_cache_of_a_refused_file(work):
    library = _assemble(work, "fs_base", "-Wl,--build-id=0xaabb")
    _find("--cache", work / "cache", library, code=3)
    data = (work / "cache/aabb.sites").read_bytes()
    check_equal(struct.unpack("<IQ", data[12:24]), (1, 0), "status and count")
    check(b"FS base itself" in data[64:] and data[-1] == 0, "the reason follows, NUL-terminated")
    _find("--cache", work / "cache", library, code=3)


def test_file_without_build_id_is_named_by_content(work):
    library = _assemble(work, "known", "-Wl,--build-id=none")
    _find("--cache", work / "cache", library)
    name = process.run(["sha1sum", library]).out.split()[0]
    check((work / f"cache/{name}.sites").exists(), "the cache file is named by the SHA-1")


def _closure(*paths):
    found = set()
    for path in paths:
        found.add(path.resolve())
        listing = subprocess.run(["ldd", str(path)], capture_output=True, text=True, timeout=30,
                                 check=False).stdout
        found.update(pathlib.Path(p).resolve() for p in re.findall(r"(/\S+)", listing))
    return sorted(found)


@timeout(120)
def test_everything_debian_mpich_loads(work):
    if not (LIBRARIES / "libmpich.so.12").exists():
        raise Skipped("MPICH is not installed")
    files = _closure(LIBRARIES / "libmpich.so.12", *LIBRARIES.glob("ucx/*.so"),
                     *LIBRARIES.glob("hwloc/*.so"))
    sites = sum(int(line.split()[0]) for line in _find(*files).out.strip().split("\n"))
    check(sites > 15000, f"only {sites} sites in {len(files)} files")


@timeout(120)
def test_everything_debian_openmpi_loads(work):
    if not (LIBRARIES / "libmpi.so.40").exists():
        raise Skipped("Open MPI is not installed")
    plugins = list(LIBRARIES.glob("openmpi/lib/openmpi3/*.so"))
    check(len(plugins) > 50, "the plug-ins are where they are expected")
    files = _closure(LIBRARIES / "libmpi.so.40", *plugins, *LIBRARIES.glob("pmix2/lib/pmix/*.so"),
                     *LIBRARIES.glob("hwloc/*.so"), *LIBRARIES.glob("ucx/*.so"))
    sites = sum(int(line.split()[0]) for line in _find(*files).out.strip().split("\n"))
    check(sites > 15000, f"only {sites} sites in {len(files)} files")


def _objdump_sites(path):
    """File offsets of FS prefixes according to objdump, by way of each section's offset."""
    sections = process.run(["objdump", "-hw", path]).out
    shift = {m[1]: int(m[2], 16) - int(m[3], 16) for m in re.finditer(
        r"^\s+\d+\s+(\S+)\s+\w+\s+(\w+)\s+\w+\s+(\w+)\s", sections, re.M)}
    current, found = 0, set()
    for line in process.run(["objdump", "-dw", path]).out.split("\n"):
        if line.startswith("Disassembly of section "):
            current = shift[line.split()[3].rstrip(":")]
        m = re.match(r"\s+([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t(.*)", line)
        if m and "%fs:" in m[3]:
            found.add(int(m[1], 16) + m[2].split().index("64") - current)
    return sorted(found)


def _make_against_objdump(name):
    @timeout(120)
    def test(_work):
        path = LIBRARIES / name
        if not path.exists():
            raise Skipped(f"{name} is not installed")
        found, expected = _offsets(path), _objdump_sites(path)
        if found != expected:
            only = [hex(x) for x in sorted(set(found) ^ set(expected))][:10]
            raise Failed(f"{len(found)} sites, objdump sees {len(expected)}; differing: {only}")
    return slow(test) if "mpich" in name else test


def generate():
    names = ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libucp.so.0", "libgcrypt.so.20",
             "libgnutls.so.30", "libmpich.so.12")
    return {f"test_agrees_with_objdump_{name.split('.')[0].replace('-', '_')}":
            _make_against_objdump(name) for name in names}
