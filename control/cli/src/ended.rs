// SPDX-License-Identifier: Apache-2.0
//! How a run has ended, for its record and its history.

use crate::ending::End;
use crate::wait::Waited;
use fermata_coordinator::JobEnd;
use fermata_policy::recovery::{Cause, Ending};
use fermata_types::{Ended, HowFailed};

/// A shell, and Open MPI's mpirun, say by 128 and the signal that one has ended a process.
const SIGNALLED: i32 = 128;
const SIGNAL_MAX: i32 = 64;

/// Of a run under an mpirun of ours.
pub fn of(waited: &Waited, ending: &JobEnd, end: &End) -> Ended {
    if ending.stopped {
        return Ended::Saved { epoch: ending.committed_epoch };
    }
    let Some(why) = end.why() else { return Ended::Finished };
    if let Some(lost) = &ending.lost_host {
        return Ended::Lost { host: lost.name.clone() };
    }
    let signal = match &end.ending {
        Ending::Lost(Cause::Rank { signal, .. }) => *signal, // as the MPI's mpirun tells it
        _ => Some(i32::from(end.code) - SIGNALLED).filter(|s| (1..=SIGNAL_MAX).contains(s)),
    };
    // Whoever is told to end takes its ranks along in any order.
    let first = ending.ends.first_to_leave.clone().filter(|_| waited.told.is_none());
    Ended::Failed(HowFailed { code: Some(end.code), signal, ..failed(first, why) })
}

/// Of a run that some other process manager has started, which tells nothing.
pub fn of_ranks(ending: &JobEnd) -> Ended {
    if ending.stopped {
        return Ended::Saved { epoch: ending.committed_epoch };
    }
    let ends = &ending.ends;
    match (&ending.lost_host, &ends.shortfall) {
        (_, None) if ends.have_begun => Ended::Finished,
        (_, None) => Ended::Failed(failed(None, "no rank has come")),
        (Some(lost), _) => Ended::Lost { host: lost.name.clone() },
        (None, Some(why)) => Ended::Failed(failed(ends.first_to_leave.clone(), why)),
    }
}

/// Of a run that mpirun could not be started for, or waited for.
pub fn before_ranks(why: &anyhow::Error) -> Ended {
    Ended::Failed(failed(None, &format!("{why:#}")))
}

fn failed(first: Option<(u32, String)>, why: &str) -> HowFailed {
    let (rank, host) = first.map_or((None, String::new()), |(rank, host)| (Some(rank), host));
    HowFailed { rank, host, why: why.to_owned(), ..HowFailed::default() }
}

/// For people, in a few words.
pub fn shown(ended: &Ended) -> String {
    match ended {
        Ended::Running => "broken off".into(), // or it would have said more
        Ended::Finished => "finished".into(),
        Ended::Saved { .. } => "saved".into(),
        Ended::Failed(HowFailed { signal: Some(signal), .. }) => {
            format!("failed (signal {signal})")
        }
        Ended::Failed(HowFailed { code: Some(code), .. }) => format!("failed (code {code})"),
        Ended::Failed(_) => "failed".into(),
        Ended::Lost { host } => format!("lost host {host}"),
        Ended::Unknown => "ended".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fermata_coordinator::{Ends, LostHost};
    use fermata_launch::mpi::Family;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    fn ending(shortfall: Option<&str>) -> JobEnd {
        JobEnd {
            stopped: false,
            committed_epoch: 4,
            lost_host: None,
            ends: Ends {
                have_begun: true,
                shortfall: shortfall.map(str::to_owned),
                some_ended: false,
                first_to_leave: shortfall.map(|_| (1, "b".to_owned())),
                abort_after_loss: None,
            },
            timeout: Duration::from_secs(1),
        }
    }

    fn of_status(raw: i32, told: Option<i32>, ending: &JobEnd) -> Ended {
        let waited = Waited {
            status: ExitStatus::from_raw(raw),
            told,
            given_up: None,
            has_missed_daemon: false,
        };
        of(&waited, ending, &End::of(Family::OpenMpi, &waited, ending, None, false))
    }

    #[test]
    fn what_mpirun_and_the_ranks_say_comes_together() {
        assert_eq!(of_status(0, None, &ending(None)), Ended::Finished);
        let stopped = JobEnd { stopped: true, ..ending(Some("rank 1")) };
        assert_eq!(of_status(1 << 8, None, &stopped), Ended::Saved { epoch: 4 });
        let host = Some(LostHost { name: "b".into(), is_silent: true });
        let lost = JobEnd { lost_host: host.clone(), ..ending(Some("rank 1")) };
        assert_eq!(of_status(0, None, &lost), Ended::Lost { host: "b".into() });
        assert_eq!(
            of_status(0, None, &JobEnd { lost_host: host, ..ending(None) }),
            Ended::Finished,
            "all ranks have come to their end all the same"
        );
        let Ended::Failed(own) = of_status(3 << 8, None, &ending(Some("rank 1 left"))) else {
            panic!("it has failed")
        };
        assert_eq!((own.code, own.signal, own.rank), (Some(3), None, Some(1)));
        assert_eq!((own.host.as_str(), own.why.as_str()), ("b", "rank 1 left"));
        let Ended::Failed(content) = of_status(0, None, &ending(Some("rank 1 left"))) else {
            panic!("it has failed")
        };
        assert_eq!(content.code, Some(1), "what the command ends with, whatever mpirun says");
    }

    #[test]
    fn a_signal_is_read_from_the_code() {
        for raw in [137 << 8, 9] {
            let Ended::Failed(killed) = of_status(raw, None, &ending(Some("rank 1 left"))) else {
                panic!("it has failed")
            };
            assert_eq!((killed.code, killed.signal), (Some(137), Some(9)), "{raw}");
        }
        let Ended::Failed(told) = of_status(143 << 8, Some(15), &ending(Some("rank 1"))) else {
            panic!("it has failed")
        };
        assert_eq!((told.signal, told.rank), (Some(15), None), "any rank may be the first then");
    }

    #[test]
    fn ranks_alone_say_less() {
        assert_eq!(of_ranks(&ending(None)), Ended::Finished);
        let Ended::Failed(left) = of_ranks(&ending(Some("rank 1 left"))) else { panic!("failed") };
        assert_eq!((left.code, left.rank), (None, Some(1)));
        let nobody = JobEnd { ends: Ends::default(), ..ending(None) };
        assert_eq!(shown(&of_ranks(&nobody)), "failed");
    }

    #[test]
    fn a_few_words_for_each() {
        let failed = |failed| shown(&Ended::Failed(failed));
        let killed = HowFailed { code: Some(137), signal: Some(9), ..HowFailed::default() };
        assert_eq!(failed(killed), "failed (signal 9)");
        assert_eq!(failed(HowFailed { code: Some(3), ..HowFailed::default() }), "failed (code 3)");
        assert_eq!(shown(&Ended::Lost { host: "b".into() }), "lost host b");
    }
}
