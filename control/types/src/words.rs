// SPDX-License-Identifier: Apache-2.0
//! The words of a command line, which are bytes and need not be UTF-8. Records hold a word as a
//! string where it is UTF-8, else as the array of its bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Bytes(Vec<u8>),
}

/// For `#[serde(with)]`.
///
/// # Errors
/// What the serializer says.
pub fn serialize<S: Serializer>(words: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
    let word = |word: &OsString| match word.to_str() {
        Some(text) => Word::Text(text.to_owned()),
        None => Word::Bytes(word.as_bytes().to_vec()),
    };
    serializer.collect_seq(words.iter().map(word))
}

/// For `#[serde(with)]`.
///
/// # Errors
/// They are no words.
pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Vec<OsString>, D::Error> {
    let word = |word| match word {
        Word::Text(text) => OsString::from(text),
        Word::Bytes(bytes) => OsString::from_vec(bytes),
    };
    Ok(Vec::<Word>::deserialize(deserializer)?.into_iter().map(word).collect())
}

/// As records have them.
#[must_use]
pub fn value(words: &[OsString]) -> Value {
    serialize(words, serde_json::value::Serializer).unwrap_or_default()
}

/// A word for people: bytes that are no UTF-8 are spelled out.
#[must_use]
pub fn shown(word: &OsStr) -> String {
    let mut text = String::new();
    for chunk in word.as_bytes().utf8_chunks() {
        text += chunk.valid();
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// A command line for people.
#[must_use]
pub fn line(words: &[OsString]) -> String {
    words.iter().map(|word| shown(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_utf_8_come_back() {
        let words = ["plain", "näïve"].map(OsString::from).to_vec();
        let words = [words, vec![OsString::from_vec(b"caf\xe9.in".to_vec())]].concat();
        let kept = value(&words);
        assert_eq!(kept.to_string(), r#"["plain","näïve",[99,97,102,233,46,105,110]]"#);
        assert_eq!(deserialize(kept).unwrap(), words);
        assert_eq!(line(&words), r"plain näïve caf\xe9.in");
    }
}
