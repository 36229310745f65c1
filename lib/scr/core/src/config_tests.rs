// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn with(variables: &[(&str, &str)]) -> Config {
    let pairs = variables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Config::new(pairs.collect())
}

fn value(config: &mut Config, key: &str) -> Option<String> {
    match config.request(key).unwrap() {
        Request::Value(value) => value,
        other => panic!("{key} is {other:?}"),
    }
}

#[test]
fn the_first_source_wins() {
    let mut config = with(&[("SCR_FLUSH", "1")]);
    config.read(Source::System, "SCR_FLUSH=4\nSCR_DEBUG=4\nA=4\nB=4\nC=4").unwrap();
    config.request("SCR_FLUSH=3").unwrap();
    config.request("SCR_DEBUG=3").unwrap();
    config.request("A=3").unwrap();
    config.read(Source::User, "SCR_FLUSH=2\nSCR_DEBUG=2").unwrap();
    let found = ["SCR_FLUSH", "SCR_DEBUG", "A", "B", "D"].map(|key| config.get(key));
    let number = |text: &str| Some(text.to_owned());
    assert_eq!(found, [number("1"), number("2"), number("3"), number("4"), None]);
}

#[test]
fn comments_quotes_and_variables() {
    let mut config = with(&[("USER", "ann"), ("N", "7")]);
    let text = "# none\n\n  SCR_PREFIX=\"/my dir/with/=/#sign\"  # here\n\
                SCR_CACHE_BASE=/ssd/$USER/${N}x$\n\
                EMPTY=\"\"\nUNSET=a${NOBODY}b\n";
    config.read(Source::User, text).unwrap();
    assert_eq!(config.get("SCR_PREFIX").unwrap(), "/my dir/with/=/#sign");
    assert_eq!(config.get("SCR_CACHE_BASE").unwrap(), "/ssd/ann/7x$");
    assert_eq!(config.get("EMPTY").unwrap(), "");
    assert_eq!(config.get("UNSET").unwrap(), "ab");
}

#[test]
fn parents_stand_beside_each_other_and_children_come_from_the_first_source() {
    let mut config = with(&[]);
    config.read(Source::System, "CKPT=0 INTERVAL=1 TYPE=XOR\nCKPT=1 INTERVAL=8 TYPE=RS").unwrap();
    config.request("CKPT=0 TYPE=SINGLE SET_SIZE=4").unwrap();
    assert_eq!(config.values("CKPT"), ["0", "1"]);
    assert_eq!(value(&mut config, "CKPT=0 TYPE").unwrap(), "SINGLE");
    assert_eq!(value(&mut config, "CKPT=0 INTERVAL").unwrap(), "1");
    assert_eq!(value(&mut config, "CKPT=1 SET_SIZE"), None);
    assert_eq!(value(&mut config, "CKPT=2 TYPE"), None);
    config.request("CKPT=0 TYPE=").unwrap();
    assert_eq!(value(&mut config, "CKPT=0 TYPE").unwrap(), "XOR");
}

#[test]
fn what_the_program_has_set_it_can_unset() {
    let mut config = with(&[]);
    config.read(Source::System, "SCR_FLUSH=4").unwrap();
    assert_eq!(config.request("SCR_FLUSH=10").unwrap(), Request::Set);
    assert_eq!(config.request("SCR_FLUSH=20").unwrap(), Request::Set);
    assert_eq!(value(&mut config, "SCR_FLUSH").unwrap(), "20");
    assert_eq!(config.request("SCR_FLUSH=").unwrap(), Request::Unset);
    assert_eq!(value(&mut config, "SCR_FLUSH").unwrap(), "4");
    assert_eq!(config.request("SCR_NONE=").unwrap(), Request::Unset);
}

#[test]
fn what_makes_no_sense_says_where() {
    let mut config = with(&[]);
    let mut why = |text| config.read(Source::User, text).unwrap_err().to_string();
    assert_eq!(why("A=1\nB"), "line 2: 'B' is no KEY=VALUE");
    assert_eq!(why("=1"), "line 1: '=1' has no key");
    assert_eq!(why("A=\"b"), "line 1: a quote is not closed: A=\"b");
    assert_eq!(why("CKPT= TYPE=XOR"), "line 1: 'CKPT=' names no CKPT");
    assert_eq!(config.request(" "), Err(ConfigError::NoKey(" ".into())));
    assert_eq!(config.request("CKPT TYPE"), Err(ConfigError::NoParent("CKPT".into())));
}

proptest! {
    #[test]
    fn nothing_that_is_read_panics(text in "(?s)[A-C=\"#$ {}\n]{0,40}") {
        let mut config = with(&[("A", "x")]);
        let _ = config.read(Source::User, &text);
        let _ = config.request(&text);
    }

    #[test]
    fn what_is_set_is_found(key in "[A-Z_]{1,8}", value in "[a-z0-9/=.]{1,12}") {
        prop_assume!(!PARENTS.contains(&key.as_str()));
        let mut config = with(&[]);
        config.request(&format!("{key}={value}")).unwrap();
        prop_assert_eq!(config.get(&key), Some(value));
    }
}
