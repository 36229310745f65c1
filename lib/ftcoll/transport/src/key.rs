// SPDX-License-Identifier: Apache-2.0
//! What the processes of one job know and nobody else: 32 random bytes, new for each job. The
//! launcher hands them over in the environment, which no other user can read, or the program does
//! by its own means; never on a command line.

use std::fmt;
use std::io::{self, Read};

const BYTES: usize = 32;

/// A job's key. Prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// A fresh one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Of these bytes, which have to be random.
    #[must_use]
    pub const fn new(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// As text, 64 hexadecimal digits, for the environment.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// From its text; `None` if it is none.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() != 2 * BYTES || !text.bytes().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn only_whole_keys_are_taken_and_none_is_printed() {
        let key = Key::generate().unwrap();
        assert_eq!(Key::from_text(&key.to_text()), Some(key.clone()));
        assert_ne!(Key::generate().unwrap(), key);
        assert_eq!(Key::from_text(&key.to_text()[1..]), None);
        assert_eq!(Key::from_text(&"g".repeat(64)), None);
        assert_eq!(format!("{key:?}"), "Key(..)");
    }
}
