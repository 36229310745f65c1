# SPDX-License-Identifier: Apache-2.0
"""Snapshots that were harmed, mixed up or made by somebody else: noticed before any rank runs,
named, and nothing restarts. The intact snapshot before is still good, and the message names it."""
import json
import os
import re
import shutil
import struct

from support import fermata, mpis, process
from support.cases import Skipped, check, check_equal, timeout
from support.errors import DAMAGED, NOTHING_RAN, REFUSED, expect, record
from support.image import crc32c

DAMAGE, OWNER, CHOICE = "Damaged snapshots", "Snapshots of others", "Snapshots that are not there"
PROGRAM, PLACE = "Files of the program", "Where it is restarted"
LAUNCHER = 70  # exit code of a rank that its launcher has ended
STEPS = 12
EARLIER = "the snapshot before was restarted"
IMAGE_HEADER_BYTES = 4096


def _saved_job(work, snapshots=2, name="job", ranks=2):
    """A stopped job with `snapshots` committed snapshots."""
    job = fermata.Job(work, name)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", STEPS, "--step-ms", 60],
              ranks)
    for number in range(1, snapshots):
        fermata.wait_for_step(job, 2 * number)
        job.checkpoint()
    fermata.wait_for_step(job, 2 * snapshots + 1)
    job.checkpoint_and_stop()
    check_equal(len(job.snapshots()), snapshots, "snapshots")
    return job


def _refused(work, job, case, *words, code=DAMAGED, group=DAMAGE):
    """The newest snapshot is refused by restart (and, if it is damaged, by verify); the one
    before it restarts."""
    old, new = job.snapshots()
    if code == DAMAGED:
        verify = fermata.fermata(work, "verify", new)
        check_equal(verify.code, code, f"exit code of verify\n{verify.err}")
        expect(verify.err, *words)
    restart = fermata.fermata(work, "restart", new, "--mpi", "openmpi")
    text = record(group, case, restart, code, EARLIER)
    expect(text, *words, "hint")
    check("step" not in restart.out and "PASS" not in restart.out, "no rank ran")
    if code == DAMAGED:
        expect(text, f"fermata restart DIR/fermata/job/snapshots/{old.name}")
    job._launch("restart", old, "--mpi", "mpich")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


def _flip(path, offset, bit=1):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ bit]))


def _image(job, rank):
    return job.snapshots()[-1] / f"rank-{rank}.img"


def test_crc32c(_work):
    check_equal(crc32c(b"123456789"), 0xe3069283, "check value of CRC-32C")


@timeout(90)
def test_intact_snapshot_verifies(work):
    job = _saved_job(work, 1)
    fermata.fermata(work, "verify", fermata.newest_snapshot(job)).expect_success("verify")


