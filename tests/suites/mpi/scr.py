# SPDX-License-Identifier: Apache-2.0
"""Programs that save themselves by the calls of SCR (lib/scr), on one host under each MPI's mpirun:
they are killed, files are changed or missing, and they continue. On several hosts: cluster_scr."""
import os
import re
import time

from support import mpis, process, scr
from support.cases import check, check_equal, slow, timeout
from support.scr import Local, change, check_continued

REBUILT = {"PARTNER": "rank 2 of {host}: from the copy that rank",
           "XOR": "rank 2 of {host}: rebuilt from xor set 0 (rank 0 of {host}, rank 1 of {host}, "
                  "rank 3 of {host})",
           "RS": "rank 2 of {host}: rebuilt from rs2 set 0 ("}


def _killed(mpi, language):
    @timeout(300)
    def test(work):
        wanted = scr.expected(work, 3, language)
        job = Local(work, mpi, 3, language)
        saved = job.killed_after(10)
        again = job.killed_after(saved + 15)
        result = job.finish()
        check_continued(result, again)
        check_equal(scr.checksum(result.out), wanted, "checksum")
        check((job.prefix / "picture.40").exists(), "an output reaches the prefix directory")
        check(not (job.prefix / "ckpt.10").exists(), "a checkpoint does not")
    return test


def _file(mpi, copy_type, damage, *lines):
    @timeout(300)
    def test(work):
        """A file of the newest checkpoint is not what it was."""
        wanted = scr.expected(work, 4)
        job = Local(work, mpi, SCR_COPY_TYPE=copy_type)
        saved = job.killed_after(10)
        damage(job.file(saved, 2))
        result = job.finish()
        said = REBUILT[copy_type].format(host=os.uname().nodename)
        check_continued(result, saved, f"ckpt.{saved}: {said}", *lines)
        check_equal(scr.checksum(result.out), wanted, "checksum")
    return test


def _too_many(mpi):
    @timeout(300)
    def test(work):
        """Two of a set with one parity: the checkpoint before is taken."""
        job = Local(work, mpi, SCR_COPY_TYPE="XOR")
        saved = job.killed_after(15)
        change(job.file(saved, 0))
        job.file(saved, 3).unlink()
        result = job.finish()
        check_continued(result, saved - scr.INTERVAL, "xor set 0 rebuilds 1 and has lost rank 0 of")
    return test


def _single(mpi):
    @timeout(300)
    def test(work):
        """Nothing brings it back: what is in the prefix directory does."""
        wanted = scr.expected(work, 4)
        job = Local(work, mpi, SCR_COPY_TYPE="SINGLE", SCR_FLUSH="2", SCR_CACHE_SIZE="1")
        saved = job.killed_after(15)
        flushed = saved - saved % (2 * scr.INTERVAL)
        for path in job.cache.rglob("rank_1.heat"):
            path.unlink()
        result = job.finish()
        check_continued(result, flushed, f"ckpt.{flushed}: fetched from {job.prefix}")
        check_equal(scr.checksum(result.out), wanted, "checksum")
    return test


def _bypass(mpi):
    @timeout(300)
    def test(work):
        """The default: files are written to the prefix directory, and the oldest go."""
        job = Local(work, mpi, SCR_CACHE_BYPASS="1", SCR_PREFIX_SIZE="2")
        saved = job.killed_after(15)
        check((job.prefix / f"ckpt.{saved}/rank_3.heat").exists(), "it is there")
        check(not (job.prefix / "ckpt.5").exists(), "the window has two")
        check(not job.cache.exists(), "there is no cache")
        (job.prefix / f"ckpt.{saved}/rank_3.heat").write_bytes(b"short")
        result = job.finish()
        check_continued(result, saved - scr.INTERVAL, "it is not what was written")
    return test


def _halted(mpi, conditions, **keys):
    @timeout(300)
    def test(work):
        job = Local(work, mpi, 2, **keys)
        halt = job.prefix / ".scr/halt.scr"
        halt.parent.mkdir()
        halt.write_text(conditions())
        result = job.finish()
        check("the job is to end" in result.err, result.err)
        if keys.get("SCR_HALT_EXIT") != "1":
            check(re.search(r"^stopped at step \d+$", result.out, re.M), result.out)
        check("PASS" not in result.out, "it ends before its end")
        check(scr.newest_saved(result.out + "\nsaved ckpt.0\n") >= 0, result.out)
        halt.unlink()
        result = job.finish()
        check("restarted from ckpt." in result.out and "PASS" in result.out, result.out)
        check_equal(halt.read_text(), "ExitReason=SCR_FINALIZE_CALLED\n", "halt file")
    return test


def _in(seconds):
    return int(time.time()) + seconds


