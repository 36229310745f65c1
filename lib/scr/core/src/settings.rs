// SPDX-License-Identifier: Apache-2.0
//! The keys as values, with their defaults.

use crate::config::Config;
use crate::descriptor::{self, Defaults, Descriptor, Store};
use std::fmt::Display;
use std::str::FromStr;

/// A value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}={value}: it takes {wanted}")]
pub struct SettingError {
    key: String,
    value: String,
    wanted: String,
}

impl SettingError {
    pub(crate) fn new(key: &str, value: &str, wanted: &str) -> Self {
        Self { key: key.into(), value: value.into(), wanted: wanted.into() }
    }
}

/// Keys that are taken and do nothing here: they are of SCR's own scripts, logs and transfers.
pub const WITHOUT_EFFECT: [&str; 21] = [
    "SCR_CNTL_BASE",
    "SCR_EXCLUDE_NODES",
    "SCR_FETCH_WIDTH",
    "SCR_FILE_BUF_SIZE",
    "SCR_FLUSH_ASYNC",
    "SCR_FLUSH_POSTSTAGE",
    "SCR_FLUSH_TYPE",
    "SCR_LOG_DB_DEBUG",
    "SCR_LOG_DB_ENABLE",
    "SCR_LOG_DB_HOST",
    "SCR_LOG_DB_NAME",
    "SCR_LOG_DB_PASS",
    "SCR_LOG_DB_USER",
    "SCR_LOG_ENABLE",
    "SCR_LOG_SYSLOG_ENABLE",
    "SCR_LOG_TXT_ENABLE",
    "SCR_MIN_NODES",
    "SCR_MPI_BUF_SIZE",
    "SCR_RUNS",
    "SCR_WATCHDOG_TIMEOUT",
    "SCR_WATCHDOG_TIMEOUT_PFS",
];

/// Keys that `Settings` has.
const KNOWN: [&str; 28] = [
    "SCR_CACHE_BASE",
    "SCR_CACHE_BYPASS",
    "SCR_CACHE_PURGE",
    "SCR_CACHE_SIZE",
    "SCR_CHECKPOINT_INTERVAL",
    "SCR_CHECKPOINT_OVERHEAD",
    "SCR_CHECKPOINT_SECONDS",
    "SCR_CONF_FILE",
    "SCR_COPY_TYPE",
    "SCR_CURRENT",
    "SCR_DEBUG",
    "SCR_DISTRIBUTE",
    "SCR_FETCH",
    "SCR_FETCH_BYPASS",
    "SCR_FLUSH",
    "SCR_FLUSH_ON_RESTART",
    "SCR_FLUSH_WIDTH",
    "SCR_GLOBAL_RESTART",
    "SCR_GROUP",
    "SCR_HALT_EXIT",
    "SCR_HALT_SECONDS",
    "SCR_JOB_ID",
    "SCR_PREFIX",
    "SCR_PREFIX_PURGE",
    "SCR_PREFIX_SIZE",
    "SCR_SET_FAILURES",
    "SCR_SET_SIZE",
    "SCR_USER_NAME",
];

/// All that a run is told.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // they are switches that the user has
pub struct Settings {
    /// 0: only what concerns the user; 1, 2: what is done.
    pub debug: u32,
    /// The directory that all see; empty: the working directory.
    pub prefix: String,
    /// Checkpoints that it keeps; 0: all.
    pub prefix_size: usize,
    /// All of it goes at the beginning.
    pub prefix_purge: bool,
    /// All of the cache goes at the beginning.
    pub cache_purge: bool,
    /// The checkpoint to begin with.
    pub current: Option<String>,
    /// Whether caches are looked at.
    pub distribute: bool,
    /// Whether the prefix directory is looked at.
    pub fetch: bool,
    /// Whether what is fetched stays where it is.
    pub fetch_bypass: bool,
    /// One of so many checkpoints is copied to the prefix directory; 0: none.
    pub flush: u32,
    /// Ranks that write there at a time.
    pub flush_width: usize,
    /// What is found in caches is copied there too.
    pub flush_on_restart: bool,
    /// All files are read from there.
    pub global_restart: bool,
    /// Every so many calls.
    pub interval: u32,
    /// Every so many seconds.
    pub seconds: u64,
    /// As long as it costs no more, percent.
    pub overhead: f64,
    /// Seconds before the end.
    pub halt_seconds: u64,
    /// Whether the library ends the program.
    pub halt_exit: bool,
    /// Where datasets are cached.
    pub stores: Vec<Store>,
    /// Which is kept how.
    pub descriptors: Vec<Descriptor>,
}

pub(crate) fn number<T: FromStr + Display>(
    value: Option<&String>,
    key: &str,
    otherwise: T,
) -> Result<T, SettingError> {
    let Some(value) = value else { return Ok(otherwise) };
    value.trim().parse().map_err(|_| SettingError::new(key, value, "a number"))
}

pub(crate) fn switch(
    value: Option<&String>,
    key: &str,
    otherwise: bool,
) -> Result<bool, SettingError> {
    match value.map(|value| value.trim()) {
        None => Ok(otherwise),
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(value) => Err(SettingError::new(key, value, "0 or 1")),
    }
}

