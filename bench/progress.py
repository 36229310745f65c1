# SPDX-License-Identifier: Apache-2.0
"""What a long measurement says meanwhile: how far it is, and when it will be done."""
import sys
import time


class Progress:
    """Counts steps on the standard error; all are taken to last as long as those before."""

    def __init__(self, steps):
        self.steps, self.done, self.began = steps, 0, time.monotonic()

    def step(self, what):
        self.done += 1
        spent = time.monotonic() - self.began
        left = spent / self.done * (self.steps - self.done)
        print(f"{self.done}/{self.steps} {what}, {spent:.0f} s, about {left:.0f} s left",
              file=sys.stderr, flush=True)