def _api(mpi):
    @timeout(120)
    def test(work):
        """Values by their sources, and calls that make no sense (tests/programs/scr/api.c)."""
        prefix, cache = work / "prefix", work / "cache"
        prefix.mkdir()
        (prefix / ".scrconf").write_text("# the user's\nSCR_FLUSH=2\n")
        (work / "system.conf").write_text("SCR_FLUSH=5\nSCR_SET_SIZE=4\nSCR_SET_FAILURES=4\n"
                                          "SCR_CACHE_SIZE=5\n")
        keys = {"SCR_PREFIX": str(prefix), "SCR_CACHE_BASE": str(cache), "SCR_CACHE_SIZE": "2",
                "SCR_CACHE_BYPASS": "0", "SCR_SYSTEM_CONF_FILE": str(work / "system.conf")}
        result = mpis.native(mpi, [mpis.program(mpi, "scr/api")], 2, prefix, 60, keys)
        result.expect_success(f"api\n{result.out}\n{process.tail(result.err)}")
        check_equal(result.out, "PASS\n", "output")
        for line in ("SCR_Start_output: SCR_Init has not been called",
                     "SCR_Finalize: an output has been started and is not complete",
                     "SCR_Config: values are set before SCR_Init",
                     "its files are not valid, the program says"):
            check(line in result.err, f"no {line!r} in\n{result.err}")
    return test


def _wrong_value(mpi):
    @timeout(120)
    def test(work):
        """SCR_Init fails on all ranks, and says why once."""
        job = Local(work, mpi, 2, SCR_FLUSH="often")
        result = job.start().wait(60)
        check(result.code != 0, "the program ends itself")
        check_equal(result.err.count("scr: SCR_FLUSH=often: it takes a number"), 1, result.err)
    return test


def _planned(mpi):
    @timeout(300)
    def test(work):
        """No key says how often, but FERMATA's configuration names the machine: the first
        checkpoint measures, the next comes when the plan says so."""
        machine = ('nodes = 1\nbytes-per-node = "1GB"\n'
                   'bandwidth = {{ local = "2GB", network = "10GB" }}\n'
                   'failure = [{{ name = "node", mttf = "{mttf}" }}]\n'
                   'level = [{{ kind = "local" }}]\n')
        job = Local(work, mpi, 2, SCR_CHECKPOINT_INTERVAL="0")
        (job.prefix / "fermata.toml").write_text('machine = "machine.toml"\n')
        saved = {}
        for mttf in ("10y", "1s"):
            (job.prefix / "machine.toml").write_text(machine.format(mttf=mttf))
            result = job.finish(SCR_CACHE_PURGE="1", SCR_FETCH="0")
            (job.prefix / ".scr/halt.scr").unlink()
            saved[mttf] = re.findall(r"^saved ckpt\.(\d+)$", result.out, re.M)
        check_equal(saved["10y"], ["1"], "only the first one is taken")
        check(saved["1s"][0] == "1" and len(saved["1s"]) > 2, f"often: {saved['1s']}")
        (job.prefix / "fermata.toml").unlink()
        result = job.finish(SCR_CACHE_PURGE="1", SCR_FETCH="0")
        check("saved ckpt" not in result.out, "without a machine nothing is advised")
    return test


def generate():
    found = {}
    for mpi in mpis.MPIS:
        found |= {
            f"test_api_{mpi}": _api(mpi),
            f"test_wrong_value_{mpi}": _wrong_value(mpi),
            f"test_killed_c_{mpi}": _killed(mpi, "c"),
            f"test_killed_fortran_{mpi}": _killed(mpi, "fortran"),
            f"test_two_of_a_set_{mpi}": slow(_too_many(mpi)),
            f"test_single_{mpi}": _single(mpi),
            f"test_bypass_{mpi}": _bypass(mpi),
            f"test_planned_{mpi}": slow(_planned(mpi)),
            f"test_halt_checkpoints_{mpi}": _halted(mpi, lambda: "CheckpointsLeft=2\n"),
            f"test_halt_reason_{mpi}": slow(_halted(mpi, lambda: "ExitReason=WANTED\n")),
            f"test_halt_after_{mpi}": slow(_halted(mpi, lambda: f"ExitAfter={_in(1)}\n")),
            f"test_halt_before_{mpi}": slow(_halted(
                mpi, lambda: f"ExitBefore={_in(60)}\nHaltSeconds=59\n")),
            f"test_halt_exit_{mpi}": slow(_halted(
                mpi, lambda: "CheckpointsLeft=2\n", SCR_HALT_EXIT="1")),
        }
        for copy_type in REBUILT:
            kind = copy_type.lower()
            missing = _file(mpi, copy_type, lambda path: path.unlink())
            found[f"test_missing_{kind}_{mpi}"] = missing if kind == "rs" else slow(missing)
        found[f"test_changed_xor_{mpi}"] = _file(
            mpi, "XOR", change, "files of rank 2 in the cache: rank_2.heat is not what was written")
        found[f"test_changed_partner_{mpi}"] = slow(_file(mpi, "PARTNER", change))
        found[f"test_changed_rs_{mpi}"] = slow(_file(mpi, "RS", change))
    return found
