# SPDX-License-Identifier: Apache-2.0
"""The inputs of the fuzz targets. Those with a name of their own are files, tests/fuzz/findings/
TARGET/NAME: what was found once, and what fuzz_inputs.py makes. The many others, which libFuzzer
named by their contents, are one archive per target, tests/fuzz/corpus/TARGET.tar.xz, unpacked below
build/fuzz when they are wanted. The same inputs make the same archive."""
import hashlib
import io
import lzma
import pathlib
import re
import shutil
import tarfile
import tempfile

from support.cases import Failed
from support.mpis import BUILD, ROOT

OUT = BUILD / "fuzz"
FINDINGS = ROOT / "tests/fuzz/findings"
ARCHIVES = ROOT / "tests/fuzz/corpus"
BY_CONTENTS = re.compile("[0-9a-f]{40}")


def named(target):
    """The directory of the inputs that have a name."""
    return FINDINGS / target


def _archive(target):
    return ARCHIVES / f"{target}.tar.xz"


def unnamed(target):
    """The inputs with no name in the archive: name -> contents."""
    if not _archive(target).exists():
        return {}
    found = {}
    with tarfile.open(_archive(target), "r:xz") as archive:
        for member in archive:
            if not BY_CONTENTS.fullmatch(member.name) or not member.isreg():
                raise Failed(f"{_archive(target)} has {member.name}: no name that libFuzzer gives")
            found[member.name] = archive.extractfile(member).read()
    return found


def directories(target):
    """Where all inputs are. What was in the archive lies in a directory of this very archive, so
    several processes may ask at a time."""
    if not _archive(target).exists():
        return [named(target)]
    digest = hashlib.sha256(_archive(target).read_bytes()).hexdigest()[:16]
    place = OUT / "corpus" / target / digest
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = pathlib.Path(tempfile.mkdtemp(dir=place.parent))
        for name, contents in unnamed(target).items():
            (aside / name).write_bytes(contents)
        try:
            aside.rename(place)
        except OSError:  # another one was faster
            shutil.rmtree(aside)
    return [named(target), place]


def pack(target, inputs):
    """Makes the archive of these inputs, name -> contents; none if there are none."""
    if not inputs:
        _archive(target).unlink(missing_ok=True)
        return
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(inputs):
            member = tarfile.TarInfo(name)
            member.size = len(inputs[name])
            archive.addfile(member, io.BytesIO(inputs[name]))
    _archive(target).write_bytes(lzma.compress(whole.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def adopt(target, directory):
    """Adds the inputs with no name of a directory, such as one that `./x fuzz` has grown. Returns
    how many were new."""
    have = unnamed(target)
    more = {path.name: path.read_bytes() for path in directory.iterdir()
            if BY_CONTENTS.fullmatch(path.name)} if directory.is_dir() else {}
    new = len(set(more) - set(have))
    if new:
        pack(target, {**have, **more})
    return new
