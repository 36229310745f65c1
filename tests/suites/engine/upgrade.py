# SPDX-License-Identifier: Apache-2.0
"""Snapshots of one version of Fermata under the next (decision 0079): an image has its front end
with it, and the launcher serves the crossing of the version before its own."""
import fcntl
import shutil
import tomllib

from support import fermata, image, mpis, process
from support.cases import Skipped, check, check_equal, slow, timeout

STEPS = 14
SPEC = tomllib.loads((mpis.ROOT / "spec/crossing.toml").read_text())
NOW, OLDEST = SPEC["version"], SPEC["oldest"]


def _command():
    return [mpis.program("openmpi", "selfcheck"), "--steps", STEPS, "--step-ms", 60]


def _saved(work, lower="openmpi", program=fermata.FERMATA, env=None):
    job = fermata.Job(work)
    job.fermata = program
    job.start(lower, _command(), env=env)
    fermata.wait_for_step(job, 3)
    job.checkpoint_and_stop()
    return job


def _make_refused(crossing, maker):
    @timeout(60)
    def test(work):
        """Not sealed, as those of before: nobody is sent to take over what he cannot restart."""
        keyless = {"XDG_CONFIG_HOME": "/dev/null"}
        job = _saved(work, env=keyless)
        snapshot = fermata.newest_snapshot(job)
        image.set_header_field(snapshot, "crossing_version", crossing)
        saved = {path: path.read_bytes() for path in snapshot.iterdir()}
        for command in (["trust"], ["restart", "--mpi", "mpich"]):
            for env in ({}, keyless) if command[0] == "restart" else ({},):
                env = mpis.environment(FERMATA_DIR=str(work / "fermata"), **env)
                result = fermata.fermata(work, *command, job.name, env=env)
                check_equal(result.code, 3, result.err)
                check(f"made by {maker} (crossing {crossing}); this one, Fermata " in result.err
                      and f"reads {OLDEST} to {NOW}\n  hint: restart it with " in result.err,
                      result.err)
                check("rank" not in result.err and "program's files" not in result.err, result.err)
                check("fermata trust" not in result.err, result.err)
        check({path: path.read_bytes() for path in snapshot.iterdir()} == saved, "it was changed")
        # Also where nothing but a rank looks at it.
        command = [fermata.FERMATA, "exec", "--name", "again", "--restore",
                   fermata.newest_snapshot(job), *_command()]
        result = process.run([*mpis.mpirun("openmpi", 2), *map(str, command)], 40,
                             mpis.environment(FERMATA_DIR=str(work / "fermata"), **keyless), work)
        check(result.code != 0 and f"(crossing {crossing})" in result.err, result.err)
    return test


def _git(*words):
    result = process.run(["git", "-C", mpis.ROOT, *words], 60)
    return result.out.strip() if result.code == 0 else ""


def _last_commit_before():
    """The last commit of the crossing before this one: that before its description came."""
    added = _git("log", "--diff-filter=A", "--format=%H", "-1", "--", f"spec/crossing/{NOW}.txt")
    commit = _git("rev-parse", "--verify", "--quiet", f"{added}^" if added else "HEAD")
    if not commit:
        raise Skipped("the version before is not in the repository's history")
    return commit


def _version_before():
    """A build of it, made once."""
    commit = _last_commit_before()
    place = mpis.BUILD / "previous"
    place.mkdir(exist_ok=True)
    with open(place / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tree, done = place / "tree", place / "built"
        if not done.exists() or done.read_text() != commit:
            done.unlink(missing_ok=True)
            shutil.rmtree(tree, ignore_errors=True)
            tree.mkdir()
            script = 'git -C "$0" archive "$1" > "$2.tar"; tar -xf "$2.tar" -C "$2"'
            process.run(["sh", "-ec", script, mpis.ROOT, commit, tree],
                        60).expect_success("git archive")
            process.run([tree / "x", "build"], 1500).expect_success(f"./x build of {commit}")
            done.write_text(commit)
    return tree / "build"


def _make_resumes(first, second):
    @slow
    @timeout(1700)
    def test(work):
        """Saved under the version before, which is removed then; saved again under this one, which
        leaves the front end and its crossing as they are. What was saved without a seal has to be
        taken over by its owner, once."""
        prefix = fermata.installation(work, "before", _version_before())
        job = _saved(work, first, prefix / "bin/fermata")
        shutil.rmtree(prefix)
        check_equal(image.header_field(fermata.newest_snapshot(job), "crossing_version"), NOW - 1,
                    "the crossing")
        job.fermata = fermata.FERMATA
        if not image.is_sealed(fermata.newest_snapshot(job)):
            refusal = job.restart(second).wait(30)
            check_equal(refusal.code, 4, refusal.err)
            check("not sealed with your key" in refusal.err, refusal.err)
            check("fermata trust takes it over" in refusal.err, refusal.err)
            fermata.fermata(work, "trust", job.name).expect_success("trust")
        for mpi, step in ((second, 6), (first, 9)):
            job.restart(mpi)
            fermata.wait_for_step(job, step)
            job.checkpoint_and_stop()
            check_equal(image.header_field(fermata.newest_snapshot(job), "crossing_version"),
                        NOW - 1, "the crossing of the next snapshot")
        job.restart(second)
        check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, STEPS), "checksum")
    return test


