# SPDX-License-Identifier: Apache-2.0
"""Snapshots are sealed with a key of their owner's: what somebody else has made or changed is
refused, also where every checksum fits, and wherever it lies."""
import json
import shlex
import shutil

from support import errors, fermata, image, mpis, namespaces, process
from support.cases import check, check_equal, timeout

STEPS = 8
REFUSED, DAMAGED, LAUNCHER = 3, 4, 70
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


def _unusable_key(work):
    key = work / "mine/fermata/key"
    key.parent.mkdir(parents=True)
    key.write_text("not a key\n")
    key.chmod(0o600)
    return "mine"


def _keyless(work):
    """The environment where no key can be kept."""
    env = _environment(work)
    return {key: value for key, value in env.items() if key not in ("XDG_CONFIG_HOME", "HOME")}


def _exec_restore(work, snapshot, env=None):
    """What the launcher says, which has the last word: `exec` looks at the manifest alone."""
    command = [fermata.FERMATA, "exec", "--name", "again", "--restore", snapshot, "--",
               mpis.program("openmpi", "selfcheck")]
    return process.run([*mpis.mpirun("openmpi", 2), *map(str, command)], 60,
                       env or _environment(work), work)


def _refused(result, word, code=DAMAGED):
    check_equal(result.code, code, f"exit code\n{result.err}")
    check(word in result.err, f"'{word}' is missing in\n{result.err}")
    check("step" not in result.out, f"a rank ran:\n{result.out}")


def _refused_by_commands(job, word):
    for command in ("verify", "restart"):
        _refused(fermata.fermata(job.work, command, job.name), word)


def _contents(snapshot):
    return {path.name: path.read_bytes() for path in snapshot.iterdir()}


def _not_taken_over(work, snapshot, word, env=None, code=DAMAGED):
    """Nor is anything written to it."""
    before = _contents(snapshot)
    _refused(fermata.fermata(work, "trust", snapshot, env=env), word, code)
    check(_contents(snapshot) == before, "the snapshot was changed")


def _resumes(job, env=None, options=()):
    job._launch("restart", job.name, "--mpi", "mpich", *options, env=env)
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")


def _keep_checksum(_extents, _index, page, crc):
    image.forge_checksum(page, crc)
    check_equal(image.crc32c(page), crc, "checksum of forged pages")


def _new_checksum(extents, index, page, _crc):
    page[17] ^= 1
    extents.put_checksum(index, image.crc32c(page))


def _changed_pages_are_refused(job):
    snapshot = job.snapshots()[-1]
    image.change_pages(snapshot / "rank-1.img", _keep_checksum)
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
    image.change_pages(snapshot / "rank-1.img", _new_checksum)
    image.fit_manifest(snapshot)
    _refused_by_commands(job, "manifest.json: changed since")
    _not_taken_over(work, snapshot, "manifest.json: changed since")
    (snapshot / "manifest.json").write_text(manifest)
    _refused_by_commands(job, "rank 1: rank-1.img: changed since")
    _not_taken_over(work, snapshot, "rank-1.img: changed since")
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
    """Of the same job, checkpoint and rank, sealed with the same key. Nor does anybody take that
    over."""
    job = _saved_job(work)
    snapshot, other = job.snapshots()[-1], work / "other.img"
    shutil.copy(snapshot / "rank-1.img", other)
    shutil.rmtree(work / "fermata")
    job = _saved_job(work)
    shutil.copy(other, snapshot / "rank-1.img")
    sealed = json.loads((snapshot / "manifest.json").read_text())
    check(sealed["key"] and sealed["mac"], "the manifest is not sealed")
    _refused(fermata.fermata(work, "restart", job.name), "not the file the manifest describes")
    for env in (None, _with_key(work, "other")):
        _not_taken_over(work, snapshot, "rank-1.img: is not the file the manifest describes", env)
    _refused(_exec_restore(work, snapshot), "not the one that the manifest lists", code=LAUNCHER)


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
    _resumes(job, env={"XDG_CONFIG_HOME": str(work / "mine")})


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
    _resumes(job)


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
    _refused(fermata.fermata(work, "restart", job.name, env=env), "others may read it", REFUSED)
    job = fermata.Job(work, "other")
    job.start("openmpi", _program(), env={"XDG_CONFIG_HOME": str(work / "mine")})
    text = job.finish() and job.running.err
    check(NOT_SEALED in text and "others may read it" in text, text)


@timeout(120)
def test_a_key_that_cannot_be_used_is_not_as_good_as_none(work):
    """What is not sealed is believed where there never was a key, and not where it is lost to
    sight."""
    job = _saved_job(work, env={"XDG_CONFIG_HOME": "/dev/null"})
    snapshot, env = job.snapshots()[-1], _with_key(work, _unusable_key(work))
    _refused(fermata.fermata(work, "restart", job.name, env=env), "is no key", REFUSED)
    _refused(_exec_restore(work, snapshot, env),
             "cannot be used, so nothing shows whether this is yours")
    _not_taken_over(work, snapshot, "is no key", env, REFUSED)
    fermata.fermata(work, "verify", job.name, env=env).expect_success("verify")


