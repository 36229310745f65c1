# SPDX-License-Identifier: Apache-2.0
"""The batch script of the guide's chapter 7, which runs a job to its end whatever ends an
allocation, on Slurm; a few jobs that are ended at random (`./x storm` has more), and a few of which
something dies (`./x deaths`). Only with --cluster."""
import re
import shlex

from support import deaths, fermata, mpis, storm
from support.batch import KINDS, STOPPED, Batch
from support.cases import check, check_equal, slow, timeout
from support.cluster import Cluster
from support.distribution import compare_thermo, lammps
from support.fermata import FERMATA
from support.guide import GUIDE
from support.slurm import Slurm

CELLS, STEPS, RANKS = 12, 12_000, 4
# On one host. On two it takes longer, and has to outlast an allocation of a minute.
LEAST_S, TRIAL = 45, 20
GRACE_S = 30
# How each allocation but the last ends, its hosts, and the step that it comes to before.
ALLOCATIONS = (
    ("a signal to the script", ("node0", "node1"), 1_000),
    ("its limit", ("node2", "node3"), 0),
    ("preempted", ("node1", "node3"), 5_000),
    ("a signal to all", ("node0", "node2"), 6_000),
    ("", ("node3", "node1"), 0),
)


def guide_script(mpi, command):
    """The guide's, with this command in place of ./app."""
    text = (GUIDE / "7-several-hosts.md").read_text()
    found = re.search(r"^```bash\n(#!.*?)^```$", text, re.M | re.S)
    check(found, "the guide has no batch script")
    words = [FERMATA, "run", "--mpi", mpi]
    script = found[1].replace("fermata run", shlex.join(map(str, words)))
    check(script.count("./app") == 1 and str(FERMATA) in script, f"another script\n{script}")
    return script.replace("./app", shlex.join(map(str, command)))


def _wait_for_thermo(job, step):
    """Of whatever run: a later one begins with a later step."""
    job.wait_for(fermata.THERMO)
    while max(fermata.thermo(job.text()), default=0) < step:
        job.wait_for(fermata.THERMO, len(job.text()))


def _long_enough(mpi, work):
    """The command of a melt that is larger on a faster machine. MPICH, which spins, is never too
    fast with more ranks than processors."""
    if mpi == "mpich":
        return lammps(CELLS, STEPS)
    trial = mpis.native("openmpi", lammps(CELLS, STEPS // TRIAL), RANKS, work, 60)
    took = re.search(r"^Loop time of (\S+)", trial.expect_success("lmp").out, re.M)
    larger = max(1.0, LEAST_S / (TRIAL * float(took[1])))
    return lammps(round(CELLS * larger ** (1 / 3)), STEPS)


def _five_allocations(mpi, warned):
    """`warned`: Slurm sends USR1 before it preempts, and not only a TERM to what it knows."""
    options = ["--signal=B:USR1@15", "--time=3"] if warned else ["--time=1"]

    @timeout(900)
    def test(work):
        command = _long_enough(mpi, work)
        native = mpis.native("openmpi", command, RANKS, work, 200).expect_success("lmp").out
        with Cluster(work, 4) as cluster:
            slurm = Slurm(cluster, grace_s=GRACE_S)
            job = Batch(slurm, guide_script(mpi, command), RANKS, options)
            state = None
            for how, hosts, step in ALLOCATIONS:
                job.proceed(state, list(hosts))
                if not how:
                    break
                _wait_for_thermo(job, step)
                kind = KINDS["a signal to the script" if warned and how == "its limit" else how]
                state, text = job.end(kind, "USR1")
                check(STOPPED.search(text), f"{how}: it is not saved\n{text}")
                check_equal(state, "PENDING", f"{how}: queued again\n{text}")
            # It may take more allocations, and Slurm waits two minutes before some.
            job.wait_for(r"^Total wall time", timeout_s=450)
            job.check_end()
            compare_thermo(fermata.thermo(job.text()), fermata.thermo(native))
            new = job.once_more(["node0", "node1"])
            check_equal(fermata.thermo(new), {}, "rows of the run after the end")
            rows = re.findall(fermata.THERMO, job.text(), re.M)
            check_equal(len(rows), len(set(rows)), "rows, none twice")
    return test


@timeout(200)
def test_the_example_of_job_submit(work):
    """It has a job of ours queued again, and with JobFileAppend its output is kept, unless the
    script says otherwise; others are not queued again."""
    ours = "exit; fermata run --name work --resume ./app"
    scripts = {"ours": ("", ours, "1", "before\nhere\n"),
               "says": ("#SBATCH --no-requeue --open-mode=truncate\n", ours, "0", "here\n"),
               "other": ("", f"# {ours}", "0", "before\nhere\n")}
    with Cluster(work, 1) as cluster:
        slurm = Slurm(cluster, submit=mpis.ROOT / "docs/reference/job_submit.lua")
        for name, (options, line, requeue, output) in scripts.items():
            (work / f"{name}.out").write_text("before\n")
            (work / f"{name}.sh").write_text(f"#!/bin/bash\n{options}echo here\n{line}\n")
            job = slurm.submit(f"--output={name}.out", f"{name}.sh")
            check_equal(slurm.wait_for_state(job, ("COMPLETED",)), "COMPLETED", name)
            check_equal(slurm.ask(job)["Requeue"], requeue, f"{name}: Requeue")
            check_equal((work / f"{name}.out").read_text(), output, f"{name}: output")


def _storm(mpi, hosts, seed, count=3, **wanted):
    one = storm.Storm(mpi, hosts, count, seed, **wanted)

    @timeout(one.deadline_s())
    def test(work):
        print(", ".join(storm.run(one, work)))
    return test


def _deaths(mpi, kinds, seed):
    story = deaths.Story(mpi, len(kinds), seed, kinds)

    @timeout(story.deadline_s())
    def test(work):
        for kind, known, step in deaths.run(story, work):
            print(f"{kind}: known after {known:.2f} s, next step after {step:.2f} s")
    return test


def generate():
    tests = {}
    for mpi in mpis.MPIS:
        tests[f"test_five_allocations_{mpi}"] = _five_allocations(mpi, False)
        tests[f"test_five_allocations_with_warnings_{mpi}"] = slow(_five_allocations(mpi, True))
        tests[f"test_ended_at_random_{mpi}"] = _storm(mpi, 2, "7")
        tests[f"test_ended_at_random_on_four_hosts_{mpi}"] = slow(_storm(mpi, 4, "8"))
        # Nothing of hydra's catches it.
        tests[f"test_usr2_to_the_steps_{mpi}"] = _storm(
            mpi, 2, "9", 2, wanted=("a signal to the steps",), signals=("USR2",))
        for kind in deaths.KINDS:
            name = kind.replace(" ", "_").replace("'", "")
            tests[f"test_death_of_{name}_{mpi}"] = _deaths(mpi, (kind,), "1")
        # The ranks on a host without a cable live on, and hold their locks.
        tests[f"test_death_of_a_cable_and_then_a_rank_{mpi}"] = _deaths(
            mpi, ("a cable", "a rank here"), "2")
    return tests
