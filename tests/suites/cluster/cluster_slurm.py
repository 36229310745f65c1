# SPDX-License-Identifier: Apache-2.0
"""Jobs under Slurm, on the hosts of the virtual cluster: ranks that srun starts, restarts in
another allocation, and the batch script of the guide. Only with --cluster."""
import re
import time

from support import mpis
from support.cases import Failed, check, check_equal, slow, timeout
from support.cluster import Cluster
from support.cluster_job import STEP_MS, STEPS, expected, hosts_of_ranks
from support.fermata import FERMATA, STEP
from support.guide import GUIDE
from support.slurm import Slurm

PMI = {"openmpi": "pmix", "mpich": "pmi2"}
SNAPSHOTS = "fermata/work/snapshots"


def _program(front, step_ms=STEP_MS):
    return f"{mpis.program(front, 'selfcheck')} --steps {STEPS} --step-ms {step_ms}"


def _exec(mpi, program, *more):
    """Four ranks on two hosts, started by srun alone."""
    words = " ".join(more)
    return (f"srun -N 2 -n 4 --mpi={PMI[mpi]} {FERMATA} exec --mpi {mpi} --name work {words} "
            f"{program}")


def _check_hosts(work, epoch, hosts):
    found = hosts_of_ranks(work / SNAPSHOTS / epoch)
    check_equal(found, [name for name in hosts for _ in range(4 // len(hosts))], "hosts of ranks")


def _save_and_stop(slurm, running, step):
    running.wait_for_number(STEP, step)
    slurm.run(f"{FERMATA} checkpoint work --stop").expect_success("checkpoint --stop")
    running.wait(60)
    check("PASS" not in running.out, "the run ended on its own before it was stopped")


def _finish(running):
    running.wait_for("PASS ", 90)
    running.wait(60).expect_success("the job")
    return mpis.checksum(running.out)


def _srun(first, second):
    @timeout(300)
    def test(work):
        with Cluster(work, 3) as cluster:
            slurm = Slurm(cluster)
            running = slurm.shell(_exec(first, _program(first), "--keep", "4"), "first")
            _save_and_stop(slurm, running, 4)
            _check_hosts(work, "1", ["node0", "node1"])
            # Another allocation, without the host the job began on, under the other MPI.
            again = _exec(second, _program(first), "--restore", f"{SNAPSHOTS}/1")
            running = slurm.shell(again.replace("-N 2", "-N 2 -w node1,node2", 1), "second")
            _save_and_stop(slurm, running, 9)
            newest = max(path.name for path in (work / SNAPSHOTS).iterdir() if path.name.isdigit())
            _check_hosts(work, newest, ["node1", "node2"])
            running = slurm.shell(f"salloc -N 1 -n 2 -w node2 {FERMATA} restart work --mpi {first}",
                                  "third")
            check_equal(_finish(running), expected(), "checksum")
    return test


def _script(front, step_ms):
    """The batch script of the guide, for this program."""
    text = (GUIDE / "7-several-hosts.md").read_text()
    found = re.search(r"^```bash\n(#!.*?)^```$", text, re.M | re.S)
    check(found, "the guide has no batch script")
    script = found[1].replace("./app", _program(front, step_ms)).replace("fermata ", f"{FERMATA} ")
    check_equal(script.count(str(FERMATA)), 3, "commands in the script")
    return script


def _submit(slurm, script, *more):
    (slurm.cluster.work / "job.sh").write_text(script)
    said = slurm.run(f"sbatch {' '.join(more)} job.sh").expect_success("sbatch").out
    return said.split()[-1]


def _wait_for(work, text, timeout_s):
    until = time.monotonic() + timeout_s
    while not (work / "work.out").exists() or text not in (work / "work.out").read_text():
        if time.monotonic() > until:
            raise Failed(f"no {text!r}:\n{(work / 'work.out').read_text()}")
        time.sleep(0.1)


def _wait_for_end(slurm, job, timeout_s=60):
    until = time.monotonic() + timeout_s
    while slurm.run(f"squeue -h -j {job} -o %T").out.strip():
        check(time.monotonic() < until, f"Slurm's job {job} does not end")
        time.sleep(0.3)


def _batch(mpi, by_clock):
    """A job that Slurm signals before its time is over, and the same script once more."""
    @timeout(300)
    def test(work):
        with Cluster(work, 2) as cluster:
            slurm = Slurm(cluster)
            script = _script(mpi, 3000 if by_clock else STEP_MS)
            if by_clock:
                # Slurm sends it up to a minute early, that is at any time here.
                first = _submit(slurm, script, "--time=1", "--signal=B:USR1@30")
            else:
                first = _submit(slurm, script)
                _wait_for(work, "step 4\n", 60)
                slurm.run(f"scancel --batch --signal=USR1 {first}").expect_success("scancel")
            _wait_for(work, "stopped at checkpoint", 90)
            _wait_for_end(slurm, first)
            text = (work / "work.out").read_text()
            check("PASS" not in text and "DUE TO TIME LIMIT" not in text, f"how it ended: {text}")
            _submit(slurm, script)
            _wait_for(work, "PASS ", 90)
            check_equal(mpis.checksum((work / "work.out").read_text()), expected(), "checksum")
    return test


def generate():
    tests = {}
    for first, second in (mpis.MPIS, mpis.MPIS[::-1]):
        tests[f"test_srun_{first}_then_{second}"] = _srun(first, second)
        tests[f"test_batch_script_{first}"] = _batch(first, False)
    tests["test_batch_script_by_the_clock"] = slow(_batch("openmpi", True))
    return tests
