// SPDX-License-Identifier: Apache-2.0
//! Keys, ids and MACs as text.

/// Two digits a byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The reverse of `hex`; `None`: it is not the text of so many bytes.
#[must_use]
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(hex(&[0, 0xab, 7]), "00ab07");
        assert_eq!(unhex("00ab07"), Some([0, 0xab, 7]));
        for text in ["00ab0", "00ab0g", "00ab077", "", "00ab\u{e9}"] {
            assert_eq!(unhex::<3>(text), None, "{text}");
        }
    }
}
