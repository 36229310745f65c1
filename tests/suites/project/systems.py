# SPDX-License-Identifier: Apache-2.0
"""Other systems: in a root of each the repository is cloned, built with that system's packages,
and a job saved under one MPI continues under the other (tests/systems/journey). What was typed and
printed goes to build/transcripts/NAME.txt. Roots are made by debootstrap below $FERMATA_ROOTS, and
stay: the clone in them is brought to HEAD. Slow, so only when asked for: tests/run --suite systems.
"""
import os
import pathlib
import re
import shutil

from support import mpis, process
from support.cases import Failed, Skipped, check, timeout

ROOTS = pathlib.Path(os.environ.get("FERMATA_ROOTS", mpis.BUILD / "roots"))
TRANSCRIPTS = mpis.BUILD / "transcripts"
DEBIAN = "http://deb.debian.org/debian"
UBUNTU = "http://archive.ubuntu.com/ubuntu"
KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
HOURS = 3600

# In a mount namespace of its own nothing stays mounted, whatever happens.
INSIDE = """
for tree in proc sys dev; do mount --rbind /$tree "$0/$tree"; done
mkdir -p "$0/fermata.git" "$0/newcomer"
mount --bind "$1" "$0/fermata.git"
exec chroot "$0" /usr/bin/env -i HOME=/newcomer LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  DEBIAN_FRONTEND=noninteractive CARGO_HTTP_CAINFO=/etc/ssl/machine.crt \
  ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} bash -c "$2"
"""
# Copied and not used in place: git trusts no repository of another owner, and the build writes.
CLONE = """
git config --global --replace-all safe.directory '*'
test -d /newcomer/fermata/.git || git clone -q /fermata.git /newcomer/fermata
cd /newcomer/fermata && git fetch -q /fermata.git {commit} && git checkout -q --force {commit}
"""


def _git(*words):
    done = process.run(["git", *words], cwd=mpis.ROOT)
    return done.expect_success(f"git {words[0]}").out.strip()


def _inside(root, script, timeout_s):
    git = _git("rev-parse", "--path-format=absolute", "--git-common-dir")
    return process.run(["unshare", "-m", "--propagation", "private", "bash", "-euc", INSIDE, root,
                        git, script], timeout_s)


def _need_root():
    if os.getuid() != 0:
        raise Skipped("only root makes roots")
    for tool in ("debootstrap", "unshare"):
        if not shutil.which(tool):
            raise Skipped(f"{tool} is not installed: apt-get install {tool}")


def _bootstrap(name, suite, mirror, *options):
    """A minimal system, made whole or not at all."""
    root = ROOTS / name
    if root.exists():
        return root
    ROOTS.mkdir(parents=True, exist_ok=True)
    new = ROOTS / f"{name}.new"
    shutil.rmtree(new, ignore_errors=True)
    made = process.run(["debootstrap", "--variant=minbase", *options, suite, new, mirror], HOURS)
    if made.code != 0:
        raise Skipped(f"debootstrap {suite} from {mirror} failed: {process.tail(made.out, 5)}")
    # What this machine needs to reach the mirror and the registry of crates.
    for part in pathlib.Path("/etc/apt/apt.conf.d").iterdir():
        if not (new / "etc/apt/apt.conf.d" / part.name).exists():
            shutil.copy(part, new / "etc/apt/apt.conf.d")
    shutil.copy("/etc/resolv.conf", new / "etc")
    (new / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    for name_there in ("certs/ca-certificates.crt", "machine.crt"):
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", new / "etc/ssl" / name_there)
    os.rename(new, root)
    return root


def _install(root, *packages):
    line = f"apt-get update -q && apt-get install -y --no-install-recommends {' '.join(packages)}"
    _inside(root, line, HOURS).expect_success(f"installing {packages} in {root}")


def _journey(name, root, *expected):
    _install(root, "git")
    clone = _inside(root, CLONE.format(commit=_git("rev-parse", "HEAD")), 300)
    clone.expect_success("cloning")
    result = _inside(root, "cd /newcomer/fermata && exec 2>&1 && tests/systems/journey", 2 * HOURS)
    TRANSCRIPTS.mkdir(parents=True, exist_ok=True)
    transcript = TRANSCRIPTS / f"{name}.txt"
    transcript.write_text(result.out)
    if result.code != 0:
        raise Failed(f"the journey failed; {transcript} ends:\n{process.tail(result.out)}")
    for text in (*expected, r"^Jobs can be run, saved and restarted here\.$",
                 r"^the journey ends well$"):
        check(re.search(text, result.out, re.M), f"{transcript} says {text!r}")


def _debian13():
    return _bootstrap("debian13", "trixie", DEBIAN)


@timeout(3 * HOURS)
def test_debian_13_from_a_clone_to_a_restart_under_another_mpi(_work):
    _need_root()
    _journey("debian13", _debian13(), r"GLIBC 2\.41", r"without libmpi_cxx\.so\.40",
             r"Open MPI.* 5\.")


@timeout(3 * HOURS)
def test_ubuntu_22_04_from_a_clone_to_a_restart_under_another_mpi(_work):
    _need_root()
    keys = pathlib.Path("/") / KEYRING
    if not keys.exists() and not (ROOTS / "ubuntu22").exists():
        # Debian 13 has Ubuntu's keys, and Debian 12 does not.
        debian = _debian13()
        _install(debian, "ubuntu-archive-keyring")
        keys = debian / KEYRING
    root = _bootstrap("ubuntu22", "jammy", UBUNTU, f"--keyring={keys}",
                      "--components=main,universe")
    (root / "etc/apt/sources.list").write_text(
        "".join(f"deb {UBUNTU} {suite} main universe\n" for suite in ("jammy", "jammy-updates")))
    _journey("ubuntu22", root, r"GLIBC 2\.35")
