# SPDX-License-Identifier: Apache-2.0
"""Levels that a job cannot have are refused before anything runs."""
from support import fermata, mpis
from support.cases import check, check_equal
from support.errors import NOTHING_RAN, USAGE, expect, record

LEVELS = "Levels on hosts"


def _run(work, *options):
    result = fermata.fermata(work, "run", "-n", 2, "--mpi", "openmpi", *options, "--",
                             mpis.program("openmpi", "selfcheck"))
    check(not (work / "fermata").exists(), "no job was made")
    return result


def _refused(work, case, *options, names):
    expect(record(LEVELS, case, _run(work, *options), USAGE, NOTHING_RAN), *names)


def test_without_a_directory_of_each_host(work):
    _refused(work, "--levels without --local-dir", "--levels", "local,xor",
             names=("nobody says where", "hint: --local-dir"))


def test_on_one_host(work):
    _refused(work, "--levels on one host", "--levels", "local,xor", "--local-dir", work / "images",
             names=("this one is on one", "hint: --host"))


def test_that_do_not_begin_on_the_host(work):
    """By the reader of the command line, whose messages are in no table."""
    result = _run(work, "--levels", "xor", "--local-dir", work / "images")
    check_equal(result.code, USAGE, f"exit code\n{result.err}")
    check("the first level is local" in result.err, result.err)


def test_of_more_parities_than_hosts(work):
    _refused(work, "--levels of more parities than hosts", "--levels", "local,rs2", "--local-dir",
             work / "images", "--host", "a,b", names=("2 parities need 3 hosts",))
