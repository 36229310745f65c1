#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host of the virtual cluster.

    host.py boot STATE NAME ADDRESS[,ADDRESS] ROOT    first process of the host, inside fresh
                                           namespaces: eth0 has the first address
    host.py shell STATE [-OPTION]... NAME COMMAND...    what ssh is elsewhere

A remote command gets a clean environment, the home directory, the caller's standard streams, and
gives its exit code back; 255 means that the host is not there.
"""
import json
import os
import pathlib
import select
import socket
import subprocess
import sys
import time

POLL_S = 0.02
BOOT_S = 20


def run(*command):
    subprocess.run(command, check=True, timeout=BOOT_S)


def own_directory(state, name, root):
    """Gives this host a /tmp, /run and /dev/shm of its own. If the project itself lies below /tmp
    it stays visible there: it is on the shared file system."""
    tmp = state / name / "tmp"
    tmp.mkdir(parents=True, exist_ok=True)
    if root.is_relative_to("/tmp"):
        kept = tmp / root.relative_to("/tmp")
        kept.mkdir(parents=True, exist_ok=True)
        run("mount", "--rbind", root, kept)
    run("mount", "--rbind", tmp, "/tmp")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    run("mount", "-t", "tmpfs", "-o", "mode=1777,size=1g", "tmpfs", "/dev/shm")


def plug_in(device, address):
    """Waits for the cable, whose other end the test holds."""
    until = time.monotonic() + BOOT_S
    while not pathlib.Path(f"/sys/class/net/{device}").exists():
        if time.monotonic() > until:
            sys.exit("host.py: no cable was plugged in")
        time.sleep(POLL_S)
    run("ip", "address", "add", f"{address}/24", "dev", device)
    run("ip", "link", "set", device, "up")


def boot(state, name, addresses, root):
    state, root = pathlib.Path(state), pathlib.Path(root)
    socket.sethostname(name)
    run("mount", "-t", "proc", "proc", "/proc")
    run("mount", "-t", "sysfs", "sysfs", "/sys")
    run("mount", "--bind", state / "hosts", "/etc/hosts")
    # Opened before /tmp changes: STATE may lie there.
    folder = os.open(state, os.O_PATH)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"/proc/self/fd/{folder}/{name}.sock")
    own_directory(state, name, root)
    run("ip", "link", "set", "lo", "up")
    for number, address in enumerate(addresses.split(",")):
        plug_in(f"eth{number}", address)
    listener.listen(64)
    serve(listener)


def serve(listener):
    """Starts what callers ask for and reaps everything, as the first process has to."""
    callers = {}
    while True:
        if select.select([listener], [], [], POLL_S)[0]:
            caller, _ = listener.accept()
            pid = start(caller)
            if pid:
                callers[pid] = caller
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in callers:
                answer(callers.pop(pid), os.waitstatus_to_exitcode(status))


def start(caller):
    """Returns the pid of the command, None if the caller did not say one."""
    words, streams, _flags, _address = socket.recv_fds(caller, 1 << 20, 3)
    if not words or len(streams) != 3:
        return None
    home = "/root" if os.getuid() == 0 else "/"
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                   "HOME": home, "USER": "root", "LOGNAME": "root", "SHELL": "/bin/sh"}
    child = subprocess.Popen(["/bin/sh", "-c", json.loads(words)], stdin=streams[0],
                             stdout=streams[1], stderr=streams[2], env=environment, cwd=home,
                             start_new_session=True)
    child.returncode = 0  # it is reaped in serve(), not by the Popen object
    for stream in streams:
        os.close(stream)
    return child.pid


def answer(caller, code):
    try:
        caller.sendall(json.dumps(code if code >= 0 else 128 - code).encode())
    except OSError:
        pass  # the caller did not wait
    caller.close()


def shell(state, *words):
    words = list(words)
    while words and words[0].startswith("-"):
        words.pop(0)
    name, command = words[0].split("@")[-1], " ".join(words[1:])
    folder = os.open(state, os.O_PATH)
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(f"/proc/self/fd/{folder}/{name}.sock")
        socket.send_fds(line, [json.dumps(command).encode()], [0, 1, 2])
        code = line.recv(64)
    except OSError as error:
        sys.exit(f"rsh: {name}: {error}")
    if not code:
        print(f"rsh: {name}: the host is gone", file=sys.stderr)
        return 255
    return json.loads(code)


if __name__ == "__main__":
    sys.exit({"boot": boot, "shell": shell}[sys.argv[1]](*sys.argv[2:]))
