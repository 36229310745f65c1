# SPDX-License-Identifier: Apache-2.0
"""Snapshots are sealed with a key of their owner's: what somebody else has made or changed is
refused, also where every checksum fits, and wherever it lies."""
import json
import pathlib
import shutil
import struct

from support import fermata, image, mpis, process
from support.cases import check, check_equal, timeout

STEPS = 8
DAMAGED, LAUNCHER = 4, 70
NOT_SEALED = "snapshots of this run are not sealed"


def _program(mpi="openmpi"):
    return [mpis.program(mpi, "selfcheck"), "--steps", STEPS, "--step-ms", 60]


def _saved_job(work, name="job", env=None, options=(), snapshots=1):
    """A stopped job."""
    job = fermata.Job(work, name)
    job.start("openmpi", _program(), env=env, options=options)
    for number in range(1, snapshots + 1):
        fermata.wait_for_step(job, 2 * number)
        job.checkpoint() if number < snapshots else job.checkpoint_and_stop()
    return job


def _environment(work, **more):
    return mpis.environment(FERMATA_DIR=str(work / "fermata"), **more)


def _with_key(work, name):
    """As somebody who has the key of that name."""
    return _environment(work, XDG_CONFIG_HOME=str(work / name))


def _keyless(work):
    """The environment where no key can be kept."""
    env = _environment(work)
    return {key: value for key, value in env.items() if key not in ("XDG_CONFIG_HOME", "HOME")}


def _exec_restore(work, snapshot):
    """What the launcher says, which has the last word: `exec` looks at the manifest alone."""
    command = [fermata.FERMATA, "exec", "--name", "again", "--restore", snapshot, "--",
               mpis.program("openmpi", "selfcheck")]
    return process.run([*mpis.mpirun("openmpi", 2), *map(str, command)], 60, _environment(work),
                       work)


def _refused(result, word, code=DAMAGED):
    check_equal(result.code, code, f"exit code\n{result.err}")
    check(word in result.err, f"'{word}' is missing in\n{result.err}")
    check("step" not in result.out, f"a rank ran:\n{result.out}")


def _refused_by_commands(job, word):
    for command in ("verify", "restart"):
        _refused(fermata.fermata(job.work, command, job.name), word)


def _goes_on(job, env=None, options=()):
    job._launch("restart", job.name, "--mpi", "mpich", *options, env=env)
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


def _raw_key(directory):
    return bytes.fromhex((pathlib.Path(directory) / "fermata/key").read_text())


def _forge_checksum(page, wanted):
    """Changes the first byte of a page, and its last four so that the CRC32C stays as it was."""
    page[0] ^= 1
    state = image.crc32c(page[:-4]) ^ 0xffffffff
    wanted ^= 0xffffffff
    for _ in range(4):  # backwards: which entry of the table shifted this state out?
        index = next(i for i, one in enumerate(image.CRC_TABLE) if one >> 24 == wanted >> 24)
        wanted = (wanted ^ image.CRC_TABLE[index]) << 8 | index
    page[-4:] = struct.pack("<I", state ^ wanted)


def _change_pages(path, fit):
    """Changes pages of an image's smallest extent."""
    with open(path, "r+b") as file:
        extents = image.Extents(file)
        index = min(range(extents.count), key=lambda one: extents.get(one)[1])
        _, size, offset, crc, _ = extents.get(index)
        file.seek(offset)
        page = bytearray(file.read(size))
        fit(extents, index, page, crc)
        file.seek(offset)
        file.write(page)


def _keep_checksum(_extents, _index, page, crc):
    _forge_checksum(page, crc)
    check_equal(image.crc32c(page), crc, "checksum of forged pages")


def _new_checksum(extents, index, page, _crc):
    page[17] ^= 1
    extents.put_checksum(index, image.crc32c(page))


def _changed_pages_are_refused(job):
    snapshot = job.snapshots()[-1]
    _change_pages(snapshot / "rank-1.img", _keep_checksum)
    _refused_by_commands(job, "rank 1: rank-1.img: the pages saved")
    _refused(_exec_restore(job.work, snapshot), "(errno 1)", code=LAUNCHER)


@timeout(120)
def test_pages_changed_under_the_same_checksum(work):
    _changed_pages_are_refused(_saved_job(work))


@timeout(120)
def test_a_changed_image_in_which_every_checksum_fits(work):
    """By the manifest first; where that is left alone, by the image."""
    job = _saved_job(work)
    snapshot = job.snapshots()[-1]
    manifest = (snapshot / "manifest.json").read_text()
    _change_pages(snapshot / "rank-1.img", _new_checksum)
    image.fit_manifest(snapshot)
    _refused_by_commands(job, "manifest.json: changed since")
    (snapshot / "manifest.json").write_text(manifest)
    _refused_by_commands(job, "rank 1: rank-1.img: changed since")
    _refused(_exec_restore(work, snapshot), "changed by somebody who has not your key",
             code=LAUNCHER)


