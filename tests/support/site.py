# SPDX-License-Identifier: Apache-2.0
"""`fermata site serve`, a replica."""
import os
import signal

from support import mpis, process
from support.fermata import FERMATA


class Service:
    """A replica, in a directory that may already have others."""

    def __init__(self, work, number=1, bandwidth="20MB/s"):
        self.place = work / "site"
        self.running = process.Running(
            [FERMATA, "site", "serve", "--site", self.place, "--bandwidth", bandwidth],
            work, name=f"site{number}", env=mpis.environment(), cwd=work)

    def wait_until_it_leads(self):
        process.wait_until(lambda: "site: leads" in self.running.err, "a service that leads")
        return self

    def end(self, number=signal.SIGTERM):
        if self.running.process.poll() is None:
            os.kill(self.running.process.pid, number)
            self.running.process.wait(10)

    def kill(self):
        self.end(signal.SIGKILL)
