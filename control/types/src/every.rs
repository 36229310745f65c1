// SPDX-License-Identifier: Apache-2.0
//! How often a job is saved of itself.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const AUTO: &str = "auto";

/// How often a job is saved of itself. In JSON: milliseconds, 0 for never, or `"auto"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Every {
    /// Only when asked.
    #[default]
    Never,
    /// This often, milliseconds.
    Ms(u64),
    /// As its plan says, which goes by what fails and by what checkpoints have taken.
    Auto,
}

impl Every {
    /// 0: never.
    #[must_use]
    pub fn of_ms(ms: u64) -> Self {
        if ms == 0 { Self::Never } else { Self::Ms(ms) }
    }

    /// As it is written on a command line; `parse_ms` reads a time.
    ///
    /// # Errors
    /// What `parse_ms` says.
    pub fn parse(
        text: &str,
        parse_ms: impl FnOnce(&str) -> Result<u64, String>,
    ) -> Result<Self, String> {
        if text == AUTO { Ok(Self::Auto) } else { parse_ms(text).map(Self::of_ms) }
    }

    /// The reverse; `write_ms` writes a time.
    #[must_use]
    pub fn write(self, write_ms: impl FnOnce(u64) -> String) -> String {
        match self {
            Self::Never => write_ms(0),
            Self::Ms(ms) => write_ms(ms),
            Self::Auto => AUTO.into(),
        }
    }
}

impl Serialize for Every {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Never => to.serialize_u64(0),
            Self::Ms(ms) => to.serialize_u64(*ms),
            Self::Auto => to.serialize_str(AUTO),
        }
    }
}

impl<'a> Deserialize<'a> for Every {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Ms(u64),
            Word(String),
        }
        match Written::deserialize(from)? {
            Written::Ms(ms) => Ok(Self::of_ms(ms)),
            Written::Word(word) if word == AUTO => Ok(Self::Auto),
            Written::Word(word) => {
                Err(de::Error::custom(format!("'{word}' is neither milliseconds nor '{AUTO}'")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_milliseconds_or_a_word() {
        for (every, text) in
            [(Every::Never, "0"), (Every::Ms(90_000), "90000"), (Every::Auto, "\"auto\"")]
        {
            assert_eq!(serde_json::to_string(&every).unwrap(), text);
            assert_eq!(serde_json::from_str::<Every>(text).unwrap(), every);
        }
        assert!(serde_json::from_str::<Every>("\"often\"").is_err());
    }
}