impl Settings {
    /// Reads them.
    ///
    /// # Errors
    /// A value makes no sense.
    pub fn read(config: &Config) -> Result<Self, SettingError> {
        let text = |key: &str, otherwise: &str| {
            config.get(key).filter(|value| !value.is_empty()).unwrap_or_else(|| otherwise.into())
        };
        let flag = |key: &str, otherwise| switch(config.get(key).as_ref(), key, otherwise);
        let defaults = Defaults {
            copy_type: text("SCR_COPY_TYPE", "XOR"),
            store: text("SCR_CACHE_BASE", "/dev/shm"),
            count: number(config.get("SCR_CACHE_SIZE").as_ref(), "SCR_CACHE_SIZE", 1)?,
            group: text("SCR_GROUP", "NODE"),
            set_size: number(config.get("SCR_SET_SIZE").as_ref(), "SCR_SET_SIZE", 8)?,
            set_failures: number(config.get("SCR_SET_FAILURES").as_ref(), "SCR_SET_FAILURES", 2)?,
            bypass: flag("SCR_CACHE_BYPASS", true)?,
        };
        let (stores, descriptors) = descriptor::read(config, &defaults)?;
        let count = |key: &str, otherwise: u64| number(config.get(key).as_ref(), key, otherwise);
        let few = |key: &str, otherwise: u32| number(config.get(key).as_ref(), key, otherwise);
        let many = |key: &str, otherwise: usize| number(config.get(key).as_ref(), key, otherwise);
        let overhead = "SCR_CHECKPOINT_OVERHEAD";
        let share: f64 = number(config.get(overhead).as_ref(), overhead, 0.0)?;
        if !(0.0..=100.0).contains(&share) {
            return Err(SettingError::new(overhead, &share.to_string(), "a percentage"));
        }
        Ok(Self {
            debug: few("SCR_DEBUG", 0)?,
            prefix: text("SCR_PREFIX", ""),
            prefix_size: many("SCR_PREFIX_SIZE", 0)?,
            prefix_purge: flag("SCR_PREFIX_PURGE", false)?,
            cache_purge: flag("SCR_CACHE_PURGE", false)?,
            current: config.get("SCR_CURRENT").filter(|name| !name.is_empty()),
            distribute: flag("SCR_DISTRIBUTE", true)?,
            fetch: flag("SCR_FETCH", true)?,
            fetch_bypass: flag("SCR_FETCH_BYPASS", false)?,
            flush: few("SCR_FLUSH", 10)?,
            flush_width: many("SCR_FLUSH_WIDTH", 256)?.max(1),
            flush_on_restart: flag("SCR_FLUSH_ON_RESTART", false)?,
            global_restart: flag("SCR_GLOBAL_RESTART", false)?,
            interval: few("SCR_CHECKPOINT_INTERVAL", 0)?,
            seconds: count("SCR_CHECKPOINT_SECONDS", 0)?,
            overhead: share,
            halt_seconds: count("SCR_HALT_SECONDS", 0)?,
            halt_exit: flag("SCR_HALT_EXIT", false)?,
            stores,
            descriptors,
        })
    }
}

/// Keys that are set and that nobody knows: typing errors.
pub fn unknown(config: &Config) -> Vec<String> {
    let is_known = |key: &&str| KNOWN.contains(key) || WITHOUT_EFFECT.contains(key);
    let keys = config.keys().filter(|key| key.starts_with("SCR_") && !is_known(key));
    keys.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    fn read(text: &str) -> Result<Settings, SettingError> {
        let mut config = Config::default();
        config.read(Source::User, text).unwrap();
        Settings::read(&config)
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let settings = read("").unwrap();
        assert_eq!((settings.flush, settings.flush_width, settings.prefix_size), (10, 256, 0));
        assert!(settings.fetch && settings.distribute);
        assert!(!settings.halt_exit && !settings.global_restart && !settings.flush_on_restart);
        assert_eq!((settings.interval, settings.seconds, settings.halt_seconds), (0, 0, 0));
        assert_eq!(settings.current, None);
    }

    #[test]
    fn what_makes_no_sense_names_its_key() {
        for (text, why) in [
            ("SCR_FLUSH=often", "SCR_FLUSH=often: it takes a number"),
            ("SCR_FETCH=yes", "SCR_FETCH=yes: it takes 0 or 1"),
            ("SCR_CHECKPOINT_OVERHEAD=-1", "SCR_CHECKPOINT_OVERHEAD=-1: it takes a percentage"),
            ("SCR_CHECKPOINT_OVERHEAD=nan", "SCR_CHECKPOINT_OVERHEAD=NaN: it takes a percentage"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn typing_errors_are_found() {
        let mut config = Config::default();
        config.read(Source::User, "SCR_FLUHS=1\nSCR_FLUSH=1\nSCR_RUNS=3\nMINE=1").unwrap();
        assert_eq!(unknown(&config), ["SCR_FLUHS"]);
    }
}
