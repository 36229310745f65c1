# SPDX-License-Identifier: Apache-2.0
"""Where the suites are: tests/suites/FOLDER/SUITE.py. A suite is named by its file, in whatever
folder it is; a folder's name stands for all suites in it."""
import pathlib

PLACE = pathlib.Path(__file__).resolve().parents[1] / "suites"
# Folders and suites that need more of a machine than tests may usually ask for: several hosts, and
# whole systems that are installed. They run only if they are named.
WHEN_ASKED = {"cluster", "systems"}
# What suites were called once, for who types from memory.
FORMER = {
    "again": "restart_defaults", "apps": "lammps_netpipe", "ends": "run_ends",
    "faults_moments": "races", "house": "lint", "interface": "user_api", "items": "resources",
    "itself": "app_level", "loaded": "mpi_loading", "moments": "random_checkpoints",
    "moved": "moved_paths", "states": "process_state", "tools": "harness_selftest",
    "under": "passthrough", "wrappers": "exec_chain",
    "cluster": "cluster_jobs", "errors": "errors_start", "mpi": "mpi_calls",
    **{f"apps_{name}": name for name in (
        "abinit", "cp2k", "dolfinx", "freefem", "gromacs", "openfoam", "petsc", "scalapack",
        "starpu")},
}


def all_suites():
    """Name -> file, folder by folder."""
    found = {}
    for path in sorted(PLACE.glob("*/*.py")):
        if path.stem in found:
            raise ValueError(f"two suites are called {path.stem}: {found[path.stem]} and {path}")
        found[path.stem] = path
    return found


def folders():
    return {path.parent.name for path in all_suites().values()}


def chosen(names, cluster):
    """Name -> file of the suites to run: those of `names`, which are suites or folders, or all that
    need nothing special; with `cluster` those of several hosts alone."""
    wanted = {}
    asked = {*names, *(["cluster"] if cluster else [])}
    for name, path in all_suites().items():
        called = {name, path.parent.name}
        is_special = bool(called & WHEN_ASKED)
        if names and not called & set(names) or cluster and "cluster" not in called:
            continue
        if not is_special or called & WHEN_ASKED & asked or name in names:
            wanted[name] = path
    return wanted


def unknown(names):
    """A line for each that is no suite and no folder, with its new name if it had another."""
    known = folders() | set(all_suites())
    for name in names:
        if name in known:
            continue
        now = FORMER.get(name)
        yield f"there is no suite {name}" + (f": it is called {now} now" if now else "")


def renamed(patterns):
    """A line for each pattern that begins with what a suite was called once."""
    for pattern in patterns:
        old = pattern.split(".")[0]
        if old in FORMER:
            yield f"the suite {old} is called {FORMER[old]} now"
