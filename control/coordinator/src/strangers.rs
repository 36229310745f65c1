// SPDX-License-Identifier: Apache-2.0
//! What the log says of those who are turned away. Anybody may knock at a TCP port, as often as he
//! likes, and every line lies in the job's directory: a few are told each minute, the others
//! counted.

const MINUTE_MS: u64 = 60_000;
/// So many are told in full each minute.
const TOLD: u64 = 5;

#[derive(Default)]
pub(crate) struct Strangers {
    since_ms: u64,
    turned_away: u64,
}

impl Strangers {
    /// One has been turned away, `why` says for what. Returns what the log is to say.
    pub(crate) fn turned_away(&mut self, why: String, now_ms: u64) -> Vec<String> {
        let mut lines = Vec::new();
        if now_ms.saturating_sub(self.since_ms) >= MINUTE_MS {
            lines.extend(self.rest());
            self.since_ms = now_ms;
        }
        self.turned_away += 1;
        if self.turned_away <= TOLD {
            lines.push(why);
        }
        lines
    }

    /// What has not been told yet of the minute that ends.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let untold = self.turned_away.saturating_sub(TOLD);
        self.turned_away = 0;
        (untold > 0).then(|| format!("turned {untold} more away in a minute"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_not_filled_by_strangers() {
        let mut strangers = Strangers::default();
        let mut lines = Vec::new();
        for number in 0..20_000 {
            lines.extend(strangers.turned_away(format!("guest {number}"), number * 6));
        }
        lines.extend(strangers.rest());
        assert_eq!(lines.len(), 2 * (5 + 1), "two minutes: {lines:?}");
        assert_eq!(lines[5], "turned 9995 more away in a minute");
        assert_eq!(lines[6], "guest 10000");
    }

    #[test]
    fn few_are_told_each() {
        let mut strangers = Strangers::default();
        for minute in 0..3 {
            let now = minute * MINUTE_MS;
            assert_eq!(strangers.turned_away("one".into(), now), ["one"]);
        }
        assert_eq!(strangers.rest(), None);
    }
}
