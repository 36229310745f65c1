// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::verify::tests::Scratch;

const SOON: Duration = Duration::from_millis(100);

#[test]
fn one_run_at_a_time_has_a_job() {
    let scratch = Scratch::new();
    let job = JobDir::new(&scratch.0, "one");
    assert!(job.create_new().unwrap());
    assert!(!job.create_new().unwrap(), "a second job of that name");
    assert_eq!(job.runner(), None, "nobody has run it yet");
    let first = job.hold(SOON).unwrap().unwrap();
    assert!(job.hold(SOON).unwrap().is_none(), "a second run");
    let us = Runner { pid: std::process::id(), host: fermata_sysio::host_name() };
    assert_eq!(job.runner(), Some(us));
    // A process that continues with the job has the file too; the lock ends with the last of them.
    let file = first.into_file().unwrap();
    let second = JobLock::adopt(file.try_clone().unwrap());
    drop(file);
    assert!(job.hold(SOON).unwrap().is_none(), "it was handed over");
    drop(second);
    // Another test may just be starting a process, which has all files until it has begun.
    let begun = Instant::now();
    while job.runner().is_some() && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(SOON);
    }
    assert_eq!(job.runner(), None);
    assert!(job.hold(SOON).unwrap().is_some(), "the run has ended");
}

#[test]
fn who_waits_gets_a_job_that_is_ending() {
    let scratch = Scratch::new();
    let job = JobDir::new(&scratch.0, "one");
    job.create().unwrap();
    let first = job.hold(SOON).unwrap().unwrap();
    let ends = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        drop(first);
    });
    assert!(job.hold(Duration::from_secs(20)).unwrap().is_some());
    ends.join().unwrap();
}

#[test]
fn ranks_that_came_to_mpi_finalize_have_left_word() {
    let scratch = Scratch::new();
    let job = JobDir::new(&scratch.0, "one");
    job.create().unwrap();
    assert!(job.ended_ranks().is_empty());
    fs::write(job.ranks_path(), b"RF\0F").unwrap();
    assert_eq!(job.ended_ranks(), BTreeSet::from([1, 3]));
}
