# SPDX-License-Identifier: Apache-2.0
"""`fermata doctor` runs what jobs run: where a part does not start, or a job does not run, be saved
and continue, it says which and does not say that all is well."""
import json

from support import fermata, mpis, process
from support.cases import Skipped, check, check_equal, timeout

WELL = "Jobs can be run, saved and restarted here."


def _doctor(work, prefix, *before):
    result = process.run([*before, prefix / "bin/fermata", "doctor"], 150,
                         mpis.environment(FERMATA_DIR=str(work / "fermata")), work)
    print(result.out)
    return result


def _does_not_say_well(result, *texts):
    check_equal(result.code, 1, f"exit code of doctor\n{result.out}{result.err}")
    check(WELL not in result.out, f"all is said to be well:\n{result.out}")
    for text in texts:
        check(text in result.out, f"{text!r} is not in\n{result.out}")


@timeout(200)
def test_a_job_runs_on_each_registered_mpi(work):
    result = _doctor(work, mpis.BUILD)
    result.expect_success("doctor")
    for mpi in mpis.MPIS:
        check(f"ok   a job on {mpi}: ran, was saved, continued" in result.out, result.out)
    check(result.out.rstrip().endswith(WELL), result.out)
    check(not (work / "fermata").exists(), "the directory of jobs is left alone")


@timeout(200)
def test_a_site_finder_that_does_not_start(work):
    prefix = fermata.installation(work)
    tool = prefix / "libexec/fermata/sites"
    why = "sites: libZydis.so: cannot open shared object"
    tool.write_text(f"#!/bin/sh\necho '{why}' >&2\nexit 127\n")
    _does_not_say_well(_doctor(work, prefix), "BAD  site finder: failed (exit status: 127)", why)
    tool.unlink()
    _does_not_say_well(_doctor(work, prefix), "BAD  site finder: cannot start", "./x build")


@timeout(200)
def test_a_library_that_is_refused(work):
    """As Debian 13's C library was: everything is there, and no rank starts."""
    prefix = fermata.installation(work)
    cache = prefix / "lib/fermata/sites"
    entry = next(path for path in cache.iterdir() if path.name == f"{_libc_id()}.sites")
    whole = entry.read_bytes()
    reason = b"bytes that are no instruction\0"
    entry.write_bytes(whole[:12] + (1).to_bytes(4, "little") + bytes(8) + whole[24:64] + reason)
    _does_not_say_well(_doctor(work, prefix), "BAD  a job on openmpi", "BAD  a job on mpich",
                       "bytes that are no instruction")


def _libc_id():
    notes = process.run(["readelf", "-n", "/lib/x86_64-linux-gnu/libc.so.6"]).out
    if "Build ID: " not in notes:
        raise Skipped("the C library has no build-id")
    return notes.split("Build ID: ")[1].split()[0]


@timeout(200)
def test_an_mpi_whose_mpirun_fails(work):
    prefix = fermata.installation(work)
    record = prefix / "lib/fermata/lower/mpich.json"
    lower = json.loads(record.read_text())
    mpirun = work / "mpirun"
    mpirun.write_text("#!/bin/sh\necho 'mpirun: no such thing here' >&2\nexit 7\n")
    mpirun.chmod(0o755)
    lower["mpirun"][0] = str(mpirun)
    record.write_text(json.dumps(lower))
    _does_not_say_well(_doctor(work, prefix), "ok   a job on openmpi", "BAD  a job on mpich: run",
                       "mpirun: no such thing here", "fermata mpi add /usr/bin/mpicc.mpich")


@timeout(200)
def test_a_limit_of_address_space(work):
    """Whatever a job needs, it is not to be had within 400 MB; and that is noticed."""
    result = _doctor(work, mpis.BUILD, "prlimit", "--as=400000000")
    _does_not_say_well(result, "BAD  ")
