# SPDX-License-Identifier: Apache-2.0
"""Handles of MPI objects are told apart by the compiler: of one kind from another, and real ones
from the program's (decision 0080). Each line that must be refused stands beside one that is right,
so that it is refused for what is wrong with it."""
from support import process
from support.cases import check
from support.mpis import ROOT

PRELUDE = """
#include "mpi/core.h"
namespace fermata::mpi {
CommSlot* comm;
DatatypeSlot* type;
RequestSlot* request;
GroupSlot* group;
WinSlot* win;
CommSlot* made;
RealComm real_comm;
RealRequest real_request;
void use() { (void)(%s); }
}
"""
# What is mixed up: the right expression, and the wrong one.
CASES = {
    "a_communicator_is_no_datatype_to_the_core": (
        "core::Send(nullptr, 1, type, 0, 0, comm)", "core::Send(nullptr, 1, comm, 0, 0, type)"),
    "a_communicator_is_no_datatype_to_the_mpi_below": (
        "lower().Send(nullptr, 1, type->real(), 0, 0, comm->real())",
        "lower().Send(nullptr, 1, comm->real(), 0, 0, type->real())"),
    "a_datatype_is_no_operation": (
        "lower().Op_free(&slot_at<kOp>(abi::kSum)->real())",
        "lower().Op_free(&slot_at<kDatatype>(kByte)->real())"),
    "a_window_is_no_group": (
        "core::Comm_create(comm, group, &made)", "core::Comm_create(comm, win, &made)"),
    "a_result_is_of_the_kind_that_is_made": (
        "core::Comm_dup(comm, &made)", "core::Comm_dup(comm, &group)"),
    "a_real_result_is_of_the_kind_that_is_made": (
        "lower().Comm_dup(comm->real(), &real_comm)",
        "lower().Comm_dup(comm->real(), &real_request)"),
    "a_handle_of_the_program_is_no_real_one": (
        "lower().Barrier(comm->real())", "lower().Barrier(comm)"),
    "a_real_handle_is_none_of_the_programs": ("core::Barrier(comm)", "core::Barrier(real_comm)"),
    "a_number_is_no_real_handle": ("real_comm = RealComm{1}", "real_comm = 1"),
    "what_lies_behind_a_slot_is_of_its_kind": ("comm_of(comm)->size", "comm_of(win)->size"),
    "a_slot_of_any_kind_is_of_none_unasked": (
        "comm = slot_as<kComm>(slot_at(kComm, kCommWorld))", "comm = slot_at(kComm, kCommWorld)"),
    "waiting_is_for_requests": (
        "core::Wait(&request, nullptr)", "core::Wait(&comm, nullptr)"),
}
REFUSALS = ("cannot convert", "could not convert", "invalid conversion", "no match for")


def _compile(work, expression):
    source = work / "use.cpp"
    source.write_text(PRELUDE % expression)
    return process.run(["g++", "-std=c++20", "-fsyntax-only", "-fno-exceptions", "-fno-rtti",
                        "-Wall", "-I", ROOT / "runtime", source], 50)


def _make(right, wrong):
    def test(work):
        _compile(work, right).expect_success(right)
        refused = _compile(work, wrong)
        check(refused.code != 0, f"it compiles: {wrong}")
        errors = [line for line in refused.err.splitlines() if "error:" in line]
        check(len(errors) == 1 and any(text in errors[0] for text in REFUSALS),
              f"{wrong} is refused for something else: {refused.err}")
    return test


def generate():
    return {f"test_{name}": _make(*case) for name, case in CASES.items()}
