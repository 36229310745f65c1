# SPDX-License-Identifier: Apache-2.0
"""Mounts that nobody else sees."""
import functools
import os

from support import process
from support.cases import Skipped

AS_ROOT = os.getuid() == 0


@functools.cache
def _obstacle(words):
    tried = process.run([*words, "true"])
    return tried.err.strip() if tried.code else ""


def own_mounts():
    """The words before a command that has a mount namespace of its own, where it is root. Skips the
    test where there can be none, such as in a directory made a root by chroot(1) alone."""
    words = ("unshare", "-m" if AS_ROOT else "-rm")
    if _obstacle(words):
        raise Skipped(f"no mount namespaces here: {_obstacle(words)}")
    return list(words)
