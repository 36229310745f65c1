// SPDX-License-Identifier: Apache-2.0
//! Waiting for mpirun: it gets the signals that are meant for the job, and not for those who save
//! it (`life`). When a host is lost some mpiruns wait for it for ever, deaf to signals; a host that
//! stays silent ends them here. One whose daemon has closed its line may be well, and its ranks
//! too. Where ranks may die (`--survive`) a silent host ends nobody as long as a rank elsewhere
//! lives.

use crate::hints;
use crate::life::Life;
use crate::proxies::Proxies;
use anyhow::{Context, Result};
use fermata_coordinator::{Handle, JobEnd, LostHost};
use fermata_launch::guarded::reaching;
use fermata_policy::signals::SaveOn;
use fermata_sysio::print_error;
use fermata_transport::SILENCE_MAX;
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGSTOP, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(50);
/// Time for an mpirun to end its job by itself: before the user is told of a lost host, and after
/// it has been asked to.
const GRACE: Duration = Duration::from_secs(5);
/// Time for an mpirun to end after its job was saved and stopped.
const STOP_MAX: Duration = Duration::from_secs(30);
/// So long a host may be silent after it was found to be: its daemon looks for the coordinator for
/// as long, and the connections of an MPI may outlive ours.
const RETURN_WAIT: Duration = crate::reach::TIMEOUT;
/// So long, and so long again for mpirun to end, if the job is begun again without it: all that can
/// be lost then, by a host that would have come back, is what was computed since the last snapshot.
const RETRY_WAIT: Duration = Duration::from_secs(1);
/// mpirun's daemons are looked at so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So long what is to be ended may take to stop.
const STOPPING_MAX: Duration = Duration::from_secs(1);

/// How mpirun has ended.
#[derive(Debug)]
pub struct Waited {
    /// What it says.
    pub status: ExitStatus,
    /// The first signal that asked the job to end.
    pub told: Option<i32>,
    /// The host for whose loss it has been ended.
    pub given_up: Option<String>,
    /// A daemon of it has died, for which its ranks have been ended.
    pub has_missed_daemon: bool,
}

/// What a host's loss means to the job.
pub struct Losses<'a> {
    /// The command for the time after it.
    pub resume: &'a dyn Fn(&str) -> String,
    /// The ranks of other hosts continue.
    pub are_outlived: bool,
    /// The children of this mpirun are its daemons.
    pub are_children_daemons: bool,
}

/// What has been done about mpirun so far.
#[derive(Default)]
struct Watch {
    told: Option<i32>,
    /// When mpirun was last asked to end; from a loss on only what may have been because of that.
    asked: Option<Instant>,
    /// Since when a host is lost.
    lost: Option<Instant>,
    /// When a rank that may continue without that host was last there.
    outlived: Option<Instant>,
    /// The user knows.
    has_said: bool,
    given_up: Option<String>,
    /// Since when the job is saved and its ranks are ending.
    stopped: Option<Instant>,
    proxies: Proxies,
    /// When they were last looked at.
    looked: Option<Instant>,
    /// Since when one is missed.
    missed: Option<Instant>,
    /// Signals that do not reach mpirun.
    deaf_to: SaveOn,
    /// How long a host may be silent.
    return_wait: Duration,
}

/// Waits for the end of `child`, an mpirun.
pub fn for_mpirun(
    mut child: Child,
    job: &str,
    coordinator: &Handle,
    life: &mut Life,
    losses: &Losses,
) -> Result<Waited> {
    let return_wait = if life.begins_again() { RETRY_WAIT } else { RETURN_WAIT };
    let deaf_to = life.save_on().clone();
    let mut watch = Watch { deaf_to, return_wait, ..Watch::default() };
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for mpirun")? {
            let has_missed_daemon = watch.missed.is_some() && life.begins_again();
            let (told, given_up) = (watch.told, watch.given_up);
            return Ok(Waited { status, told, given_up, has_missed_daemon });
        }
        for signal in life.attend(job, coordinator) {
            watch.tell(&mut child, signal);
            if signal != SIGUSR1 && signal != SIGUSR2 {
                watch.told.get_or_insert(signal);
                watch.asked = Some(Instant::now());
            }
        }
        watch.mind_stop(&mut child, coordinator.was_stopped(), life.why().is_some());
        if losses.are_outlived && coordinator.has_undecided_ranks() {
            watch.outlived = Some(Instant::now());
        }
        if losses.are_children_daemons && watch.is_time_to_look() {
            let begins_again = life.begins_again();
            watch.mind_proxies(&mut child, job, coordinator, begins_again);
        }
        match coordinator.lost_host() {
            Some(host) => watch.mind_loss(&mut child, &host, losses),
            None => (watch.lost, watch.has_said) = (None, false),
        }
        thread::sleep(TICK);
    }
}

