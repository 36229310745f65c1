# SPDX-License-Identifier: Apache-2.0
"""Snapshots that were harmed on disk: noticed before any rank runs, named, and nothing restarts.
The intact snapshot before it is still good."""
from support import fermata, mpis
from support.cases import check, check_equal, timeout

DAMAGED = 4  # exit code


def _saved_job(work, snapshots=1):
    """A stopped job with `snapshots` committed snapshots."""
    job = fermata.Job(work)
    job.start("openmpi", [mpis.program("openmpi", "selfcheck"), "--steps", 12, "--step-ms", 60])
    for number in range(1, snapshots):
        fermata.wait_for_step(job, 2 * number)
        job.checkpoint()
    fermata.wait_for_step(job, 2 * snapshots + 1)
    job.checkpoint_and_stop()
    check_equal(len(job.snapshots()), snapshots, "snapshots")
    return job


def _expect_damage(work, job, word):
    snapshot = fermata.newest_snapshot(job)
    verify = fermata.fermata(work, "verify", snapshot)
    check_equal(verify.code, DAMAGED, f"exit code of verify\n{verify.err}")
    check(word in verify.err + verify.out, f"verify names {word!r}: {verify.err}{verify.out}")
    restart = fermata.fermata(work, "restart", snapshot, "--mpi", "openmpi")
    check_equal(restart.code, DAMAGED, f"exit code of restart\n{restart.err}")
    check("step" not in restart.out and "PASS" not in restart.out, "no rank ran")


@timeout(90)
def test_intact_snapshot_verifies(work):
    job = _saved_job(work)
    fermata.fermata(work, "verify", fermata.newest_snapshot(job)).expect_success("verify")


@timeout(90)
def test_flipped_bit_in_the_payload(work):
    job = _saved_job(work)
    image = fermata.images(fermata.newest_snapshot(job))[1]
    with open(image, "r+b") as file:
        file.seek(image.stat().st_size * 3 // 4)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0x10]))
    _expect_damage(work, job, image.name)


@timeout(90)
def test_flipped_bit_in_the_header(work):
    job = _saved_job(work)
    image = fermata.images(fermata.newest_snapshot(job))[0]
    with open(image, "r+b") as file:
        file.seek(24)
        byte = file.read(1)
        file.seek(24)
        file.write(bytes([byte[0] ^ 1]))
    _expect_damage(work, job, image.name)


@timeout(90)
def test_truncated_image(work):
    job = _saved_job(work)
    image = fermata.images(fermata.newest_snapshot(job))[1]
    with open(image, "r+b") as file:
        file.truncate(image.stat().st_size - 5000)
    _expect_damage(work, job, image.name)


@timeout(90)
def test_missing_rank(work):
    job = _saved_job(work)
    image = fermata.images(fermata.newest_snapshot(job))[1]
    image.unlink()
    _expect_damage(work, job, image.name)


@timeout(90)
def test_image_of_another_epoch(work):
    job = _saved_job(work, snapshots=2)
    old, new = job.snapshots()
    (new / "rank-1.img").write_bytes((old / "rank-1.img").read_bytes())
    _expect_damage(work, job, "rank-1.img")


@timeout(120)
def test_previous_snapshot_is_still_good(work):
    job = _saved_job(work, snapshots=2)
    fermata.images(job.snapshots()[1])[0].unlink()
    job._launch("restart", job.snapshots()[0], "--mpi", "mpich")
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, 12), "checksum")
