// SPDX-License-Identifier: Apache-2.0
//! Levels, and the chain of those that a run uses.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// More parities than any set needs.
pub const PARITIES_MAX: u32 = 8;

/// A level. Each promises all that those before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Level {
    /// On the host that wrote it.
    Local,
    /// A copy on another host.
    Partner,
    /// A parity over a set of hosts.
    Xor,
    /// So many parities, two or more, over a set of hosts.
    Rs(u32),
    /// A directory that does not lie on the job's hosts.
    Shared,
}

impl Level {
    /// Parities of a set; 0: it has none.
    #[must_use]
    pub fn parities(self) -> u32 {
        match self {
            Self::Xor => 1,
            Self::Rs(parities) => parities,
            Self::Local | Self::Partner | Self::Shared => 0,
        }
    }

    /// The level that has so many parities, at least one.
    #[must_use]
    pub fn of_parities(parities: u32) -> Self {
        if parities <= 1 { Self::Xor } else { Self::Rs(parities) }
    }

    /// Whether it lies on the hosts of the job.
    #[must_use]
    pub fn is_on_hosts(self) -> bool {
        self != Self::Shared
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Partner => f.write_str("partner"),
            Self::Xor => f.write_str("xor"),
            Self::Rs(parities) => write!(f, "rs{parities}"),
            Self::Shared => f.write_str("shared"),
        }
    }
}

impl From<Level> for String {
    fn from(level: Level) -> Self {
        level.to_string()
    }
}

impl TryFrom<String> for Level {
    type Error = ChainError;

    fn try_from(word: String) -> Result<Self, ChainError> {
        word.parse()
    }
}

impl FromStr for Level {
    type Err = ChainError;

    fn from_str(word: &str) -> Result<Self, ChainError> {
        let unknown = || ChainError::Unknown(word.to_owned());
        match word {
            "local" => Ok(Self::Local),
            "partner" => Ok(Self::Partner),
            "xor" => Ok(Self::Xor),
            "shared" => Ok(Self::Shared),
            _ => {
                let parities: u32 =
                    word.strip_prefix("rs").and_then(|m| m.parse().ok()).ok_or_else(unknown)?;
                // One spelling for each: "rs1" is xor, "rs02" nothing.
                let level = Self::Rs(parities);
                let is_one = (2..=PARITIES_MAX).contains(&parities) && level.to_string() == word;
                if is_one { Ok(level) } else { Err(unknown()) }
            }
        }
    }
}

/// The levels of a run, in their order; the first is `local`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chain(Vec<Level>);

/// Why a list of levels is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// No level has that name.
    #[error("there is no level '{0}': local, partner, xor, rs2 to rs{PARITIES_MAX}, shared")]
    Unknown(String),
    /// All others are made from what is local.
    #[error("the first level is local: the others are made from it")]
    NotLocal,
    /// Twice the same, or a weaker one after a stronger one.
    #[error("{1} stands after {0}: levels stand in the order local, partner, xor, rs2, .., shared")]
    Order(Level, Level),
}

impl Chain {
    /// All of them.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.0
    }

    /// The most parities that a set has; 0: there are no sets.
    #[must_use]
    pub fn parities(&self) -> u32 {
        self.0.iter().map(|level| level.parities()).max().unwrap_or(0)
    }

    /// What is left of it on so many hosts: of parities as many as they can have. None: one host
    /// has no levels.
    #[must_use]
    pub fn on(&self, hosts: u32) -> Option<Self> {
        let most = hosts.checked_sub(1).filter(|most| *most > 0)?;
        let fitting = |level: &Level| match *level {
            Level::Rs(parities) if parities > most && most == 1 => Level::Xor,
            Level::Rs(parities) => Level::Rs(parities.min(most)),
            other => other,
        };
        let mut levels: Vec<Level> = self.0.iter().map(fitting).collect();
        levels.dedup();
        Some(Self(levels))
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(Level::to_string).collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for Chain {
    type Err = ChainError;

    fn from_str(list: &str) -> Result<Self, ChainError> {
        let levels: Vec<Level> =
            list.split(',').map(|word| word.trim().parse()).collect::<Result<_, _>>()?;
        if levels.first() != Some(&Level::Local) {
            return Err(ChainError::NotLocal);
        }
        let wrong = levels.windows(2).find(|pair| pair[0] >= pair[1]);
        match wrong {
            Some(pair) => Err(ChainError::Order(pair[0], pair[1])),
            None => Ok(Self(levels)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_read_and_said() {
        let chain: Chain = "local,partner, xor,rs2,rs3,shared".parse().unwrap();
        let words: Vec<String> = chain.levels().iter().map(Level::to_string).collect();
        assert_eq!(words, ["local", "partner", "xor", "rs2", "rs3", "shared"]);
        assert_eq!(chain.parities(), 3);
        assert_eq!("local".parse::<Chain>().unwrap().parities(), 0);
    }

    #[test]
    fn fewer_hosts_have_fewer_parities() {
        let chain: Chain = "local,partner,xor,rs2,rs3,shared".parse().unwrap();
        let on = |hosts| chain.on(hosts).map(|chain| chain.to_string());
        assert_eq!(on(4).unwrap(), chain.to_string());
        assert_eq!(on(3).unwrap(), "local,partner,xor,rs2,shared");
        assert_eq!(on(2).unwrap(), "local,partner,xor,shared");
        assert_eq!((on(1), on(0)), (None, None));
    }

    #[test]
    fn what_is_no_chain_says_why() {
        let why = |list: &str| list.parse::<Chain>().unwrap_err().to_string();
        assert_eq!(
            why("local,raid"),
            "there is no level 'raid': local, partner, xor, rs2 to rs8, shared"
        );
        for word in ["rs1", "rs9", "rs02", "rs", "", "Local"] {
            assert!(word.parse::<Level>().is_err(), "{word}");
        }
        assert_eq!(why("xor,local"), "the first level is local: the others are made from it");
        assert!(why("local,shared,xor").starts_with("xor stands after shared"));
        assert!(why("local,xor,xor").starts_with("xor stands after xor"));
    }
}
