# SPDX-License-Identifier: Apache-2.0
"""own_output.py DIRECTORY PROGRAM [ARG...]: runs a Python program whose standard error goes to a
file of this rank's own, so that the lines of several ranks do not mix."""
import os
import runpy
import sys

directory, program = sys.argv[1:3]
sys.argv = sys.argv[2:]
sys.path[0] = os.path.dirname(program)
own = os.open(os.path.join(directory, f"rank.{os.getpid()}"), os.O_WRONLY | os.O_CREAT, 0o644)
os.dup2(own, 2)
runpy.run_path(program, run_name="__main__")