@timeout(120)
def test_a_key_that_cannot_be_used_on_a_host_of_ranks(work):
    """Where the restart was started there is none, and nothing is sealed."""
    none = {"XDG_CONFIG_HOME": "/dev/null"}
    job = _saved_job(work, env=none)
    ranks = ["--mpirun-arg=-x", f"--mpirun-arg=XDG_CONFIG_HOME={work / _unusable_key(work)}"]
    result = fermata.fermata(work, "restart", job.name, "--local-dir", work / "images", *ranks,
                             env=_environment(work, **none))
    _refused(result, "is no key", REFUSED)


@timeout(120)
def test_looking_makes_no_key(work):
    job = _saved_job(work)
    for words in (["verify", job.name], ["inspect", job.name], ["snapshots", job.name]):
        result = fermata.fermata(work, *words, env=_with_key(work, "fresh"))
        result.expect_success(words[0])
    check(not (work / "fresh").exists(), "a key was made")


@timeout(120)
def test_what_others_may_write_to_is_not_taken_over(work):
    job = _saved_job(work, env={"XDG_CONFIG_HOME": str(work / "theirs")})
    snapshot = job.snapshots()[-1]
    snapshot.chmod(0o775)
    _not_taken_over(work, snapshot, "others may write to it (mode 775)", code=REFUSED)
    snapshot.chmod(0o700)
    picture = snapshot / "rank-1.img"
    picture.chmod(0o664)
    _not_taken_over(work, snapshot, "others may write to it (mode 664)")
    picture.chmod(0o600)
    picture.rename(work / "elsewhere.img")
    picture.symlink_to(work / "elsewhere.img")
    _not_taken_over(work, snapshot, "is a link")


