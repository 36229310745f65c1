# SPDX-License-Identifier: Apache-2.0
"""A virtual cluster: see tests/cluster/README.md."""
import functools
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

from support import mpis, process
from support.cases import Failed, Skipped

HOST = mpis.ROOT / "tests/cluster/host.py"
TOOLS = ("unshare", "nsenter", "ip", "mount")
BOOT_S = 30


@functools.cache
def obstacle():
    """Why there can be no cluster here; empty if there can."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        return f"{missing[0]} is not installed: ./x setup --cluster"
    probe = ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "sh", "-c",
             "mount -t proc proc /proc && mount -t sysfs sysfs /sys && ip link add br0 type bridge "
             "&& ip link add v0 type veth peer name v1"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        return f"namespaces are not allowed here: {done.stderr.strip()}"
    return ""


class Cluster:
    """Hosts node0, node1, ... with addresses 10.99.0.1, ..., until the `with` block ends. Of
    several networks the second has 10.99.1.1, ..., on each host's eth1, and so on."""

    def __init__(self, work, count, networks=1):
        if obstacle():
            raise Skipped(obstacle())
        self.work, self.networks = work, networks
        self.state = work / "net"
        self.hosts = [f"node{i}" for i in range(count)]
        self.booted = {}
        self.switch = None

    def __enter__(self):
        self.state.mkdir(parents=True)
        table = "".join(f"10.99.0.{i + 1} {name}\n" for i, name in enumerate(self.hosts))
        (self.state / "hosts").write_text("127.0.0.1 localhost\n" + table)
        self.rsh = self.state / "rsh"
        self.rsh.write_text(f"#!/bin/sh\nexec python3 {HOST} shell {self.state} \"$@\"\n")
        self.rsh.chmod(0o755)
        ready = self.state / "switch.up"
        self.switch = self._spawn("switch", [
            "unshare", "--net", "sh", "-c",
            "".join(f"ip link add br{i} type bridge forward_delay 0 && ip link set br{i} up && "
                    for i in range(self.networks))
            + f"touch {shlex.quote(str(ready))} && exec sleep 100000"])
        self._wait(ready.exists, "the switch did not come up")
        for name in self.hosts:
            self.boot(name)
        return self

    def __exit__(self, *_):
        for name in list(self.booted):
            self.kill(name)
        self.switch.kill()
        self.switch.wait()

    def _spawn(self, name, command):
        with open(self.state / f"{name}.log", "wb") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True)

    def _wait(self, condition, complaint, name="switch"):
        until = time.monotonic() + BOOT_S
        while not condition():
            if time.monotonic() > until:
                raise Failed(f"{complaint}\n{(self.state / f'{name}.log').read_text()}")
            time.sleep(0.02)

    def boot(self, name):
        number = self.hosts.index(name)
        (self.state / f"{name}.sock").unlink(missing_ok=True)
        root, networks = mpis.ROOT, range(self.networks)
        addresses = ",".join(f"10.99.{i}.{number + 1}" for i in networks)
        self.booted[name] = self._spawn(name, [
            "unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child",
            "python3", str(HOST), "boot", str(self.state), name, addresses, str(root)])
        pid = self.booted[name].pid
        ours = os.readlink("/proc/self/ns/net")
        self._wait(lambda: os.readlink(f"/proc/{pid}/ns/net") != ours, f"{name} hangs", name)
        # A fixed hardware address: a host that comes back must not be looked for at the old one.
        for i in networks:
            cable = self._cable(name, i)
            self._wait(lambda: not self._is_laid(cable), f"the old cable {cable} stays")
            self._in_switch("ip", "link", "add", cable, "type", "veth", "peer", "name", f"eth{i}",
                            "address", f"02:99:00:00:{i:02x}:{number + 1:02x}", "netns", str(pid))
            self._in_switch("ip", "link", "set", cable, "master", f"br{i}", "up")
        self._wait(lambda: self.shell(name, "true").process.wait(BOOT_S) == 0,
                   f"{name} does not answer", name)

    def _cable(self, name, network=0):
        return f"v{self.hosts.index(name)}" + (f"n{network}" if network else "")

    def _is_laid(self, cable):
        """A killed host's stays until the kernel has cleared its namespace away."""
        show = ["nsenter", "-t", str(self.switch.pid), "-n", "ip", "link", "show", cable]
        return subprocess.run(show, capture_output=True, timeout=BOOT_S, check=False
                              ).returncode == 0

    def _in_switch(self, *command):
        subprocess.run(["nsenter", "-t", str(self.switch.pid), "-n", *command], check=True,
                       timeout=BOOT_S)

    def kill(self, name):
        """Ends every process of a host at once."""
        holder = self.booted.pop(name)
        children = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text()
        for pid in children.split():
            os.kill(int(pid), signal.SIGKILL)
        holder.wait(BOOT_S)

    def cut(self, name):
        """Pulls the cables: silence."""
        for i in range(self.networks):
            self._in_switch("ip", "link", "set", self._cable(name, i), "down")

    def mend(self, name):
        """Puts the cables back."""
        for i in range(self.networks):
            self._in_switch("ip", "link", "set", self._cable(name, i), "up")

    def tmp(self, name):
        """A host's own /tmp, seen from the test. It outlives the host, as a disk does."""
        return self.state / name / "tmp"

    def ranks(self, name):
        """Pids of the ranks on a host, as the test sees them. What they have forked, such as the
        writer of an image, shows the same program."""
        found = list(filter(process.is_launcher, process.descendants(self.booted[name].pid)))
        return [pid for pid in found if process.parent(pid) not in found]

    def shell(self, name, command, directory=None, run="command"):
        """A command line on a host, in the background."""
        return process.Running([self.rsh, name, command], directory or self.work, name=run,
                               cwd=self.work, keep=directory is not None)

    def run(self, name, command, timeout_s=60):
        """A command line on a host, to its end."""
        return self.shell(name, command).wait(timeout_s)
