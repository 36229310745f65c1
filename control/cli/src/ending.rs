// SPDX-License-Identifier: Apache-2.0
//! How a run ends: the exit code, and what is said last. A job has ended well if mpirun says 0 and
//! all ranks came to MPI_Finalize: an mpirun may say 0 though it has lost a host, or ranks.

use crate::exit::{FAILURE, SAVED};
use crate::hints::{self, quoted, quoted_path};
use crate::jobs::unix_now_s;
use crate::life;
use crate::outcome::ending_of;
use crate::output::{Output, human_age};
use crate::wait::Waited;
use fermata_coordinator::JobEnd;
use fermata_launch::key;
use fermata_launch::mpi::Family;
use fermata_launch::start::Start;
use fermata_policy::recovery::Ending;
use fermata_policy::signals::Why;
use fermata_storage::{JobDir, list_snapshots, read_manifest, within};
use fermata_sysio::print_error;
use fermata_types::JobRecord;
use serde_json::json;
use signal_hook::low_level::signal_name;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

/// How a run has ended.
#[derive(Debug)]
pub struct End {
    /// What `fermata` ends with.
    pub code: u8,
    /// The newest committed checkpoint, if the job was stopped there.
    stopped_at: Option<u32>,
    /// The newest checkpoint that the run has committed; 0: none.
    pub newest_epoch: u32,
    /// What has stopped it, if it was no command.
    by: Option<Why>,
    /// What it means to whoever may begin again.
    pub ending: Ending,
    /// Why it has not ended well.
    why: Option<String>,
    /// Who has died while the others have come to their end, as they may.
    outlived: Option<String>,
    /// There is nothing to continue from or to start again that the user does not know of.
    is_plain: bool,
    lost_host: Option<String>,
}

impl End {
    /// From what mpirun, of this family, and the coordinator say. `by`: what the run was saved and
    /// stopped for; `survives`: ranks may die if others come to their end.
    pub fn of(
        family: Family,
        waited: &Waited,
        ending: &JobEnd,
        by: Option<Why>,
        survives: bool,
    ) -> Self {
        let is_outlived = survives && ending.ends.some_ended && waited.told.is_none();
        let outlived = ending.ends.shortfall.clone().filter(|_| is_outlived && !ending.stopped);
        let status = waited.status;
        let native = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        let native = native.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILURE);
        let why = match &outlived {
            _ if ending.stopped => None,
            // One that waits for a lost host has been ended when nobody else was left.
            Some(_) if native == 0 || waited.given_up.is_some() => None,
            _ => why_not_well(waited, ending, native),
        };
        let code = match &why {
            // mpirun calls ranks that end without MPI_Finalize a failure; here it was asked for.
            _ if ending.stopped => by.map_or(0, |_| SAVED),
            Some(_) if native == 0 || waited.given_up.is_some() => FAILURE,
            None if outlived.is_some() => 0,
            _ => native,
        };
        Self {
            code,
            stopped_at: ending.stopped.then_some(ending.committed_epoch),
            newest_epoch: ending.committed_epoch,
            by: by.filter(|_| ending.stopped),
            ending: ending_of(family, waited, ending, native, why.is_none()),
            why,
            outlived,
            // Ranks that could not be started have said why themselves.
            is_plain: !ending.ends.have_begun && waited.told.is_none(),
            lost_host: ending.lost_host.as_ref().map(|lost| lost.name.clone()),
        }
    }

    /// Why the job has not ended well; `None`: it has, or it was stopped.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// The last line: what is saved, and the command that continues. None if the job has ended
    /// well.
    /// `verdict`: why it is not begun again, if that was to be.
    pub fn report(&self, job: &JobDir, start: &Start, timeout: Duration, verdict: Option<&str>) {
        let name = hints::name_of(job);
        if let Some(epoch) = self.stopped_at {
            let resume = command_to_resume(job, start, None);
            return print_error(format_args!(
                "job {name} stopped at checkpoint {epoch}{}; continue with: {resume}",
                self.by.map_or(String::new(), |why| format!(" {}", life::reason(why)))
            ));
        }
        if let (None, Some(dead)) = (&self.why, &self.outlived) {
            return print_error(format_args!("{dead}; the others have come to their end"));
        }
        let Some(why) = self.why.as_ref().filter(|_| !self.is_plain) else { return };
        let directory = job.clone();
        let saved = within(timeout, move || newest(&directory)).flatten();
        let saved = saved.filter(|(epoch, _)| *epoch >= self.newest_epoch);
        let is_on_hosts = start.levels.is_some() && self.newest_epoch > 0;
        let hint = match saved {
            Some((epoch, age_s)) => format!(
                "checkpoint {epoch}, {} old, is saved; continue with: {}",
                human_age(age_s),
                command_to_resume(job, start, self.lost_host.as_deref())
            ),
            None if is_on_hosts => format!(
                "checkpoint {} is kept on its hosts; continue with: {}",
                self.newest_epoch,
                command_to_resume(job, start, self.lost_host.as_deref())
            ),
            None => "nothing of it is saved; start it again".into(),
        };
        let verdict = verdict.map_or(String::new(), |verdict| format!("\n  {verdict}"));
        print_error(format_args!("job {name} has not ended well: {why}{verdict}\n  hint: {hint}"));
    }

    /// For programs. `code`: what the command ends with.
    pub fn answer(&self, record: &JobRecord, code: u8, output: Output) {
        if output.json {
            let value = json!({"job": record.job, "stopped": self.stopped_at.is_some(),
                               "epoch": self.newest_epoch, "code": code, "why": self.why,
                               "ranks": record.size, "mpi": record.lower});
            output.result("", &value);
        }
    }
}