def _sources(work):
    """What tools/crossing.py looks at, to be changed."""
    tree = work / "tree"
    for name in ("spec/crossing.toml", "spec/crossing", "spec/image.toml", "tools/crossing.py",
                 "runtime/halves", "runtime/base/rank.gen.h", "runtime/arch/x86_64/launcher.S"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (mpis.ROOT / name).is_dir() else shutil.copy2
        copy(mpis.ROOT / name, tree / name)
    return tree


CHANGES = {  # what of the crossing changes: file, old text, new text, whether older ones suffer
    "nothing": ("crossing.h", "", "", None),
    "a_comment": ("crossing.h", "struct Gate {", "struct Gate {  // one\n", None),
    "a_member_at_the_end": ("crossing.h", "  char save_directory[4096];",
                            "  char save_directory[4096];\n  u32 more;", False),
    "an_element_that_grows": ("crossing.h", "  u64 address, bytes;\n",
                              "  u64 address, bytes;\n  u64 more;\n", True),
    "a_pair_that_grows": ("crossing.h", "  u64 value; ", "  u64 value;\n  u64 more; ", True),
    "a_clock_that_grows": ("crossing.h", "  u64 seq; ", "  u64 seq;\n  u64 more; ", True),
    "a_status_that_grows": ("mpi_calls.gen.h", "  i32 internal[5]; ",
                            "  i32 internal[5];\n  i32 more; ", True),
    "a_member_in_the_middle": ("crossing.h", "  u32 pending; ", "  u32 more, pending; ", True),
    "a_member_s_type": ("crossing.h", "  u32 lock_depth;", "  u64 lock_depth;", True),
    "a_parameter": ("crossing.h", "(*nudge)(u32 tid)", "(*nudge)(u64 tid)", True),
    "a_number": ("../base/rank.gen.h", "kParked = 4,", "kParked = 14,", True),
    "an_address": ("layout.h", "kSlots = 0x1001", "kSlots = 0x1002", True),
    "a_kind_of_handle": ("mpi_calls.gen.h", "(*Barrier)(RealComm comm)",
                         "(*Barrier)(RealWin comm)", None),
    "a_handle_that_is_no_word": ("mpi_calls.gen.h", "(*Barrier)(RealComm comm)",
                                 "(*Barrier)(u32 comm)", True),
    "a_call_that_goes": ("mpi_calls.gen.h", "  int (*Bcast)", "  // int (*Bcast)", True),
}


def _make_noticed(change):
    def test(work):
        tree = _sources(work)
        name, old, new, breaks = CHANGES[change]
        path = tree / "runtime/halves" / name
        check(old in path.read_text(), f"{name} no longer has {old!r}")
        path.write_text(path.read_text().replace(old, new, 1))
        result = process.run([tree / "tools/crossing.py"], 30)
        check_equal(result.code, 0 if breaks is None else 1, result.out + result.err)
        check_equal(f"is no longer spec/crossing/{NOW}.txt" in result.out, breaks is not None,
                    result.out)
        check_equal(f"front ends of crossing {NOW - 1} would not be served" in result.out,
                    bool(breaks), result.out)
        if breaks is not None:
            result = process.run([tree / "tools/crossing.py", "--write"], 30)
            check(result.code == 1 and "has been written down" in result.err, result.err)
    return test


def generate():
    tests = {"test_one_that_is_too_old_is_refused_by_name": _make_refused(7, "Fermata 0.1.0"),
             "test_one_that_is_too_new_is_refused_by_name": _make_refused(NOW + 1,
                                                                          "Fermata 0.1.0")}
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        tests[f"test_the_version_before_{first}_then_{second}"] = _make_resumes(first, second)
    for change in CHANGES:
        tests[f"test_a_changed_crossing_is_noticed_{change}"] = _make_noticed(change)
    return tests