@timeout(120)
def test_a_takeover_that_fails_changes_nothing(work):
    """The disk is full when the manifest is written: then the images are what they were."""
    job = _saved_job(work, env={"XDG_CONFIG_HOME": str(work / "theirs")})
    snapshot = job.snapshots()[-1]
    room = sum(path.stat().st_size // 4096 + 1 for path in snapshot.iterdir()) + 8
    disk = work / "disk"
    disk.mkdir()
    words = [fermata.FERMATA, "trust", disk / "3"]
    script = (f'mount -t tmpfs -o size={4 * room}k none "$0" && cp -r "$1" "$0/3" && '
              'chmod 700 "$0/3" && { cat /dev/zero > "$0/rest" 2> /dev/null; '
              f'{shlex.join(map(str, words))}; code=$?; cp -r "$0/3" "$2" && exit $code; }}')
    ran = process.run([*namespaces.own_mounts(), "sh", "-c", script, disk, snapshot, work / "left"],
                      60, _environment(work), work)
    check_equal(ran.code, 1, ran.err)
    check("cannot seal" in ran.err and "No space left" in ran.err, ran.err)
    left = {name: data for name, data in _contents(work / "left").items() if "partial" not in name}
    check(left == _contents(snapshot), "the snapshot was changed")


def _memory(pid):
    """What a process has in its memory, piece by piece; pieces overlap. Left out is the arena, GiBs
    of the program's half of which little is used: images hold that."""
    piece, overlap, arena = 8 << 20, 128, 1 << 30
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            where, rights = line.split()[:2]
            start, end = (int(number, 16) for number in where.split("-"))
            if not rights.startswith("rw") or end - start > arena:
                continue
            for at in range(start, end, piece):
                memory.seek(at)
                yield memory.read(min(piece + overlap, end - at))


def _no_rank_has(job, key):
    """The words in the program's environment show that the look does not miss what is there."""
    ranks = errors.ranks_of(job)
    check_equal(len(ranks), 2, "ranks")
    for pid in ranks:
        found = {word for data in _memory(pid) for word in (key, key.hex().encode(), WORDS)
                 if word in data}
        check_equal(found, {WORDS}, f"what is in the memory of {pid}")


@timeout(150)
def test_no_image_holds_the_key(work):
    """Nor has a rank it in its memory: one that was saved, or was brought back."""
    home = {"XDG_CONFIG_HOME": str(work / "mine")}
    job = fermata.Job(work)
    job.start("openmpi", [*_program()[:1], "--steps", 20_000, "--step-ms", 60],
              env={**home, "CHECK_WORDS": WORDS.decode()})
    for number in (1, 2):
        fermata.wait_for_step(job, 3)
        job.checkpoint()
        key = bytes.fromhex((work / "mine/fermata/key").read_text())
        _no_rank_has(job, key)
        job.checkpoint_and_stop()
        for path in job.snapshots()[-1].iterdir():
            data = path.read_bytes()
            check(key not in data and key.hex().encode() not in data, f"{path} holds the key")
        if number == 1:
            job._launch("restart", job.name, "--mpi", "mpich", env=home)


# ---- the record of a job ------------------------------------------------------------------------

QUIET = "--mpirun-arg=--quiet"
NOT_TAKEN = "job.json is not sealed with your key for this job: hosts, "


def _resumes_as(job, record):
    """Restarts a job with that text as its record. Returns what was said."""
    (job.work / "fermata" / job.name / "job.json").write_text(record)
    job._launch("restart", job.name)
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")
    return job.running.err


@timeout(150)
def test_a_record_that_somebody_has_written_runs_nothing(work):
    """A job's directory comes back from an archive, say: its files are the user's own. What it says
    of checkpoints and the MPI may be followed, what it says of commands and hosts may not."""
    job = _saved_job(work, options=[QUIET, "--keep", "3"])
    text = (work / "fermata/job/job.json").read_text()
    told = _resumes_as(job, text)
    check("--keep 3" in told and QUIET in told and NOT_TAKEN not in told, told)
    evil = work / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {work}/ran\n")
    evil.chmod(0o755)
    changed = {**json.loads(text), "mpirun_args": ["-n", "1", str(evil), ":"], "keep": 4,
               "remote_shell": str(evil), "hosts": ["nowhere:2"], "local_dir": str(work / "disk")}
    unsealed = {key: value for key, value in changed.items() if key not in ("key", "mac")}
    for record in (changed, unsealed):
        told = _resumes_as(job, json.dumps(record))
        check(NOT_TAKEN in told and "hint: " in told and "--keep 4" in told, told)
        check("--host " not in told and "evil" not in told, told)
    check(not (work / "ran").exists() and not (work / "disk").exists(), "a record was obeyed")
    told = _resumes_as(job, text.replace('"ended_well": false', '"ended_well": true'))
    check(NOT_TAKEN in told, told)


@timeout(150)
def test_the_record_of_another_job_is_not_followed(work):
    """It is sealed with the same key."""
    other = _saved_job(work, "other", options=[QUIET])
    job = _saved_job(work)
    told = _resumes_as(job, (work / "fermata" / other.name / "job.json").read_text())
    check(NOT_TAKEN in told and QUIET not in told, told)


@timeout(120)
def test_a_record_where_there_is_no_key(work):
    """Its owner alone counts, as for a snapshot that was saved there."""
    job, env = fermata.Job(work), _keyless(work)
    job.hold.touch()
    run = [fermata.FERMATA, "run", "-n", 2, "--mpi", "openmpi", "--name", "job", QUIET, "--",
           *_program()]
    job.running = process.Running(list(map(str, run)), work, name="job.run1",
                                  env={**env, "CHECK_HOLD": str(job.hold)}, cwd=work)
    fermata.wait_for_step(job, 2)
    job.checkpoint_and_stop()
    check('"mac"' not in (work / "fermata/job/job.json").read_text(), "the record has a MAC")
    job.release()
    done = fermata.fermata(work, "restart", "job", env=env, timeout_s=90).expect_success("restart")
    check(QUIET in done.err and NOT_TAKEN not in done.err, done.err)


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
    """And in every other. A restart continues with encryption, without a word."""
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
    _resumes(job)


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
    _resumes(job)


@timeout(60)
def test_encryption_that_is_not_possible_is_refused(work):
    for env, words, word in ((_keyless(work), [], "there is no key to encrypt with"),
                             (_environment(work), ["--checkpointer", "self"], "saves itself")):
        result = fermata.fermata(work, "run", "--encrypt", *words, "--", *_program(), env=env)
        check_equal(result.code, 3, f"exit code\n{result.err}")
        check(word in result.err and "hint" in result.err, result.err)
    check(not list((work / "fermata").glob("*")), "a directory of a job was made")


def _job_whose_key_is_gone(work, *options):
    """A running job, the environment with its key, and where that belongs: it is in `work`."""
    home = {"XDG_CONFIG_HOME": str(work / "mine")}
    job = fermata.Job(work)
    job.start("openmpi", _program(), options=options, env=home)
    fermata.wait_for_step(job, 2)
    key = work / "mine/fermata/key"
    key.rename(work / "key")
    return job, home, key


@timeout(120)
def test_a_key_that_is_gone_when_an_encrypted_job_is_saved(work):
    """The checkpoint fails, nothing lies in clear anywhere, and the job runs on."""
    job, home, key = _job_whose_key_is_gone(work, "--encrypt")
    result = fermata.fermata(work, "checkpoint", job.name)
    check(result.code != 0 and "cannot be encrypted" in result.err, result.err)
    check_equal(job.snapshots(), [], "snapshots")
    (work / "key").rename(key)
    job.checkpoint_and_stop()
    _resumes(job, env=home)


@timeout(120)
def test_a_key_that_is_gone_when_a_job_is_saved(work):
    """Whoever commits the snapshot has it still, and seals the images."""
    job, home, key = _job_whose_key_is_gone(work)
    job.checkpoint_and_stop()
    (work / "key").rename(key)
    looked = fermata.fermata(work, "verify", job.name, env=_with_key(work, "mine"))
    check("sealed with your key" in looked.expect_success("verify").out, looked.out)
    _resumes(job, env=home)