@timeout(120)
def test_a_changed_manifest_whose_checksum_fits(work):
    """The program of a job that saves itself, say."""
    job = _saved_job(work)
    path = job.snapshots()[-1] / "manifest.json"
    path.write_text(path.read_text().replace("selfcheck", "selfchecl"))
    image.fit_manifest(path.parent)
    _refused(fermata.fermata(work, "restart", job.name), "manifest.json: changed since")
    _refused(_exec_restore(work, path.parent), "manifest.json: changed since", code=DAMAGED)


@timeout(150)
def test_images_of_two_runs_are_not_mixed(work):
    """Of the same job, checkpoint and rank, sealed with the same key."""
    job = _saved_job(work)
    snapshot, other = job.snapshots()[-1], work / "other.img"
    shutil.copy(snapshot / "rank-1.img", other)
    shutil.rmtree(work / "fermata")
    job = _saved_job(work)
    shutil.copy(other, snapshot / "rank-1.img")
    sealed = json.loads((snapshot / "manifest.json").read_text())
    check(sealed["key"] and sealed["mac"], "the manifest is not sealed")
    _refused(fermata.fermata(work, "restart", job.name), "not the file the manifest describes")


@timeout(120)
def test_an_older_snapshot_in_the_place_of_a_newer_one(work):
    job = _saved_job(work, snapshots=2)
    old, new = job.snapshots()
    shutil.rmtree(new)
    shutil.copytree(old, new)
    _refused(fermata.fermata(work, "restart", job.name), "is checkpoint 1, not 2")


@timeout(120)
def test_a_snapshot_sealed_with_another_key(work):
    """Somebody else's, or of a machine with another home. Who knows it takes it over."""
    job = _saved_job(work, env={"XDG_CONFIG_HOME": str(work / "theirs")})
    snapshot, mine = job.snapshots()[-1], _with_key(work, "mine")
    result = fermata.fermata(work, "restart", job.name, env=mine)
    _refused(result, "sealed with another key than yours")
    check("fermata trust" in result.err, result.err)
    looked = fermata.fermata(work, "verify", job.name, env=mine).expect_success("verify")
    check("sealed with another key than yours" in looked.out, looked.out)
    fermata.fermata(work, "inspect", job.name, env=mine).expect_success("inspect")
    fermata.fermata(work, "trust", snapshot, env=mine).expect_success("trust")
    looked = fermata.fermata(work, "verify", job.name, env=mine).expect_success("verify")
    check("sealed with your key" in looked.out, looked.out)
    _goes_on(job, env={"XDG_CONFIG_HOME": str(work / "mine")})


@timeout(120)
def test_where_no_key_can_be_kept(work):
    """Jobs run, and say so once. What they save is not believed where there is a key."""
    job = fermata.Job(work)
    env = {**_keyless(work), "CHECK_HOLD": str(job.hold)}
    job.hold.touch()
    run = [fermata.FERMATA, "run", "-n", 2, "--mpi", "openmpi", "--name", "job", "--", *_program()]
    job.running = process.Running(list(map(str, run)), work, name="job.run1", env=env, cwd=work)
    fermata.wait_for_step(job, 2)
    job.checkpoint_and_stop()
    check_equal(job.running.err.count(NOT_SEALED), 1, f"times it was said\n{job.running.err}")
    result = fermata.fermata(work, "restart", job.name)
    _refused(result, "not sealed with your key")
    job.release()
    done = fermata.fermata(work, "restart", "job", "--mpi", "mpich", env=env, timeout_s=90)
    done.expect_success("restart without a key")
    check_equal(mpis.checksum(done.out), mpis.expected("selfcheck", 2, STEPS), "checksum")
    check(fermata.fermata(work, "trust", job.name, env=env).code != 0, "trust without a key")
    fermata.fermata(work, "trust", job.name).expect_success("trust")
    _goes_on(job)


@timeout(120)
def test_a_sealed_snapshot_where_there_is_no_key(work):
    job = _saved_job(work)
    result = fermata.fermata(work, "restart", job.name, env=_keyless(work))
    _refused(result, "sealed, and there is no key here")
    fermata.fermata(work, "verify", job.name, env=_keyless(work)).expect_success("verify")


@timeout(120)
def test_a_key_that_others_can_read_seals_nothing(work):
    env = _with_key(work, "mine")
    job = _saved_job(work, env={"XDG_CONFIG_HOME": str(work / "mine")})
    key = work / "mine/fermata/key"
    check_equal(key.stat().st_mode & 0o777, 0o600, "mode of the key")
    check_equal(key.parent.stat().st_mode & 0o777, 0o700, "mode of its directory")
    key.chmod(0o640)
    _refused(fermata.fermata(work, "restart", job.name, env=env), "there is no key here")
    job = fermata.Job(work, "other")
    job.start("openmpi", _program(), env={"XDG_CONFIG_HOME": str(work / "mine")})
    text = job.finish() and job.running.err
    check(NOT_SEALED in text and "others may read it" in text, text)