impl Watch {
    /// It may be gone already; then there is nobody to tell.
    fn tell(&self, child: &mut Child, signal: i32) {
        match reaching(signal, &self.deaf_to) {
            Some(signal) => {
                let _ = fermata_sysio::send_signal(child.id(), signal);
            }
            None => end_tree(child),
        }
    }

    /// Ends an mpirun that does not end with a job that is saved. One that hears signals is left to
    /// whoever has stopped the job by a command. `by_us`: nobody waits.
    fn mind_stop(&mut self, child: &mut Child, is_stopped: bool, by_us: bool) {
        if !is_stopped || self.deaf_to.is_empty() && !by_us {
            return;
        }
        let since = *self.stopped.get_or_insert_with(Instant::now);
        if since.elapsed() > STOP_MAX {
            end_tree(child);
        }
    }

    fn is_time_to_look(&mut self) -> bool {
        let is_time =
            self.proxies.are_unknown() || self.looked.is_none_or(|at| at.elapsed() > LOOK_EVERY);
        if is_time {
            self.looked = Some(Instant::now());
        }
        is_time
    }

    /// Where a run begins again the ranks of one that has lost a daemon are ended: it cannot end
    /// well. Else that is said, for its user may save it.
    fn mind_proxies(
        &mut self,
        child: &mut Child,
        job: &str,
        coordinator: &Handle,
        begins_again: bool,
    ) {
        let now = Instant::now();
        if let Some(missed) = self.missed {
            if begins_again && now - missed > GRACE {
                end_tree(child);
            }
            return;
        }
        let children = fermata_sysio::living_children(child.id());
        if self.proxies.have_missed(children, coordinator.hosts_of_all(), now) {
            self.missed = Some(now);
            if begins_again {
                coordinator.end_ranks();
            } else {
                print_error(format_args!(
                    "a daemon of mpirun has died: the ranks run on, but cannot end well\n  \
                     hint: fermata checkpoint {job} --stop, then fermata restart {job}"
                ));
            }
        }
    }

    fn mind_loss(&mut self, child: &mut Child, host: &LostHost, losses: &Losses) {
        let now = Instant::now();
        let lost = self.note_loss(host.is_silent, now);
        let since = now - lost;
        if since > GRACE && !self.has_said && self.given_up.is_none() {
            self.has_said = true;
            print_error(said_of(host, losses));
        }
        if host.is_silent && self.has_missed_host(lost, now) && self.asked.is_none() {
            self.tell(child, SIGTERM);
            self.asked = Some(now);
            self.given_up = Some(host.name.clone());
        }
        if self.has_outlived_grace(lost, now) {
            end_tree(child);
        }
    }

    /// Returns when it began. A signal from before is none because of it, and the job may have
    /// survived that for hours; but who presses Ctrl-C at a job that hangs may have been earlier
    /// than we to see that a host is silent.
    fn note_loss(&mut self, is_silent: bool, now: Instant) -> Instant {
        if self.lost.is_none() {
            self.asked = self.asked.filter(|at| is_silent && now - *at < SILENCE_MAX);
        }
        *self.lost.get_or_insert(now)
    }

    /// Whether a host has been silent for so long that nobody waits for it any more: nobody who
    /// could continue without it is left.
    fn has_missed_host(&self, lost: Instant, now: Instant) -> bool {
        let since = self.outlived.map_or(lost, |outlived| outlived.max(lost));
        now - since > self.return_wait
    }

    /// Whether mpirun has had its time since it was asked to end a job that has lost a host. One
    /// that is asked because of the silence is deaf, as a rule: it waits for that host.
    fn has_outlived_grace(&self, lost: Instant, now: Instant) -> bool {
        let grace = if self.given_up.is_some() { GRACE.min(self.return_wait) } else { GRACE };
        self.asked.is_some_and(|at| now - at.max(lost) > grace)
    }
}

/// mpirun has had the time to notice by itself.
fn said_of(host: &LostHost, losses: &Losses) -> String {
    let name = &host.name;
    if host.is_silent && losses.are_outlived {
        return format!("host {name} is silent: the ranks of other hosts continue without it");
    }
    if host.is_silent {
        let wait_s = (RETURN_WAIT - GRACE).as_secs();
        return format!("host {name} is silent: if it stays so for {wait_s} s, the job is ended");
    }
    format!(
        "the daemon of host {name} has ended: its ranks may run on, but this run cannot be saved \
         any more\n  hint: if they do not, end it ({}), then {}",
        hints::how_to_end(),
        (losses.resume)(name)
    )
}

/// Ends a coordinator whose mpirun has ended. It may have to store a snapshot; a signal ends that.
pub fn for_coordinator(coordinator: Handle) -> Result<JobEnd> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot watch signals")?;
    let begun = Instant::now();
    let mut told = false;
    Ok(coordinator.stop(|| {
        if !told && begun.elapsed() > GRACE {
            told = true;
            print_error(format_args!(
                "a snapshot is still being stored, or old ones are being removed\n  \
                 hint: {} breaks that off",
                hints::how_to_end()
            ));
        }
        signals.pending().next().is_none()
    }))
}

