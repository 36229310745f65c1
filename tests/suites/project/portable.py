# SPDX-License-Identifier: Apache-2.0
"""What is built on one system runs on another: what the built programs need of it."""
import re

from support import process
from support.cases import Skipped, check, check_equal
from support.mpis import BUILD

# That of Debian 12, Ubuntu 22.04 and Red Hat 9 at least.
OLDEST = (2, 34)


def _programs():
    parts = [BUILD / part for part in ("bin", "libexec", "lib/fermata")]
    found = [path for part in parts for path in part.rglob("*")
             if path.is_file() and path.open("rb").read(4) == b"\x7fELF"]
    check(len(found) > 8, f"the installed programs are found: {found}")
    return sorted(found)


def test_programs_need_no_newer_c_library_than_they_say(_work):
    here = process.run(["getconf", "GNU_LIBC_VERSION"]).out.split()[1]
    if tuple(map(int, here.split("."))) > (2, 36):
        raise Skipped(f"what is built with the C library {here} need not run with an older one")
    for path in _programs():
        symbols = process.run(["objdump", "-T", path]).out
        needed = {tuple(map(int, version.split(".")))
                  for version in re.findall(r"GLIBC_([0-9.]+)", symbols)}
        newest = max(needed, default=(0,))
        check(newest <= OLDEST, f"{path} needs GLIBC_{'.'.join(map(str, newest))}")


def test_the_site_finder_needs_no_library(_work):
    tool = BUILD / "libexec/fermata/sites"
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", process.run(["readelf", "-d", tool]).out)
    check_equal(needed, [], "libraries that the site finder needs")
