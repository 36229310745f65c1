# SPDX-License-Identifier: Apache-2.0
"""Processes outside the job (MPI_Comm_spawn, MPI_Open_port and their kin): while one is connected
or a port is open a checkpoint is refused by name, after that it is taken, and the program continues
and spawns again. Open MPI alone is below when it does: Debian's MPICH 4.0 cannot spawn, and says so
to the program with us as it does without. Four processes that wait by polling, and Open MPI's
MPI_Comm_spawn that natively hangs now and then on a busy machine: so the tests run alone."""
from support import fermata, mpis
from support.cases import alone, check, check_equal, timeout

STEPS, STEP_MS, HELD, STOP_AT = 12, 60, 3, 5


def _command(front, steps=STEPS):
    return [mpis.program(front, "spawn"), "--steps", steps, "--step-ms", STEP_MS]


def _expected(work):
    """What an MPI that cannot spawn comes to: workers come and go without a trace."""
    result = mpis.native("mpich", _command("mpich"), 2, work).expect_success("spawn, native")
    return mpis.checksum(result.out)


def _refused(job, moment, *words):
    job.running.wait_for(f"{moment}\n")
    result = fermata.fermata(job.work, "checkpoint", "job")
    check(result.code != 0, f"a checkpoint was taken while {moment}")
    for word in ("rank ", "connected to processes outside the job", *words):
        check(word in result.err, f"the refusal says '{word}': {result.err}")
    check_equal(job.snapshots(), [], "snapshots")


def _make(front, second, after):
    @alone
    @timeout(150)
    def test(work):
        job = fermata.Job(work)
        job.start("openmpi", [*_command(front), "--held-step", HELD])
        _refused(job, "held", "MPI_Comm_disconnect")
        _refused(job, "port", "MPI_Close_port")
        fermata.wait_for_step(job, STOP_AT)
        job.checkpoint_and_stop()
        for line in ("met", "spawned"):
            check(f"\n{line}\n" in "\n" + job.running.out, f"{line} before the checkpoint")
        job.restart(second)
        out = job.finish()
        check_equal(out.count("\n" + after), 2, f"lines '{after}' after the restart")
        check_equal(mpis.checksum(out), _expected(work), "checksum")
    return test


@timeout(60)
def test_the_real_error(work):
    """What the MPI below cannot do is the program's to handle: as natively."""
    job = fermata.Job(work)
    job.start("mpich", _command("openmpi"))
    out = job.finish()
    check_equal(out.count("\nnot spawned\n"), 3, "calls that failed")
    check_equal(mpis.checksum(out), _expected(work), "checksum")


def generate():
    return {f"test_{front}_then_{second}": _make(front, second, after)
            for front in mpis.MPIS
            for second, after in (("openmpi", "spawned"), ("mpich", "not spawned"))}