/// Ends mpirun and what it has started on this host. What it started elsewhere ends there by itself
/// when it finds mpirun gone. `child` has not been waited for. All of them are stopped first: what
/// starts others while we look would leave these behind.
pub fn end_tree(child: &mut Child) {
    let mut stopped = BTreeSet::new();
    let begun = Instant::now();
    while begun.elapsed() < STOPPING_MAX {
        // A fork(2) that has begun ends before its process stops: whom it makes is found then.
        let have_stopped = stopped.iter().all(|pid| fermata_sysio::has_stopped(*pid));
        let all = iter::once(child.id()).chain(descendants(child.id()));
        let new: Vec<u32> = all.filter(|pid| stopped.insert(*pid)).collect();
        if new.is_empty() && have_stopped {
            break;
        }
        for pid in new {
            let _ = fermata_sysio::send_signal(pid, SIGSTOP);
        }
        thread::sleep(Duration::from_millis(1));
    }
    for pid in stopped {
        let _ = fermata_sysio::send_signal(pid, SIGKILL);
    }
    let _ = child.kill();
}

fn descendants(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some((pid, parent)) = pid.and_then(|pid| Some((pid, fermata_sysio::parent_of(pid)?)))
        else {
            continue;
        };
        children.entry(parent).or_default().push(pid);
    }
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        next.extend(below);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const MOMENT: Duration = Duration::from_millis(1);

    /// How many processes have this word on their command lines.
    fn running(word: &str) -> usize {
        let lines = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&line).into_owned())
        });
        lines.filter(|line| line.contains(word)).count()
    }

    #[test]
    fn what_is_just_being_started_is_ended_as_well() {
        let word = format!("1000.{}", std::process::id());
        for turn in 0..100 {
            let script = format!("sleep {word} & (sleep {word} & sleep {word}) & wait");
            let mut shell = Command::new("sh").arg("-c").arg(script).spawn().unwrap();
            thread::sleep(turn * Duration::from_micros(50));
            end_tree(&mut shell);
            shell.wait().unwrap();
        }
        let until = Instant::now() + Duration::from_secs(10);
        while running(&word) > 0 && Instant::now() < until {
            thread::sleep(MOMENT);
        }
        assert_eq!(running(&word), 0);
    }

    fn asked(at: Instant) -> Watch {
        Watch { asked: Some(at), ..Watch::default() }
    }

    #[test]
    fn a_signal_from_before_does_not_end_a_job_that_loses_a_daemon() {
        let begun = Instant::now();
        for (is_silent, earlier) in [(false, MOMENT), (false, SILENCE_MAX), (true, SILENCE_MAX)] {
            let mut watch = asked(begun);
            let lost = begun + earlier;
            assert_eq!(watch.note_loss(is_silent, lost), lost);
            assert!(!watch.has_outlived_grace(lost, lost + 100 * GRACE), "{is_silent} {earlier:?}");
        }
    }

    #[test]
    fn a_signal_since_a_loss_gives_mpirun_its_time() {
        let begun = Instant::now();
        for is_silent in [false, true] {
            let mut watch = Watch::default();
            watch.note_loss(is_silent, begun);
            let at = begun + 2 * GRACE;
            watch.asked = Some(at);
            assert_eq!(watch.note_loss(is_silent, at), begun);
            assert!(!watch.has_outlived_grace(begun, at + GRACE));
            assert!(watch.has_outlived_grace(begun, at + GRACE + MOMENT));
        }
    }

    #[test]
    fn a_silent_host_ends_nobody_who_continues_without_it() {
        let lost = Instant::now();
        let after = |outlived| Watch { outlived, return_wait: RETURN_WAIT, ..Watch::default() };
        let later = lost + 100 * RETURN_WAIT;
        assert!(after(None).has_missed_host(lost, lost + RETURN_WAIT + MOMENT));
        assert!(!after(Some(later)).has_missed_host(lost, later + RETURN_WAIT));
        assert!(after(Some(later)).has_missed_host(lost, later + RETURN_WAIT + MOMENT));
        let before = after(Some(lost));
        assert!(!before.has_missed_host(lost + RETURN_WAIT, lost + RETURN_WAIT + MOMENT));
    }

    #[test]
    fn a_signal_just_before_a_host_is_found_silent_gives_mpirun_its_time_from_then_on() {
        let begun = Instant::now();
        let mut watch = asked(begun);
        let lost = begun + SILENCE_MAX - MOMENT;
        watch.note_loss(true, lost);
        assert!(!watch.has_outlived_grace(lost, lost + GRACE));
        assert!(watch.has_outlived_grace(lost, lost + GRACE + MOMENT));
    }
}