@timeout(120)
def test_flipped_bit_in_the_payload(work):
    job = _saved_job(work)
    _flip(_image(job, 1), _image(job, 1).stat().st_size * 3 // 4, 0x10)
    _refused(work, job, "a flipped bit in saved memory", "rank 1", "rank-1.img", "damaged")


@timeout(120)
def test_flipped_bit_in_the_header(work):
    job = _saved_job(work)
    _flip(_image(job, 0), 24)
    _refused(work, job, "a flipped bit in the header", "rank 0", "rank-0.img", "damaged")


@timeout(120)
def test_flipped_bit_in_the_manifest(work):
    job = _saved_job(work)
    manifest = job.snapshots()[-1] / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"epoch": 2', '"epoch": 3'))
    _refused(work, job, "a changed manifest", "manifest.json", "checksum")


@timeout(120)
def test_truncated(work):
    job = _saved_job(work)
    with open(_image(job, 1), "r+b") as file:
        file.truncate(_image(job, 1).stat().st_size - 5000)
    _refused(work, job, "a truncated image", "rank 1", "rank-1.img", "truncated")


@timeout(120)
def test_without_a_rank(work):
    job = _saved_job(work)
    _image(job, 1).unlink()
    _refused(work, job, "an image is missing", "rank 1", "rank-1.img", "missing")


@timeout(120)
def test_without_a_manifest(work):
    job = _saved_job(work)
    (job.snapshots()[-1] / "manifest.json").unlink()
    _refused(work, job, "the manifest is missing", "manifest.json")


@timeout(120)
def test_image_of_another_epoch(work):
    job = _saved_job(work)
    old, new = job.snapshots()
    (new / "rank-1.img").write_bytes((old / "rank-1.img").read_bytes())
    _refused(work, job, "an image of an earlier checkpoint", "rank-1.img", "checkpoint 1, not 2")


@timeout(150)
def test_image_of_another_job(work):
    job, other = _saved_job(work), _saved_job(work, name="other")
    (_image(job, 1)).write_bytes(_image(other, 1).read_bytes())
    _refused(work, job, "an image of another job", "rank-1.img", "belongs to job 'other'")


@timeout(150)
def test_image_of_another_rank_count(work):
    job = _saved_job(work)
    job.snapshots()[0].parent.parent.rename(work / "fermata/kept")
    wider = _saved_job(work, ranks=3)
    data = _image(wider, 1).read_bytes()
    job.snapshots()[0].parent.parent.rename(work / "fermata/wide")
    (work / "fermata/kept").rename(work / "fermata/job")
    _image(job, 1).write_bytes(data)
    _refused(work, job, "an image of a job with another number of ranks", "rank-1.img",
             "rank 1 of 3, not 1 of 2")


@timeout(120)
def test_image_of_another_version(work):
    """The version is followed by a checksum of the header, which is made to fit."""
    job = _saved_job(work)
    version_at, crc_at = _header_offsets()
    with open(_image(job, 1), "r+b") as file:
        header = bytearray(file.read(IMAGE_HEADER_BYTES))
        header[version_at:version_at + 4] = struct.pack("<I", 999)
        header[crc_at:crc_at + 4] = bytes(4)
        header[crc_at:crc_at + 4] = struct.pack("<I", crc32c(header))
        file.seek(0)
        file.write(header)
    _refused(work, job, "an image of another version", "rank-1.img", "version 999")


def _header_offsets():
    """Where spec/image.toml puts version and checksum, as the generator has written it down."""
    text = (mpis.ROOT / "control/types/src/image_gen.rs").read_text()
    crc = int(text.split("IMAGE_HEADER_CRC_OFFSET: usize = ")[1].split(";")[0])
    return 8, crc


@timeout(120)
def test_manifest_of_another_version(work):
    job = _saved_job(work)
    path = job.snapshots()[-1] / "manifest.json"
    sealed = json.loads(path.read_text())
    sealed["manifest"]["format"] = 999
    compact = json.dumps(sealed["manifest"], separators=(",", ":"), ensure_ascii=False)
    sealed["crc32c"] = crc32c(compact.encode())
    path.write_text(json.dumps(sealed))
    _refused(work, job, "a manifest of another version", "manifest.json", "999")


# ---- the program's files ------------------------------------------------------------------------

@timeout(120)
def test_program_that_has_changed(work):
    job, program = fermata.Job(work), work / "program"
    shutil.copy2(mpis.program("openmpi", "selfcheck"), program)
    job.start("openmpi", [program, "--steps", STEPS, "--step-ms", 60])
    fermata.wait_for_step(job, 3)
    job.checkpoint_and_stop()
    kept = program.rename(work / "kept")
    missing = fermata.fermata(work, "restart", "job", "--mpi", "mpich")
    expect(record(PROGRAM, "a file of the program is missing", missing, REFUSED, NOTHING_RAN),
           f"DIR/{program.name}: is missing", "hint")
    shutil.copy2(mpis.program("openmpi", "compute"), program)
    changed = fermata.fermata(work, "restart", "job", "--mpi", "mpich")
    text = record(PROGRAM, "a file of the program has changed", changed, REFUSED, NOTHING_RAN)
    now, before = re.findall(r"[0-9a-f]{40}", changed.err)
    check(now != before and text.count("program:") == 1, text)
    expect(text, f"DIR/{program.name}: has the build-id", "it was", "hint")
    check("fermata: " not in changed.err.replace("fermata: ", "", 1), "no rank has said anything")
    kept.rename(program)
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


@timeout(120)
def test_files_are_limited(work):
    """A soft limit is raised until the MPI is there; under a hard one no MPI has shared memory."""
    job = _saved_job(work, 1)
    job._launch("restart", job.snapshots()[0], "--mpi", "mpich",
                under=["prlimit", f"--fsize={2 << 20}:{2 << 20}"])
    result = job.running.wait(60)
    text = record(PLACE, "files may not be as large as an MPI's shared memory", result,
                  LAUNCHER, EARLIER)
    expect(text, "at most 2097152 bytes", "hint: ulimit -f unlimited")
    check("step" not in result.out, "no rank ran")
    job.restart("mpich", under=["prlimit", f"--fsize={2 << 20}:"])
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


# ---- owners -------------------------------------------------------------------------------------

def _need_root():
    if os.getuid() != 0:
        raise Skipped("only root can make files of other users")


@timeout(120)
def test_snapshot_of_another_user(work):
    _need_root()
    job = _saved_job(work)
    os.chown(_image(job, 1), 65534, 65534)
    _refused(work, job, "a snapshot that belongs to another user", "rank-1.img", "user 65534",
             "sudo -u", code=REFUSED, group=OWNER)


@timeout(120)
def test_snapshot_that_may_not_be_read(work):
    _need_root()
    job = _saved_job(work)
    newest = job.snapshots()[-1]
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", fermata.FERMATA]
    environment = mpis.environment(FERMATA_DIR=str(work / "fermata"), HOME=str(work))
    restart = process.run([*command, "restart", newest], 30, environment, "/")
    text = record(OWNER, "a snapshot that you may not read", restart, REFUSED,
                  "nothing was started")
    expect(text, str("snapshots/2"), "hint")
    taken = process.run([*command, "checkpoint", "job"], 30, environment, "/")
    check_equal(taken.code, REFUSED, f"checkpoint of somebody's job: {taken.err}")
    job.restart("mpich")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


# ---- nothing there ------------------------------------------------------------------------------

def test_no_such_job(work):
    result = fermata.fermata(work, "restart", "nobody")
    expect(record(CHOICE, "restart of a job that does not exist", result, REFUSED, "-"),
           "'nobody'", "fermata jobs")


@timeout(60)
def test_job_without_a_snapshot(work):
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "argv_env"), *mpis.own_arguments(
        "argv_env", work), "--steps", 1])
    job.finish()
    result = fermata.fermata(work, "restart", "job")
    expect(record(CHOICE, "restart of a job without a snapshot", result, REFUSED, "-"),
           "no snapshot", "hint")
