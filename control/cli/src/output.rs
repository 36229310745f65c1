// SPDX-License-Identifier: Apache-2.0
//! What commands print: results for people, or one JSON value for programs (`--json`), on standard
//! output; how far long work is, on standard error.
//!
//! Invariant: nothing panics because a pipe, a terminal or a disk takes no more. This process may
//! have a job and its coordinator in it.

use anyhow::{Context, Result};
use fermata_launch::units::human_bytes;
use fermata_sysio::{print_error, printable};
use fermata_types::Every;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Where results go.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// One JSON value on standard output instead of text.
    pub json: bool,
}

impl Output {
    /// The answer that the command is for, in the form asked for. Who stops reading, as `head`
    /// does, has had enough of it; a full disk is a failure.
    pub fn answer(self, text: impl AsRef<str>, value: &Value) -> Result<()> {
        let line = match text.as_ref().trim_end() {
            _ if self.json => format!("{}\n", plain_json(value)),
            "" => return Ok(()),
            text => format!("{}\n", printable(text)),
        };
        let mut out = io::stdout();
        match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("cannot write the answer"),
        }
    }

    /// What a command has done. The exit code says so as well, and stays what it is.
    pub fn result(self, text: impl AsRef<str>, value: &Value) {
        if let Err(error) = self.answer(text, value) {
            print_error(format_args!("{error:#}"));
        }
    }
}

/// JSON without control characters: it escapes those of ASCII only but DEL, and there are more,
/// which terminals obey as well (ECMA-48, C1). They can stand in strings only.
fn plain_json(value: &Value) -> String {
    let escape = |c: char| format!("\\u{:04x}", u32::from(c));
    let plain = |c: char| if c.is_control() { escape(c) } else { c.to_string() };
    value.to_string().chars().map(plain).collect()
}

/// How far long work is: a line that moves on a terminal, plain lines elsewhere. Plain lines begin
/// after a second and come at most once a second, so that quick work stays silent in a log.
pub struct Progress {
    bar: ProgressBar,
    plain: bool,
    said: Instant,
    last: String,
    /// The newest plain line without figures: once is enough.
    told: String,
}

const PLAIN_EVERY: Duration = Duration::from_secs(1);

impl Progress {
    /// `total` bytes of work, 0 = nobody knows how much.
    pub fn new(output: Output, text: &str, total_bytes: u64) -> Self {
        let template = "{spinner} {msg} {wide_bar} {bytes}/{total_bytes} {eta}";
        let bar = match (total_bytes, ProgressStyle::with_template(template)) {
            (1.., Ok(style)) => ProgressBar::new(total_bytes).with_style(style),
            _ => ProgressBar::new_spinner(),
        };
        let plain = !std::io::stderr().is_terminal() && !output.json;
        if plain || output.json {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        bar.set_message(text.to_owned());
        Self { bar, plain, said: Instant::now(), last: text.to_owned(), told: String::new() }
    }

    /// What is being done now.
    pub fn say(&mut self, text: String) {
        self.bar.set_message(text.clone());
        self.last = text;
        self.say_plainly();
    }

    /// So many more bytes are done.
    pub fn advance(&mut self, bytes: u64) {
        self.bar.inc(bytes);
        self.say_plainly();
    }

    fn say_plainly(&mut self) {
        if !self.plain || self.said.elapsed() < PLAIN_EVERY {
            return;
        }
        self.said = Instant::now();
        let (done, total) = (self.bar.position(), self.bar.length());
        match total {
            Some(total) => {
                let (done, total) = (human_bytes(done), human_bytes(total));
                print_error(format_args!("{}: {done} of {total}", self.last));
            }
            None if self.told != self.last => {
                print_error(&self.last);
                self.told.clone_from(&self.last);
            }
            None => {}
        }
    }
}

impl Drop for Progress {
    /// Leaves nothing on the terminal.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// 7500 -> "2 h"
pub fn human_age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// 1500 -> "1.5 s"
pub fn human_ms(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..120_000 => format!("{:.1} s", ms as f64 / 1e3),
        _ => human_age(ms / 1000),
    }
}

/// "90", "90s", "10m", "2h", "500ms" -> milliseconds
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let value: f64 =
        digits.parse().map_err(|_| format!("'{text}' is no duration; write 90s, 10m or 2h"))?;
    let factor = match &text[digits.len()..] {
        "ms" => 1.0,
        "" | "s" => 1e3,
        "m" | "min" => 60e3,
        "h" => 3600e3,
        "d" => 86400e3,
        unit => return Err(format!("'{unit}' is no unit of time; use ms, s, m, h or d")),
    };
    let ms = value * factor;
    if !(0.0..=1e15).contains(&ms) {
        return Err(format!("'{text}' is out of range"));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(ms as u64)
}

/// The same, or "auto".
pub fn parse_every(text: &str) -> Result<Every, String> {
    Every::parse(text, parse_duration_ms)
}

/// The reverse of `parse_duration_ms`.
pub fn duration(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let fits = units.into_iter().find(|(unit, _)| ms % *unit == 0);
    fits.map_or(String::new(), |(unit, name)| format!("{}{name}", ms / unit))
}

/// "4096", "500m", "2g" -> bytes
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        unit => return Err(format!("'{unit}' is no unit of size; use k, m, g or t")),
    };
    let count: u64 =
        digits.parse().map_err(|_| format!("'{text}' is no size; write 500m or 2g"))?;
    count.checked_mul(1 << shift).ok_or(format!("'{text}' is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration_ms("90"), Ok(90_000));
        assert_eq!(parse_duration_ms("1.5m"), Ok(90_000));
        assert_eq!(parse_duration_ms("250ms"), Ok(250));
        for text in ["250ms", "90s", "10m", "5h", "2d"] {
            assert_eq!(parse_duration_ms(text).map(duration), Ok(text.to_owned()));
        }
        assert!(parse_duration_ms("-1s").is_err());
        assert!(parse_duration_ms("soon").is_err());
        assert!(parse_duration_ms("").is_err());
    }

    #[test]
    fn no_control_character_is_in_json() {
        let value = serde_json::json!({ "a\u{9b}31m": ["\x7f\x1b\n", "\u{80}\u{9f}\u{a0}\u{e9}"] });
        let plain = plain_json(&value);
        assert!(!plain.contains(char::is_control), "{plain:?}");
        assert_eq!(serde_json::from_str::<Value>(&plain).unwrap(), value);
    }

    #[test]
    fn sizes() {
        assert_eq!([90, 3600, 7500, 400_000].map(human_age), ["90 s", "60 min", "2 h", "4 days"]);
        assert_eq!([7, 1500, 400_000].map(human_ms), ["7 ms", "1.5 s", "6 min"]);
        assert_eq!(parse_bytes("12"), Ok(12));
        assert_eq!(parse_bytes("3m"), Ok(3 << 20));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert!(parse_bytes("much").is_err());
        assert!(parse_bytes("99999999999t").is_err());
    }
}