@timeout(120)
def test_no_image_holds_the_key(work):
    job = _saved_job(work, env={"XDG_CONFIG_HOME": str(work / "mine")})
    key = _raw_key(work / "mine")
    for path in job.snapshots()[-1].iterdir():
        data = path.read_bytes()
        check(key not in data and key.hex().encode() not in data, f"{path} holds the key")


# ---- encrypted ----------------------------------------------------------------------------------

WORDS = b"these words are in the environment of the program"


def _encrypted_job(work, **more):
    return _saved_job(work, options=["--encrypt"], env={"CHECK_WORDS": WORDS.decode()}, **more)


def _sealings(work, job):
    shown = fermata.fermata(work, "--json", "inspect", job.name).expect_success("inspect")
    return {one["sealing"] for one in json.loads(shown.out)["images"]}


def _hold(snapshot, words):
    return [words in path.read_bytes() for path in sorted(snapshot.glob("*.img"))]


@timeout(150)
def test_memory_is_in_no_encrypted_image(work):
    """And in every other. A restart goes on with encryption, without a word."""
    open_job = _saved_job(work, "open", env={"CHECK_WORDS": WORDS.decode()})
    check_equal(_hold(open_job.snapshots()[-1], WORDS), [True, True], "words in plain images")
    job = _encrypted_job(work)
    job.restart("mpich")
    fermata.wait_for_step(job, 5)
    job.checkpoint_and_stop()
    for snapshot in job.snapshots():
        check_equal(_hold(snapshot, WORDS), [False, False], "words in encrypted images")
        fermata.fermata(work, "verify", snapshot).expect_success("verify")
    check_equal(_sealings(work, job), {"encrypted"}, "how the second snapshot is sealed")
    _goes_on(job)


@timeout(120)
def test_a_changed_extent_of_an_encrypted_image(work):
    _changed_pages_are_refused(_encrypted_job(work))


@timeout(120)
def test_an_encrypted_snapshot_without_its_key(work):
    """It can be looked at and checked for damage; nobody else restarts it or takes it over."""
    job = _encrypted_job(work)
    theirs = _with_key(work, "theirs")
    _refused(fermata.fermata(work, "restart", job.name, env=theirs), "sealed with another key")
    fermata.fermata(work, "verify", job.name, env=theirs).expect_success("verify")
    _refused(fermata.fermata(work, "trust", job.name, env=theirs),
             "encrypted with another key than yours")
    _goes_on(job)


@timeout(60)
def test_encryption_that_is_not_possible_is_refused(work):
    for env, words, word in ((_keyless(work), [], "there is no key to encrypt with"),
                             (_environment(work), ["--checkpointer", "self"], "saves itself")):
        result = fermata.fermata(work, "run", "--encrypt", *words, "--", *_program(), env=env)
        check_equal(result.code, 3, f"exit code\n{result.err}")
        check(word in result.err and "hint" in result.err, result.err)
    check(not list((work / "fermata").glob("*")), "a directory of a job was made")


@timeout(120)
def test_a_key_that_is_gone_when_an_encrypted_job_is_saved(work):
    """The checkpoint fails, nothing lies in clear anywhere, and the job runs on."""
    home = {"XDG_CONFIG_HOME": str(work / "mine")}
    job = fermata.Job(work)
    job.start("openmpi", _program(), options=["--encrypt"], env=home)
    fermata.wait_for_step(job, 2)
    key = work / "mine/fermata/key"
    key.rename(work / "key")
    result = fermata.fermata(work, "checkpoint", job.name)
    check(result.code != 0 and "cannot be encrypted" in result.err, result.err)
    check_equal(job.snapshots(), [], "snapshots")
    (work / "key").rename(key)
    job.checkpoint_and_stop()
    _goes_on(job, env=home)


@timeout(120)
def test_a_key_that_is_gone_when_a_job_is_saved(work):
    """Whoever commits the snapshot has it still, and seals the images."""
    home = {"XDG_CONFIG_HOME": str(work / "mine")}
    job = fermata.Job(work)
    job.start("openmpi", _program(), env=home)
    fermata.wait_for_step(job, 2)
    key = work / "mine/fermata/key"
    key.rename(work / "key")
    job.checkpoint_and_stop()
    (work / "key").rename(key)
    looked = fermata.fermata(work, "verify", job.name, env=_with_key(work, "mine"))
    check("sealed with your key" in looked.expect_success("verify").out, looked.out)
    _goes_on(job, env=home)
