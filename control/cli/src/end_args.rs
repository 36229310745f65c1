// SPDX-License-Identifier: Apache-2.0
//! The options that say what `run` and `restart` do when the end is near: of the allocation, of a
//! rank, of a host.

use crate::output::parse_duration_ms;
use clap::{Args, ValueHint};
use fermata_policy::signals::SaveOn;
use fermata_policy::spares::Place;
use jiff::civil::{DateTime, Time};
use jiff::{Timestamp, ToSpan, Zoned};

/// As on the command line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Before the end, and after a failure")]
pub struct EndArgs {
    /// Save and stop in time before this: 90m, 23:30, 2030-01-02T03:04 or @SECONDS since 1970; the
    /// end that the batch system tells holds as well
    #[arg(long, value_name = "TIME", value_parser = Until::parse)]
    pub until: Option<Until>,
    /// Signals that save and stop the job, e.g. TERM,USR1, or none [default: in a batch system
    /// TERM, USR1, USR2 and, without a terminal, INT; else none]
    #[arg(long, value_name = "LIST", value_parser = SaveOn::parse)]
    pub save_on: Option<SaveOn>,
    /// Once saved, have the batch system queue its job again
    #[arg(long, conflicts_with = "chain", value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    pub requeue: Option<bool>,
    /// Once saved, run this line by sh, e.g. 'sbatch work.sh'
    #[arg(long, value_name = "COMMAND-LINE", value_hint = ValueHint::CommandString)]
    pub chain: Option<String>,
    /// Begin again so often, from the newest snapshot, after a rank was killed, a host was lost or
    /// mpirun has failed; not after an exit code of the program's own [default: 0]
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Hosts that take the place of lost ones, e.g. c,d or c:4,d:4
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', value_parser = spare)]
    pub spare: Vec<Place>,
    /// Ranks may die while the others continue, as programs with collectives of ftcoll can
    #[arg(long, conflicts_with = "local_dir")]
    pub survive: bool,
}

impl EndArgs {
    /// Whether the batch system is to queue its job again.
    pub fn requeues(&self) -> bool {
        self.requeue.unwrap_or(false)
    }

    /// How often the job is begun again.
    pub fn retries(&self) -> u32 {
        self.retries.unwrap_or(0)
    }
}

/// When the run's time ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Milliseconds from the start of the command.
    In(u64),
    /// Milliseconds since 1970.
    At(u64),
}

impl Until {
    /// A duration or a time of this host's clock.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::of(text, &Zoned::now())
    }

    fn of(text: &str, now: &Zoned) -> Result<Self, String> {
        if let Some(seconds) = text.strip_prefix('@') {
            let seconds: u64 = seconds.parse().map_err(|_| bad(text))?;
            return seconds.checked_mul(1000).map(Self::At).ok_or_else(|| bad(text));
        }
        if !text.contains(':') {
            return parse_duration_ms(text).map(Self::In).map_err(|_| bad(text));
        }
        let zoned = match text.parse::<DateTime>() {
            Ok(time) => time.to_zoned(now.time_zone().clone()),
            Err(_) => next(text.parse().map_err(|_| bad(text))?, now),
        };
        let ms = zoned.map_err(|_| bad(text))?.timestamp().as_millisecond();
        u64::try_from(ms).map(Self::At).map_err(|_| bad(text))
    }

    /// Milliseconds since 1970, of a command that has started at `now_ms`.
    pub fn unix_ms(self, now_ms: u64) -> u64 {
        match self {
            Self::In(ms) => now_ms.saturating_add(ms),
            Self::At(ms) => ms,
        }
    }
}

/// The next time that the clock shows this.
fn next(time: Time, now: &Zoned) -> Result<Zoned, jiff::Error> {
    let today = now.date().to_datetime(time).to_zoned(now.time_zone().clone())?;
    if today > *now { Ok(today) } else { today.checked_add(1.day()) }
}

fn bad(text: &str) -> String {
    format!("'{text}' is no time; write 90m, 23:30, 2030-01-02T03:04 or @SECONDS")
}

/// Milliseconds since 1970.
pub fn unix_now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

fn spare(word: &str) -> Result<Place, String> {
    let (host, ranks) = fermata_launch::hosts::parse(word).map_err(|error| format!("{error:#}"))?;
    Ok(Place { host, ranks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn at(text: &str) -> Result<Until, String> {
        let noon = "2030-01-02T12:00".parse::<DateTime>().unwrap();
        Until::of(text, &noon.to_zoned(TimeZone::UTC).unwrap())
    }

    /// Milliseconds since 1970 of a time of that day.
    fn that_day(hours: u64, minutes: u64) -> u64 {
        1_893_542_400_000 + (hours * 60 + minutes) * 60_000
    }

    #[test]
    fn times_and_durations() {
        assert_eq!(at("90m"), Ok(Until::In(5_400_000)));
        assert_eq!(at("20"), Ok(Until::In(20_000)));
        assert_eq!(at("@1893542400"), Ok(Until::At(that_day(0, 0))));
        assert_eq!(at("23:30"), Ok(Until::At(that_day(23, 30))));
        assert_eq!(at("12:00"), Ok(Until::At(that_day(36, 0))), "the next one");
        assert_eq!(at("2030-01-02T13:04"), Ok(Until::At(that_day(13, 4))));
        assert_eq!(at("2030-01-02 13:04:30"), Ok(Until::At(that_day(13, 4) + 30_000)));
        assert_eq!(Until::In(5).unix_ms(7), 12);
        for text in
            ["", "soon", "25:00", "@", "@x", "2030-13-01T00:00", "-5m", "@18446744073709551"]
        {
            let error = at(text);
            assert!(text == "@18446744073709551" || error.is_err(), "{text}: {error:?}");
        }
    }

    #[test]
    fn spares_are_hosts() {
        assert_eq!(spare("c:4"), Ok(Place { host: "c".into(), ranks: Some(4) }));
        assert!(spare("-oProxyCommand=x").is_err());
    }
}