fn why_not_well(waited: &Waited, ending: &JobEnd, native: u8) -> Option<String> {
    if waited.has_missed_daemon {
        return Some("a daemon of mpirun has died".into());
    }
    let shortfall = ending.ends.shortfall.clone();
    if let Some(host) = &waited.given_up {
        return shortfall.or_else(|| Some(format!("host {host} is lost")));
    }
    if native == 0 && shortfall.is_none() {
        return None;
    }
    match waited.told.filter(|_| ending.lost_host.is_none()) {
        Some(signal) => {
            let name = signal_name(signal).unwrap_or("a signal");
            Some(format!("it was told to end ({name})"))
        }
        None => shortfall.or_else(|| Some(format!("its exit code is {native}"))),
    }
}

/// Number of the newest snapshot that can be read, and how old it is in seconds.
fn newest(job: &JobDir) -> Option<(u32, u64)> {
    list_snapshots(job).into_iter().rev().find_map(|snapshot| {
        let manifest = read_manifest(&snapshot.path, key::own()).ok()?;
        Some((snapshot.epoch, unix_now_s().saturating_sub(manifest.created_unix_s)))
    })
}

/// The restart; after a lost host on those that are left, if the job was given its hosts.
pub fn command_to_resume(job: &JobDir, start: &Start, lost_host: Option<&str>) -> String {
    let left = lost_host.map_or(Vec::new(), |lost| hosts_left(&start.hosts, lost));
    let mut words = Vec::new();
    if !left.is_empty() {
        words.push(format!("--host {}", quoted(&left.join(","))));
    }
    if left.len() > 1 {
        words.extend(start.remote_shell.iter().map(|it| format!("--remote-shell {}", quoted(it))));
        words.extend(start.local_dir.iter().map(|it| format!("--local-dir {}", quoted_path(it))));
        let levels = start.levels.as_ref().and_then(|it| it.on(left.len().try_into().ok()?));
        words.extend(levels.map(|it| format!("--levels {it}")));
    }
    hints::for_job(job, "restart", &words.join(" "))
}

