// SPDX-License-Identifier: Apache-2.0
//! What the end of a run means to whoever may begin it again.

use crate::exit::{DAMAGED, LAUNCHER, REFUSED, USAGE};
use crate::life;
use crate::wait::Waited;
use fermata_coordinator::JobEnd;
use fermata_launch::mpi::Family;
use fermata_launch::outcome::{Meaning, meaning};
use fermata_policy::recovery::{Cause, Ending};
use std::os::unix::process::ExitStatusExt;

/// From what mpirun, of this family, and the coordinator say. `native`: mpirun's exit code.
pub fn ending_of(
    family: Family,
    waited: &Waited,
    ending: &JobEnd,
    native: u8,
    is_well: bool,
) -> Ending {
    if ending.stopped {
        return Ending::Stopped;
    }
    if is_well {
        return Ending::Done;
    }
    if waited.has_missed_daemon {
        return Ending::Lost(Cause::Daemon);
    }
    let lost = ending.lost_host.as_ref().map(|host| host.name.clone());
    if let Some(host) = waited.given_up.clone().or(lost) {
        return Ending::Lost(Cause::Host(host));
    }
    if let Some(signal) = waited.told {
        return Ending::Told(signal);
    }
    let code = i32::from(native);
    if waited.status.signal().is_some() {
        return Ending::Lost(Cause::Launcher(code));
    }
    let rank = ending.ends.first_to_leave.as_ref().map(|(rank, _)| *rank);
    match meaning(family, code) {
        // It has said so itself, and would again.
        _ if [USAGE, REFUSED, DAMAGED, LAUNCHER].contains(&native) && !ending.ends.have_begun => {
            Ending::Refused
        }
        Meaning::Signal(signal) => Ending::Lost(Cause::Rank { rank, signal: Some(signal) }),
        Meaning::Launcher(code) => Ending::Lost(Cause::Launcher(code)),
        // mpirun is content, and ranks are missing.
        Meaning::Program(0) if ending.ends.have_begun => Ending::Lost(Cause::Launcher(0)),
        // The others have found out, or have computed with what a dead rank had not sent.
        Meaning::Program(code)
            if ending.ends.abort_after_loss.map(|it| it & 0xff) == Some(code) =>
        {
            Ending::Lost(Cause::Rank { rank, signal: None })
        }
        Meaning::Program(code) => Ending::Program(code),
    }
}

/// What a run has died of, for people.
pub fn shown(cause: &Cause) -> String {
    match cause {
        Cause::Rank { rank, signal } => {
            let who = rank.map_or_else(|| "a rank".into(), |rank| format!("rank {rank}"));
            let of = signal.map(|signal| format!(" of {}", life::name(signal)));
            format!("{who} has died{}", of.unwrap_or_default())
        }
        Cause::Host(host) => format!("host {host} is lost"),
        Cause::Daemon => "a daemon of mpirun has died".into(),
        Cause::Launcher(0) => "mpirun has ended without all ranks".into(),
        Cause::Launcher(code) => format!("mpirun has failed with code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fermata_coordinator::{Ends, LostHost};
    use std::process::ExitStatus;
    use std::time::Duration;

    /// Of a run whose mpirun ends so, with rank 1 as the first to leave.
    fn of(raw: i32, have_begun: bool, told: Option<i32>, lost: Option<&str>) -> Ending {
        let waited = Waited {
            status: ExitStatus::from_raw(raw),
            told,
            given_up: None,
            has_missed_daemon: false,
        };
        let host = |name: &str| LostHost { name: name.into(), is_silent: true };
        let ending = JobEnd {
            stopped: false,
            committed_epoch: 0,
            lost_host: lost.map(host),
            ends: Ends {
                have_begun,
                shortfall: Some("rank 1 has left".into()),
                some_ended: false,
                first_to_leave: have_begun.then(|| (1, "a".into())),
                abort_after_loss: have_begun.then_some(15),
            },
            timeout: Duration::from_secs(1),
        };
        let native = waited.status.code().unwrap_or(137);
        ending_of(Family::OpenMpi, &waited, &ending, u8::try_from(native).unwrap(), false)
    }

    fn code(code: i32) -> i32 {
        code << 8
    }

    #[test]
    fn what_a_run_dies_of() {
        let killed = Ending::Lost(Cause::Rank { rank: Some(1), signal: Some(9) });
        assert_eq!(of(code(137), true, None, None), killed);
        assert_eq!(of(code(3), true, None, None), Ending::Program(3));
        let found = Ending::Lost(Cause::Rank { rank: Some(1), signal: None });
        assert_eq!(of(code(15), true, None, None), found, "rank 1 was lost before");
        assert_eq!(of(code(0), true, None, None), Ending::Lost(Cause::Launcher(0)));
        assert_eq!(of(code(205), true, None, None), Ending::Lost(Cause::Launcher(205)));
        assert_eq!(of(9, true, None, None), Ending::Lost(Cause::Launcher(137)), "mpirun itself");
        assert_eq!(of(code(0), true, None, Some("b")), Ending::Lost(Cause::Host("b".into())));
        assert_eq!(of(code(143), true, Some(15), None), Ending::Told(15));
    }

    #[test]
    fn what_was_refused_is_refused_again() {
        for refusal in [2, 3, 4, 70] {
            assert_eq!(of(code(refusal), false, None, None), Ending::Refused);
            assert_eq!(of(code(refusal), true, None, None), Ending::Program(refusal));
        }
        assert_eq!(of(code(1), false, None, None), Ending::Program(1));
    }

    #[test]
    fn causes_are_told_in_words() {
        let killed = |rank| shown(&Cause::Rank { rank, signal: Some(9) });
        assert_eq!(killed(Some(1)), "rank 1 has died of SIGKILL");
        assert_eq!(killed(None), "a rank has died of SIGKILL");
        assert_eq!(shown(&Cause::Host("b".into())), "host b is lost");
    }
}
