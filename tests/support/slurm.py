# SPDX-License-Identifier: Apache-2.0
"""Slurm on the hosts of the virtual cluster: the controller on the first, a slurmd on each."""
import os
import shlex
import shutil
import time

from support.cases import Failed, Skipped, check

# On each host's own /run: the sockets in it have paths of at most 107 bytes, however long that of
# the project is.
SPOOL = "/run/slurmd"
PROGRAMS = ("slurmctld", "slurmd", "munged", "srun")
START_S = 60
CONFIGURATION = """\
ClusterName=virtual
SlurmctldHost={first}({first_address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={spool}
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=2,sched_min_interval=100000
SwitchType=switch/none
MpiDefault=none
ReturnToService=1
JobRequeue=0
KillWait=5
KillOnBadExit=1
SlurmdTimeout=10
MessageTimeout=10
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
"""
NODE = "NodeName={name} NodeAddr={address} CPUs=2 RealMemory=2000 State=UNKNOWN\n"
PARTITION = "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
# Jobs of the partition `urgent` take hosts from those of `main`, which are queued again.
PREEMPTION = """\
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
"""
PREEMPTED = " PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace_s}\n"
URGENT = "PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF\n"


def obstacle():
    """Why there can be no Slurm here; empty if there can."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    return f"{missing[0]} is not installed: ./x test --cluster installs it" if missing else ""


class Slurm:
    """grace_s: jobs of the partition `main` may be preempted, and have so long then. submit: a
    job_submit.lua, which sees each job that is handed in."""

    def __init__(self, cluster, grace_s=None, submit=None):
        if obstacle():
            raise Skipped(obstacle())
        self.cluster, self.folder = cluster, cluster.work / "slurm"
        self.conf = self.folder / "slurm.conf"
        (self.folder / "state").mkdir(parents=True)
        addresses = [f"10.99.0.{i + 1}" for i in range(len(cluster.hosts))]
        text = CONFIGURATION.format(first=cluster.hosts[0], first_address=addresses[0],
                                    folder=self.folder, spool=SPOOL)
        for name, address in zip(cluster.hosts, addresses):
            text += NODE.format(name=name, address=address)
        text += PARTITION
        if grace_s is None:
            text += "\n"
        else:
            text += PREEMPTED.format(grace_s=grace_s) + URGENT + PREEMPTION
        if submit:
            shutil.copy(submit, self.folder / "job_submit.lua")
            text += "JobSubmitPlugins=lua\nJobFileAppend=1\n"
        self.conf.write_text(text)
        # Named, because the hosts have no control groups from which it could be guessed.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "key").write_bytes(os.urandom(1024))
        for name in cluster.hosts:
            self._start_munge(name)
        self.must(cluster.hosts[0], "slurmctld -c")
        for name in cluster.hosts:
            self._start_slurmd(name)
        self._wait_for_idle_hosts()

    def _start_munge(self, name):
        self.must(name, f"mkdir -p /run/munge && cp {self.folder}/key /run/munge/key && "
                        "chmod 400 /run/munge/key && munged --key-file=/run/munge/key "
                        "--pid-file=/run/munge/pid --log-file=/run/munge/log "
                        "--seed-file=/run/munge/seed --num-threads=2")

    def _start_slurmd(self, name):
        self.must(name, f"mkdir -p {SPOOL} && slurmd -N {name}")

    def rejoin(self, name):
        """Takes a host in again that has been booted, other than the first, the controller's."""
        self._start_munge(name)
        self._start_slurmd(name)

    def _wait_for_idle_hosts(self):
        until = time.monotonic() + START_S
        while self.run("sinfo -h -t idle -o %D").out.strip() != str(len(self.cluster.hosts)):
            if time.monotonic() > until:
                raise Failed("Slurm's hosts do not get ready\n" + self.run("sinfo -N -l").out)
            time.sleep(0.2)

    def line(self, command):
        return f"cd {shlex.quote(str(self.cluster.work))}; export SLURM_CONF={self.conf}; {command}"

    def must(self, host, command):
        self.cluster.run(host, self.line(command)).expect_success(command)

    def run(self, command, timeout_s=60):
        """A command line on the first host, to its end."""
        return self.cluster.run(self.cluster.hosts[0], self.line(command), timeout_s)

    def shell(self, command, run):
        """A command line on the first host, in the background."""
        return self.cluster.shell(self.cluster.hosts[0], self.line(command), self.cluster.work, run)

    def submit(self, *words):
        """Hands in a batch script. Returns the job's number."""
        said = self.run(f"sbatch --parsable {' '.join(words)}")
        return said.expect_success("sbatch").out.strip()

    def ask(self, job):
        """What scontrol tells of a job, by name; empty when Slurm has forgotten it. A controller
        that is busy is asked again."""
        until = time.monotonic() + 60
        while True:
            answer = self.run(f"scontrol show job -o {job}")
            if answer.code == 0 or "Invalid job id" in answer.err:
                break
            check(time.monotonic() < until, f"Slurm does not answer: {answer.err}")
            time.sleep(0.5)
        words = answer.out.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def state(self, job):
        return self.ask(job).get("JobState", "")

    def wait_for_state(self, job, states, timeout_s=90):
        """Returns which of these states the job has come to."""
        until = time.monotonic() + timeout_s
        while (state := self.state(job)) not in states:
            if time.monotonic() > until:
                raise Failed(f"job {job} is {state}, not {' or '.join(states)}")
            time.sleep(0.3)
        return state

    def release(self, job, hosts=()):
        """Begins a queued job now, on these hosts if any are named. Slurm holds one that was
        queued again for two minutes, and refuses it the credential of the second in which that
        was done."""
        self.wait_for_state(job, ("PENDING",))
        time.sleep(1.5)
        where = f" NodeList={','.join(hosts)}" if hosts else ""
        self.run(f"scontrol update JobId={job} StartTime=now{where}").expect_success("release")
