// SPDX-License-Identifier: Apache-2.0
//! When a job is to end: the conditions of the halt file, which is lines of `Key=Value`.

use std::fmt;

/// The conditions. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Halt {
    /// So many checkpoints are still to be completed.
    pub checkpoints_left: Option<u64>,
    /// After this time.
    pub exit_after: Option<u64>,
    /// Before this time, by `halt_seconds`.
    pub exit_before: Option<u64>,
    /// How long before it.
    pub halt_seconds: Option<u64>,
    /// Something has ended the job, or somebody wants it to end.
    pub exit_reason: Option<String>,
}

/// Set by `SCR_Finalize`, so that nobody starts the job again.
pub const FINALIZED: &str = "SCR_FINALIZE_CALLED";

/// Which condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is a reason in the file.
    Given(String),
    /// No checkpoint is left.
    NoCheckpointsLeft,
    /// The time has come.
    After,
    /// The end is near.
    Before {
        /// Seconds until then.
        left: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(reason) => write!(f, "ExitReason is {reason}"),
            Self::NoCheckpointsLeft => f.write_str("no checkpoint is left (CheckpointsLeft)"),
            Self::After => f.write_str("the time of ExitAfter has come"),
            Self::Before { left } => write!(f, "{left} s are left (ExitBefore, HaltSeconds)"),
        }
    }
}

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: '{text}' is no condition: CheckpointsLeft, ExitAfter, ExitBefore or HaltSeconds \
     with a number, or ExitReason"
)]
pub struct HaltError {
    line: usize,
    text: String,
}

impl Halt {
    /// Reads them.
    ///
    /// # Errors
    /// A line is none.
    pub fn read(text: &str) -> Result<Self, HaltError> {
        let mut halt = Self::default();
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            halt.take(text).ok_or_else(|| HaltError { line, text: text.into() })?;
        }
        Ok(halt)
    }

    fn take(&mut self, text: &str) -> Option<()> {
        let (key, value) = text.split_once('=')?;
        let (key, value) = (key.trim(), value.trim());
        let place = match key {
            "CheckpointsLeft" => &mut self.checkpoints_left,
            "ExitAfter" => &mut self.exit_after,
            "ExitBefore" => &mut self.exit_before,
            "HaltSeconds" => &mut self.halt_seconds,
            "ExitReason" if !value.is_empty() => {
                self.exit_reason = Some(value.into());
                return Some(());
            }
            _ => return None,
        };
        *place = Some(value.parse().ok()?);
        Some(())
    }

    /// Which condition holds at that time.
    #[must_use]
    pub fn active(&self, now: u64) -> Option<Reason> {
        if let Some(reason) = &self.exit_reason {
            return Some(Reason::Given(reason.clone()));
        }
        if self.checkpoints_left == Some(0) {
            return Some(Reason::NoCheckpointsLeft);
        }
        if self.exit_after.is_some_and(|after| now > after) {
            return Some(Reason::After);
        }
        let left = self.exit_before?.saturating_sub(now);
        (left <= self.halt_seconds.filter(|seconds| *seconds > 0)?)
            .then_some(Reason::Before { left })
    }

    /// A checkpoint is complete.
    pub fn completed(&mut self) {
        if let Some(left) = &mut self.checkpoints_left {
            *left = left.saturating_sub(1);
        }
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [
            ("CheckpointsLeft", self.checkpoints_left),
            ("ExitAfter", self.exit_after),
            ("ExitBefore", self.exit_before),
            ("HaltSeconds", self.halt_seconds),
        ];
        for (key, value) in numbers {
            if let Some(value) = value {
                writeln!(f, "{key}={value}")?;
            }
        }
        match &self.exit_reason {
            Some(reason) => writeln!(f, "ExitReason={reason}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_condition_holds_when_it_should() {
        let active = |text: &str, now| Halt::read(text).unwrap().active(now);
        assert_eq!(active("", 10), None);
        assert_eq!(active("CheckpointsLeft=1", 10), None);
        assert_eq!(active("CheckpointsLeft=0", 10), Some(Reason::NoCheckpointsLeft));
        assert_eq!(
            (active("ExitAfter=10", 10), active("ExitAfter=9", 10)),
            (None, Some(Reason::After))
        );
        assert_eq!(active("ExitBefore=10", 11), None, "without HaltSeconds it says nothing");
        assert_eq!(active("ExitBefore=20\nHaltSeconds=9", 10), None);
        assert_eq!(active("ExitBefore=20\nHaltSeconds=10", 10), Some(Reason::Before { left: 10 }));
        assert_eq!(active("ExitBefore=5\nHaltSeconds=1", 10), Some(Reason::Before { left: 0 }));
        assert_eq!(active("ExitReason = USER", 1), Some(Reason::Given("USER".into())));
    }

    #[test]
    fn checkpoints_count_down() {
        let mut halt = Halt::read("CheckpointsLeft=1").unwrap();
        halt.completed();
        assert!(halt.active(0).is_some());
        halt.completed();
        assert_eq!(halt.checkpoints_left, Some(0));
    }

    #[test]
    fn what_is_no_condition_says_so() {
        for text in ["CheckpointsLeft", "CheckpointsLeft=some", "Exit=1", "ExitReason="] {
            let why = Halt::read(&format!("# a comment\n\n{text}")).unwrap_err().to_string();
            assert!(why.starts_with(&format!("line 3: '{text}' is no condition")), "{why}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            left in any::<Option<u64>>(),
            after in any::<Option<u64>>(),
            before in any::<Option<u64>>(),
            seconds in any::<Option<u64>>(),
            reason in proptest::option::of("[A-Z_]{1,10}"),
        ) {
            let halt = Halt {
                checkpoints_left: left,
                exit_after: after,
                exit_before: before,
                halt_seconds: seconds,
                exit_reason: reason,
            };
            prop_assert_eq!(Halt::read(&halt.to_string()), Ok(halt));
        }
    }
}
