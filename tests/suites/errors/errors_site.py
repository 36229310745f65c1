# SPDX-License-Identifier: Apache-2.0
"""`fermata site`: places where no service can be, or that are not believed."""
from support import fermata
from support.errors import NOTHING_RAN, REFUSED, USAGE, expect, record

SITE = "The site's service"


def _refused(work, case, code, command, *words):
    result = fermata.fermata(work, "site", *command)
    expect(record(SITE, case, result, code, NOTHING_RAN), *words)


def _status(work):
    return ["status", "--site", work / "site"]


def _serve(work):
    return ["serve", "--site", work / "site", "--bandwidth", "1GB/s"]


def test_no_directory(work):
    _refused(work, "no directory is given", USAGE, ["status"], "--site DIR", "fermata.toml")


def test_not_there(work):
    _refused(work, "a directory that is not there", REFUSED, _status(work), "is not there",
             "site serve")


def test_nobody_has_served(work):
    (work / "site").mkdir(mode=0o700)
    _refused(work, "a directory where no service has been", REFUSED, _status(work),
             "no service has been started", "site serve")


def test_a_directory_of_others(work):
    (work / "site").mkdir()
    (work / "site").chmod(0o770)
    _refused(work, "a directory that others may write to", REFUSED, _serve(work),
             "nobody else can write to", "mode 0700")


def test_a_key_that_others_read(work):
    (work / "site").mkdir(mode=0o700)
    (work / "site/key").write_text("ab" * 32)
    (work / "site/key").chmod(0o644)
    _refused(work, "a key that others may read", REFUSED, _serve(work), "its mode must be 0600")


def test_a_place_that_cannot_be_made(work):
    (work / "site").write_text("")
    _refused(work, "a file in the directory's place", REFUSED, _serve(work),
             "is not a directory of yours", "mode 0700")
