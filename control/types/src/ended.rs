// SPDX-License-Identifier: Apache-2.0
//! How a run of a job has ended, as its record and its history say.

use serde::{Deserialize, Serialize};

/// How a run of a job has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Ended {
    /// It has not ended; or whoever ran it was killed before it could say so.
    Running,
    /// All ranks came to MPI_Finalize, and mpirun was content: nothing is left to do.
    Finished,
    /// A checkpoint ended it: it is to be continued.
    Saved {
        /// That checkpoint.
        epoch: u32,
    },
    /// It has not ended well.
    Failed(HowFailed),
    /// It has not ended well, because a host was lost.
    Lost {
        /// Its name.
        host: String,
    },
    /// Nobody has said so: an older version has run it, or it is a way that only a newer one knows.
    #[default]
    #[serde(other)]
    Unknown,
}

/// How a run has failed, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HowFailed {
    /// What `fermata run` ended with: mpirun's, as a shell has it, or 1 where that is 0; not known
    /// under a foreign mpirun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
    /// The signal that the code tells of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The rank that was the first to leave without MPI_Finalize.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The host of that rank.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The same for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Ended {
    /// For records that say nothing.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_comes_back() {
        let failed = HowFailed { signal: Some(9), rank: Some(1), ..HowFailed::default() };
        for (ended, text) in [
            (Ended::Running, r#"{"how":"running"}"#),
            (Ended::Finished, r#"{"how":"finished"}"#),
            (Ended::Saved { epoch: 3 }, r#"{"how":"saved","epoch":3}"#),
            (Ended::Failed(failed), r#"{"how":"failed","signal":9,"rank":1}"#),
            (Ended::Lost { host: "b".into() }, r#"{"how":"lost","host":"b"}"#),
        ] {
            assert_eq!(serde_json::to_string(&ended).unwrap(), text);
            assert_eq!(serde_json::from_str::<Ended>(text).unwrap(), ended);
        }
    }

    #[test]
    fn a_way_that_a_newer_version_knows_is_not_known() {
        let text = r#"{"how":"evaporated","degrees":100}"#;
        assert!(serde_json::from_str::<Ended>(text).unwrap().is_unknown());
    }
}
