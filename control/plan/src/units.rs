// SPDX-License-Identifier: Apache-2.0
//! Durations and sizes as people write them: "60d", "20y", "240GB", "2TB/s".

use serde::de::{Deserialize, Deserializer, Error};

/// Seconds of a year of 365.25 days.
pub const YEAR_S: f64 = 31_557_600.0;

fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let value: f64 = text[..end].parse().ok()?;
    Some((value, text[end..].trim()))
}

/// "90", "90s", "10m", "2h", "60d", "5y" -> seconds.
///
/// # Errors
/// The text is no duration, or not above zero.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let (value, unit) =
        split(text).ok_or_else(|| format!("'{text}' is no duration; write 90s, 12h, 60d or 5y"))?;
    let factor = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "y" => YEAR_S,
        _ => return Err(format!("'{unit}' is no unit of time; use ms, s, m, h, d or y")),
    };
    let seconds = value * factor;
    if seconds > 0.0 && seconds < 1e15 {
        Ok(seconds)
    } else {
        Err(format!("'{text}' is out of range"))
    }
}

/// "4096", "500M", "60GB" (decimal), "60g", "60GiB" (binary), each also per second -> bytes.
///
/// # Errors
/// The text is no size, or not above zero.
pub fn parse_bytes(text: &str) -> Result<f64, String> {
    let (value, unit) =
        split(text).ok_or_else(|| format!("'{text}' is no size; write 60GB, 60GiB or 2TB/s"))?;
    let unit = unit.trim_end_matches("/s").to_ascii_lowercase();
    let factor: f64 = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1_048_576.0,
        "g" | "gib" => 1_073_741_824.0,
        "t" | "tib" => 1_099_511_627_776.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(format!("'{unit}' is no unit of size; use kB, MB, GB, TB or KiB to TiB")),
    };
    let bytes = value * factor;
    if bytes > 0.0 && bytes < 1e21 { Ok(bytes) } else { Err(format!("'{text}' is out of range")) }
}

/// 5400 -> "90.0 min".
pub fn human_seconds(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "never".into(),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s if s < 2.0 * YEAR_S => format!("{:.1} days", s / 86_400.0),
        s => format!("{:.1} years", s / YEAR_S),
    }
}

/// For serde: a duration in seconds, as a number or as text with a unit.
///
/// # Errors
/// What `parse_seconds` says.
pub fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    one(Text::deserialize(deserializer)?, parse_seconds)
}

/// For serde: a size in bytes, as a number or as text with a unit.
///
/// # Errors
/// What `parse_bytes` says.
pub fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    one(Text::deserialize(deserializer)?, parse_bytes)
}

/// For serde: a size that may be left out.
///
/// # Errors
/// What `parse_bytes` says.
pub fn some_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    bytes(deserializer).map(Some)
}

/// A number, or a text with a unit.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Text {
    Number(f64),
    Words(String),
}

fn one<E: Error>(text: Text, parse: fn(&str) -> Result<f64, String>) -> Result<f64, E> {
    match text {
        Text::Number(value) if value > 0.0 && value.is_finite() => Ok(value),
        Text::Number(value) => Err(E::custom(format!("{value} is not above zero"))),
        Text::Words(words) => parse(&words).map_err(E::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes() {
        assert_eq!(parse_seconds("90"), Ok(90.0));
        assert_eq!(parse_seconds("1.5h"), Ok(5400.0));
        assert_eq!(parse_seconds("2y"), Ok(2.0 * YEAR_S));
        assert_eq!(parse_bytes("240GB"), Ok(240e9));
        assert_eq!(parse_bytes("1GiB"), Ok(1_073_741_824.0));
        assert_eq!(parse_bytes("2TB/s"), Ok(2e12));
        for text in ["", "soon", "-1s", "0", "3 weeks"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
        assert!(parse_bytes("0").is_err());
        assert!(parse_bytes("12 apples").is_err());
    }

    #[test]
    fn times_for_people() {
        assert_eq!(human_seconds(5400.0), "90.0 min");
        assert_eq!(human_seconds(30.0), "30.0 s");
        assert_eq!(human_seconds(f64::INFINITY), "never");
    }
}