/// The names of these hosts without the one that was lost.
pub fn hosts_left(given: &[String], lost: &str) -> Vec<String> {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let names = given.iter().map(|word| word.split(':').next().unwrap_or_default());
    names.filter(|name| short(name) != short(lost)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fermata_coordinator::{Ends, LostHost};
    use std::process::ExitStatus;

    fn waited(code: i32) -> Waited {
        Waited {
            status: ExitStatus::from_raw(code << 8),
            told: None,
            given_up: None,
            has_missed_daemon: false,
        }
    }

    fn ending(shortfall: Option<&str>) -> JobEnd {
        JobEnd {
            stopped: false,
            committed_epoch: 0,
            lost_host: None,
            ends: Ends {
                have_begun: true,
                shortfall: shortfall.map(str::to_owned),
                some_ended: false,
                first_to_leave: None,
                abort_after_loss: None,
            },
            timeout: Duration::from_secs(1),
        }
    }

    fn of(waited: &Waited, ending: &JobEnd) -> End {
        End::of(Family::OpenMpi, waited, ending, None, false)
    }

    fn is_well(end: &End) -> bool {
        end.stopped_at.is_none() && end.why.is_none()
    }

    #[test]
    fn a_job_that_a_signal_has_stopped_is_saved_and_not_done() {
        let stopped = JobEnd { stopped: true, ..ending(Some("rank 1")) };
        let end = End::of(Family::OpenMpi, &waited(1), &stopped, Some(Why::Signal(15)), false);
        assert_eq!((end.code, end.ending.clone()), (SAVED, Ending::Stopped));
        let end = End::of(Family::OpenMpi, &waited(0), &ending(None), Some(Why::Limit), false);
        assert!(end.code == 0 && is_well(&end), "it was done before it could be saved");
    }

    #[test]
    fn zero_is_for_jobs_that_have_ended_well() {
        let well = of(&waited(0), &ending(None));
        assert!(is_well(&well) && well.code == 0);
        let left = of(&waited(0), &ending(Some("rank 1 has ended")));
        assert!(!is_well(&left) && left.code == FAILURE);
        let own = of(&waited(3), &ending(Some("rank 1 has ended")));
        assert!(!is_well(&own) && own.code == 3);
        let stopped = of(&waited(1), &JobEnd { stopped: true, ..ending(Some("rank 1")) });
        assert!(!is_well(&stopped) && stopped.code == 0);
        let host = Some(LostHost { name: "b".into(), is_silent: true });
        let given_up = Waited { given_up: Some("b".into()), ..waited(0) };
        let lost = of(&given_up, &JobEnd { lost_host: host, ..ending(None) });
        assert_eq!((lost.code, lost.why.as_deref()), (FAILURE, Some("host b is lost")));
        let told = Waited { told: Some(15), ..waited(0) };
        assert!(is_well(&of(&told, &ending(None))), "the program may end at a signal");
        let told = of(&told, &ending(Some("rank 1 has ended")));
        assert_eq!(told.why.as_deref(), Some("it was told to end (SIGTERM)"));
    }

    #[test]
    fn ranks_that_may_die_are_outlived_if_some_come_to_their_end() {
        let end = |waited: &Waited, some_ended| {
            let mut ending = ending(Some("rank 1 has ended"));
            ending.ends.some_ended = some_ended;
            End::of(Family::Mpich, waited, &ending, None, true)
        };
        let outlived = end(&waited(0), true);
        assert!(is_well(&outlived) && outlived.code == 0);
        assert_eq!(outlived.outlived.as_deref(), Some("rank 1 has ended"));
        let nobody = end(&waited(0), false);
        assert!(!is_well(&nobody) && nobody.code == FAILURE);
        let own = end(&waited(3), true);
        assert!(!is_well(&own) && own.code == 3);
        let told = end(&Waited { told: Some(15), ..waited(0) }, true);
        assert!(!is_well(&told));
        let given_up = || Waited { given_up: Some("b".into()), ..waited(137) };
        let without_host = end(&given_up(), true);
        assert!(is_well(&without_host) && without_host.code == 0);
        let without_anybody = end(&given_up(), false);
        assert!(!is_well(&without_anybody) && without_anybody.code == FAILURE);
    }

    #[test]
    fn a_lost_host_is_left_out() {
        let given = ["a:4", "b.cluster:4", "c"].map(str::to_owned);
        assert_eq!(hosts_left(&given, "b"), ["a", "c"]);
        assert!(hosts_left(&[], "b").is_empty());
    }
}
