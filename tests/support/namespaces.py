# SPDX-License-Identifier: Apache-2.0
"""Mounts that nobody else sees."""
import functools
import os

from support import process
from support.cases import Skipped

AS_ROOT = os.getuid() == 0


@functools.cache
def _try_to_mount(words):
    return process.run([*words, "mount", "-t", "tmpfs", "none", "/tmp"])


def own_mounts():
    """The words before a command that has a mount namespace of its own, where it is root. Skips the
    test where there can be none, such as in a directory made a root by chroot(1) alone."""
    words = ("unshare", "-m" if AS_ROOT else "-rm")
    tried = _try_to_mount(words)
    if tried.code != 0:
        raise Skipped(f"no mount namespaces here: {tried.err.strip()}")
    return list(words)
