// SPDX-License-Identifier: Apache-2.0
//! What batch systems say. Slurm's answers are those of 22.05, the others' as their manuals print
//! them.
#![allow(clippy::unwrap_used)]

use super::*;

fn batch(variables: &[(&str, &str)]) -> Option<Batch> {
    let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
    Batch::of(|name| find(name).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn each_system_is_known_by_one_variable() {
    assert_eq!(batch(&[("PATH", "/bin")]), None);
    for (variable, system) in [
        ("SLURM_JOB_ID", System::Slurm),
        ("PBS_JOBID", System::Pbs),
        ("LSB_JOBID", System::Lsf),
        ("FLUX_JOB_ID", System::Flux),
    ] {
        let found = batch(&[(variable, "7")]).unwrap();
        assert_eq!((found.system, found.job.as_str(), found.restarts), (system, "7", 0));
        assert_eq!((found.task.as_str(), found.told_end), ("7", None));
    }
    let both = batch(&[("SLURM_JOB_ID", "7"), ("FLUX_JOB_ID", "f8")]).unwrap();
    assert_eq!(both.system, System::Flux, "the inner one");
}

#[test]
fn a_task_of_an_array_is_queued_again_alone() {
    let found = batch(&[
        ("SLURM_JOB_ID", "19"),
        ("SLURM_ARRAY_JOB_ID", "17"),
        ("SLURM_ARRAY_TASK_ID", "3"),
        ("SLURM_RESTART_COUNT", "2"),
        ("SLURM_JOB_END_TIME", "1764288000"),
    ]);
    let wanted = Batch {
        system: System::Slurm,
        job: "19".into(),
        task: "17_3".into(),
        restarts: 2,
        told_end: Some(1_764_288_000),
    };
    assert_eq!(found, Some(wanted));
}

#[test]
fn slurm_tells_which_hosts_hang_on_one_switch() {
    let tree = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-1] \n\
                SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[2-3] \n\
                SwitchName=top Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=s[0-1] \n";
    let hosts = ["n0", "n3", "n2"].map(str::to_owned);
    let groups = |answer| Groups::try_from(leaves(answer)).unwrap().of(&hosts);
    assert_eq!(groups(tree), [["s0", "s1", "s1"]]);
    let blocks = "BlockName=b1 BlockIndex=0 Nodes=n[0-2] BlockSize=3\n";
    assert_eq!(groups(blocks), [["b1", "n3 alone", "b1"]]);
    assert!(leaves("").is_empty(), "topology/default");
}

#[test]
fn slurm_tells_the_end() {
    let line = "JobId=7 JobName=work UserId=u(1) TimeLimit=01:00:00 StartTime=1764284400 \
                EndTime=1764288000 Deadline=N/A PreemptTime=None";
    assert_eq!(slurm_end(line), Some(End::At(1_764_288_000)));
    assert_eq!(slurm_end("JobId=7 EndTime=Unknown"), Some(End::Never));
    assert_eq!(slurm_end("TimeLimit=UNLIMITED EndTime=1795824000"), Some(End::Never));
    assert_eq!(slurm_end("slurm_load_jobs error: Invalid job id specified"), None);
    assert_eq!(slurm_end("EndTime=2026-11-28T00:00:00"), None, "not in seconds");
}

#[test]
fn pbs_tells_the_limit_and_what_is_used() {
    let openpbs = "Job Id: 12.server\n    job_state = R\n    \
                   resources_used.walltime = 00:30:00\n    \
                   Resource_List.select = 2:ncpus=8\n    Resource_List.walltime = 12:00:00\n";
    assert_eq!(pbs_end(openpbs), Some(End::In(11 * 3600 + 1800)));
    let fresh = "    job_state = R\n    Resource_List.walltime = 100:00:00\n";
    assert_eq!(pbs_end(fresh), Some(End::In(360_000)));
    assert_eq!(pbs_end("    Walltime.Remaining = 3570\n"), Some(End::In(3570)));
    assert_eq!(pbs_end("    job_state = R\n"), Some(End::Never));
    assert_eq!(pbs_end(""), None);
}

#[test]
fn lsf_and_flux_tell_what_is_left() {
    assert_eq!(lsf_end("11:59 L\n"), Some(End::In(11 * 3600 + 58 * 60)));
    assert_eq!(lsf_end("0:0 L\n"), Some(End::In(0)));
    assert_eq!(lsf_end("-\n"), Some(End::Never));
    assert_eq!(lsf_end("Job <7> is not found"), None);
    assert_eq!(lsf_end(""), None);
    assert_eq!(flux_end("3599\n"), Some(End::In(3599)));
    assert_eq!(flux_end("infinity\n"), Some(End::Never));
    assert_eq!(flux_end("flux-job: job is inactive"), None);
}

#[test]
fn a_job_that_waits_is_queued_already() {
    assert!(is_queued("PENDING\n") && is_queued("RUNNING\nPENDING\n"));
    assert!(!is_queued("RUNNING\n") && !is_queued("") && !is_queued("COMPLETING\n"));
}

#[test]
fn only_slurm_queues_a_job_again_from_within() {
    for variable in ["PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"] {
        let error = batch(&[(variable, "7")]).unwrap().requeue().unwrap_err();
        assert!(error.to_string().contains("--chain"), "{error}");
    }
}
