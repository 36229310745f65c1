# SPDX-License-Identifier: Apache-2.0
"""Processes that cannot outlive their test.

Launchers of MPI jobs start daemons in sessions of their own, so a process group is not enough to
find them again. The runner makes itself the subreaper of its descendants: orphans get it as their
parent, and following parent ids in /proc from its own pid reaches every one and nothing else.
"""
import ctypes
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import time

from support.cases import Failed

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root=None):
    """Pids of all living descendants, children before grandchildren."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # In bytes: a program's name, which is in there, is text of no certain encoding.
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [root or os.getpid()]
    while queue:
        for child in parents.get(queue.pop(0), []):
            found.append(child)
            queue.append(child)
    return found


def command_line(pid):
    """The words of a process; one empty word if it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


def status(pid):
    """What /proc tells of a process; empty if it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""


def parent(pid):
    """The pid of its parent; 0 if it is gone."""
    found = re.search(r"^PPid:\s*(\d+)$", status(pid), re.M)
    return int(found[1]) if found else 0


def is_launcher(pid):
    """Whether this process is a rank, or a program on the way to one; what `fermata` asks about
    the machine, by the same program, is neither."""
    try:
        is_one = os.readlink(f"/proc/{pid}/exe").endswith("/libexec/fermata/launcher")
    except OSError:
        return False
    return is_one and command_line(pid)[1:2] != [b"--probe"]


def wait_until(holds, what, timeout_s=30):
    """Waits until the function `holds` says so."""
    until = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > until:
            raise Failed(f"{what} did not come within {timeout_s} s")
        time.sleep(0.05)


def kill_tree(root):
    """Kills a process and all its descendants, none of which can see it coming."""
    for pid in [root, *descendants(root)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def reap():
    while True:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def end_descendants(grace_s=3.0):
    """Ends every descendant: asks first, insists after grace_s."""
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        until = time.monotonic() + wait_s
        for pid in descendants():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        while time.monotonic() < until:
            reap()
            if not descendants():
                return
            time.sleep(0.02)


@dataclasses.dataclass
class Result:
    code: int
    out: str
    err: str
    seconds: float

    def expect_success(self, what):
        if self.code != 0:
            raise Failed(f"{what}: exit code {self.code}\n{tail(self.out)}\n{tail(self.err)}")
        return self


def tail(text, lines=25):
    return "\n".join(text.rstrip().split("\n")[-lines:])


def run(command, timeout_s=60, env=None, cwd=None):
    """Runs a command to its end. A command that takes longer than timeout_s fails the test."""
    running = Running(command, pathlib.Path(cwd or "."), env=env, cwd=cwd, keep=False)
    return running.wait(timeout_s)


class Running:
    """A command in the background whose output goes to files, so that no pipe can block it.

    It stays in the session of the runner. Linux schedules sessions against each other (autogroup),
    and the spinning ranks of a crowded machine kept a runner in another one off the CPU for
    seconds, until the moment that it meant to hit was over."""

    def __init__(self, command, directory, name="run", env=None, cwd=None, keep=True,
                 stdin=subprocess.DEVNULL):
        self.command = [str(word) for word in command]
        if keep:
            self._out = open(directory / f"{name}.out", "w+b")
            self._err = open(directory / f"{name}.err", "w+b")
        else:
            import tempfile
            self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            self.command, stdin=stdin, stdout=self._out, stderr=self._err, env=env,
            cwd=cwd, process_group=0)

    def _read(self, file):
        descriptor, parts, offset = file.fileno(), [], 0
        while part := os.pread(descriptor, 1 << 24, offset):
            parts.append(part)
            offset += len(part)
        return b"".join(parts).decode(errors="replace")

    @property
    def out(self):
        return self._read(self._out)

    @property
    def err(self):
        return self._read(self._err)

    def wait_for(self, text, timeout_s=60):
        """Waits until the output, of either stream, contains the text."""
        self._wait_until(lambda: text in self.out or text in self.err, True, repr(text), timeout_s)

    def wait_for_number(self, pattern, least, timeout_s=60):
        """Waits until the pattern's group was a number of at least this size in the output, of
        either stream. A job that continues after a restart may have gone past any smaller one. The
        time is for each step towards it: on a busy machine ranks that spin only take turns."""
        pattern = re.compile(pattern, re.M)
        self._wait_until(lambda: max((int(number) for text in (self.out, self.err)
                                      for number in pattern.findall(text)), default=-1),
                         least, f"{pattern.pattern!r} with {least} or more", timeout_s)

    def _wait_until(self, reached, least, what, timeout_s):
        so_far, until = None, 0.0
        while (now := reached()) < least:
            if now != so_far:
                so_far, until = now, time.monotonic() + timeout_s
            if self.process.poll() is not None and reached() < least:
                raise Failed(f"{self.command[0]} ended (code {self.process.returncode}) before it "
                             f"printed {what}\n{tail(self.out)}\n{tail(self.err)}")
            if time.monotonic() > until:
                raise Failed(f"no {what}: no nearer to it for {timeout_s} s\n"
                             f"{tail(self.out)}\n{tail(self.err)}")
            time.sleep(0.01)

    def has_ended(self, within_s):
        """Whether it ends within so many seconds."""
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait(self, timeout_s=60):
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(self.command)}: still running after {timeout_s} s\n"
                         f"{tail(self.out)}\n{tail(self.err)}") from None
        return Result(code, self.out, self.err, time.monotonic() - self.began)
