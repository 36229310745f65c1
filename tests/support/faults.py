# SPDX-License-Identifier: Apache-2.0
"""The points of spec/faults.toml and what is to be tried at each: the suite `faults` tries it, and
docs/faults.md (tools/faults_table.py) has a result for it."""
import tomllib

from support.mpis import ROOT

SPEC = tomllib.loads((ROOT / "spec/faults.toml").read_text())
ACTIONS, POINTS = SPEC["actions"], SPEC["point"]


def wanted(point):
    """The actions that make sense at a point."""
    return [action for action in SPEC["kinds"][point["kind"]] if point.get(action, True)]
