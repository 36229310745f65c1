// SPDX-License-Identifier: Apache-2.0
//! Where datasets are cached, and by what redundancy which of them is kept.

use crate::config::{Children, Config};
use crate::settings::{SettingError, number, switch};
use std::collections::BTreeMap;

/// How a dataset in the cache outlives a lost rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// It does not.
    Single,
    /// Another rank keeps a copy.
    Partner,
    /// One parity over a set.
    Xor,
    /// So many parities over a set.
    Rs(u32),
}

impl Scheme {
    /// Its parities.
    #[must_use]
    pub fn parities(self) -> u32 {
        match self {
            Self::Single | Self::Partner => 0,
            Self::Xor => 1,
            Self::Rs(parities) => parities,
        }
    }
}

/// A directory that caches datasets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Its path, which is its name too.
    pub path: String,
    /// Datasets that it holds at most.
    pub count: u32,
}

/// What is done with every so many checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub number: u32,
    /// One of so many checkpoints.
    pub interval: u32,
    /// The group that fails together.
    pub group: String,
    /// Where it is cached, in the list of stores.
    pub store: usize,
    /// How it is kept.
    pub scheme: Scheme,
    /// Members of a set.
    pub set_size: u32,
    /// Files are written to the prefix directory at once.
    pub bypass: bool,
    /// It is that of outputs.
    pub output: bool,
}

/// What descriptors say nothing of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// `SCR_COPY_TYPE`
    pub copy_type: String,
    /// `SCR_CACHE_BASE`
    pub store: String,
    /// `SCR_CACHE_SIZE`
    pub count: u32,
    /// `SCR_GROUP`
    pub group: String,
    /// `SCR_SET_SIZE`
    pub set_size: u32,
    /// `SCR_SET_FAILURES`
    pub set_failures: u32,
    /// `SCR_CACHE_BYPASS`
    pub bypass: bool,
}

/// The most parities of a set, as elsewhere in levels.
const PARITIES_MAX: u32 = 8;

fn scheme(word: &str, failures: u32, key: &str) -> Result<Scheme, SettingError> {
    match word {
        "SINGLE" => Ok(Scheme::Single),
        "PARTNER" => Ok(Scheme::Partner),
        "XOR" => Ok(Scheme::Xor),
        "RS" if failures == 1 => Ok(Scheme::Xor),
        "RS" if (2..=PARITIES_MAX).contains(&failures) => Ok(Scheme::Rs(failures)),
        "RS" => Err(SettingError::new(
            &format!("{key} RS for {failures} failures"),
            "0",
            "1 to 8 failures of a set",
        )),
        _ => Err(SettingError::new(key, word, "SINGLE, PARTNER, XOR or RS")),
    }
}

fn stores(config: &Config, defaults: &Defaults) -> Result<Vec<Store>, SettingError> {
    let mut stores = Vec::new();
    for path in config.values("STORE") {
        let children = config.children("STORE", &path).unwrap_or_default();
        let of = |key: &str| format!("STORE={path} {key}");
        if switch(children.get("ENABLED"), &of("ENABLED"), true)? {
            let count = number(children.get("COUNT"), &of("COUNT"), defaults.count)?;
            stores.push(Store { path, count });
        }
    }
    Ok(stores)
}

/// The number of a store in the list; one that nobody has described is added.
fn store(stores: &mut Vec<Store>, path: &str, defaults: &Defaults) -> usize {
    stores.iter().position(|store| store.path == path).unwrap_or_else(|| {
        stores.push(Store { path: path.to_owned(), count: defaults.count });
        stores.len() - 1
    })
}

/// Reads stores and descriptors: the one that `defaults` give, or with `SCR_COPY_TYPE=FILE` those
/// of `CKPT` lines.
///
/// # Errors
/// A value makes no sense, or no descriptor is for every checkpoint.
pub fn read(
    config: &Config,
    defaults: &Defaults,
) -> Result<(Vec<Store>, Vec<Descriptor>), SettingError> {
    let mut stores = stores(config, defaults)?;
    let mut descriptors = Vec::new();
    if defaults.copy_type == "FILE" {
        for value in config.values("CKPT") {
            let children = config.children("CKPT", &value).unwrap_or_default();
            descriptors.push(one(&value, &children, &mut stores, defaults)?);
        }
        descriptors.sort_by_key(|descriptor| descriptor.number);
        let numbers = (0..).zip(&descriptors);
        if let Some((wanted, _)) = numbers.clone().find(|(at, found)| *at != found.number) {
            let why = format!("numbers from 0 without a gap: there is no CKPT={wanted}");
            return Err(SettingError::new("CKPT", "", &why));
        }
        if descriptors.iter().all(|descriptor| descriptor.interval != 1) {
            return Err(SettingError::new("CKPT", "", "a descriptor with INTERVAL=1"));
        }
    } else {
        descriptors.push(one("0", &Children::new(), &mut stores, defaults)?);
    }
    Ok((stores, descriptors))
}

fn one(
    value: &str,
    children: &Children,
    stores: &mut Vec<Store>,
    defaults: &Defaults,
) -> Result<Descriptor, SettingError> {
    let of = |key: &str| format!("CKPT={value} {key}");
    let text = |key: &str, otherwise: &str| {
        children.get(key).map_or_else(|| otherwise.to_owned(), String::clone)
    };
    let failures =
        number(children.get("SET_FAILURES"), &of("SET_FAILURES"), defaults.set_failures)?;
    let interval = number(children.get("INTERVAL"), &of("INTERVAL"), 1)?;
    if interval == 0 {
        return Err(SettingError::new(&of("INTERVAL"), "0", "1 or more"));
    }
    let set_size = number(children.get("SET_SIZE"), &of("SET_SIZE"), defaults.set_size)?;
    let usual = if defaults.copy_type == "FILE" { "XOR" } else { &defaults.copy_type };
    Ok(Descriptor {
        number: number(Some(&value.to_owned()), "CKPT", 0)?,
        interval,
        group: text("GROUP", &defaults.group),
        store: store(stores, &text("STORE", &defaults.store), defaults),
        scheme: scheme(&text("TYPE", usual), failures, &of("TYPE"))?,
        set_size: set_size.max(1),
        bypass: switch(children.get("BYPASS"), &of("BYPASS"), defaults.bypass)?,
        output: switch(children.get("OUTPUT"), &of("OUTPUT"), false)?,
    })
}

/// Which descriptor a dataset is kept by. `checkpoint`: its number among checkpoints; `None`: it is
/// none.
#[must_use]
pub fn select(
    descriptors: &[Descriptor],
    checkpoint: Option<u32>,
    is_output: bool,
) -> Option<&Descriptor> {
    let of_outputs = descriptors.iter().find(|descriptor| descriptor.output);
    if let Some(descriptor) = of_outputs.filter(|_| is_output) {
        return Some(descriptor);
    }
    match checkpoint {
        Some(number) => descriptors
            .iter()
            .filter(|descriptor| number % descriptor.interval == 0)
            .max_by_key(|descriptor| descriptor.interval),
        None => descriptors.iter().find(|descriptor| descriptor.interval == 1),
    }
}

/// The value of a group of each host, from lines `GROUPS=host NAME=value..`.
///
/// # Errors
/// A host has none.
pub fn groups(config: &Config, name: &str, hosts: &[String]) -> Result<Vec<String>, SettingError> {
    let of_host: BTreeMap<String, Children> = config
        .values("GROUPS")
        .into_iter()
        .filter_map(|host| Some((host.clone(), config.children("GROUPS", &host)?)))
        .collect();
    let value = |host: &String| match name {
        "NODE" => Ok(host.clone()),
        "WORLD" => Ok(String::new()),
        _ => {
            let value = of_host.get(host).and_then(|groups| groups.get(name));
            let why = format!("a line GROUPS={host} {name}=..");
            value.cloned().ok_or_else(|| SettingError::new("SCR_GROUP", name, &why))
        }
    };
    hosts.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;
    use crate::settings::Settings;

    fn settings(text: &str) -> Settings {
        let mut config = Config::default();
        config.read(Source::User, text).unwrap();
        Settings::read(&config).unwrap()
    }

    const SEVERAL: &str = "SCR_COPY_TYPE=FILE\nSCR_CACHE_BYPASS=0\nSTORE=/ssd COUNT=3\n\
        CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=16\n\
        CKPT=1 INTERVAL=4 STORE=/ssd TYPE=RS SET_SIZE=8 SET_FAILURES=3 OUTPUT=1\n\
        CKPT=2 INTERVAL=8 GROUP=SWITCH STORE=/ssd TYPE=PARTNER BYPASS=1\n";

    #[test]
    fn without_descriptors_there_is_one() {
        let settings = settings("");
        assert_eq!(settings.stores, [Store { path: "/dev/shm".into(), count: 1 }]);
        let expected = Descriptor {
            number: 0,
            interval: 1,
            group: "NODE".into(),
            store: 0,
            scheme: Scheme::Xor,
            set_size: 8,
            bypass: true,
            output: false,
        };
        assert_eq!(settings.descriptors, [expected]);
    }

    #[test]
    fn the_largest_interval_that_divides_wins() {
        let settings = settings(SEVERAL);
        let number = |checkpoint, is_output| {
            select(&settings.descriptors, checkpoint, is_output).unwrap().number
        };
        let found: Vec<u32> = (1..=9).map(|checkpoint| number(Some(checkpoint), false)).collect();
        assert_eq!(found, [0, 0, 0, 1, 0, 0, 0, 2, 0]);
        assert_eq!((number(Some(1), true), number(None, true), number(None, false)), (1, 1, 0));
        let stores: Vec<(&str, u32)> =
            settings.stores.iter().map(|store| (store.path.as_str(), store.count)).collect();
        assert_eq!(stores, [("/ssd", 3), ("/dev/shm", 1)]);
        assert_eq!(settings.descriptors[1].scheme, Scheme::Rs(3));
        assert!(settings.descriptors[2].bypass && !settings.descriptors[0].bypass);
    }

    #[test]
    fn an_output_that_no_descriptor_is_for_takes_the_usual_one() {
        let settings =
            settings("SCR_COPY_TYPE=FILE\nCKPT=0 TYPE=SINGLE\nCKPT=1 INTERVAL=2 TYPE=PARTNER\n");
        let number = |checkpoint| select(&settings.descriptors, checkpoint, true).unwrap().number;
        assert_eq!((number(Some(2)), number(Some(3)), number(None)), (1, 0, 0));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let why = |text: &str| {
            let mut config = Config::default();
            config.read(Source::User, text).unwrap();
            Settings::read(&config).unwrap_err().to_string()
        };
        assert_eq!(
            why("SCR_COPY_TYPE=RAID"),
            "CKPT=0 TYPE=RAID: it takes SINGLE, PARTNER, XOR or RS"
        );
        assert!(why("SCR_COPY_TYPE=FILE\nCKPT=0 INTERVAL=2").contains("INTERVAL=1"));
        assert!(why("SCR_COPY_TYPE=FILE\nCKPT=1").contains("there is no CKPT=0"));
        assert!(why("SCR_COPY_TYPE=RS\nSCR_SET_FAILURES=9").contains("1 to 8 failures"));
        assert!(why("SCR_COPY_TYPE=FILE\nCKPT=0 INTERVAL=x").contains("CKPT=0 INTERVAL=x"));
    }

    #[test]
    fn groups_are_those_of_the_hosts() {
        let mut config = Config::default();
        config
            .read(Source::System, "GROUPS=a POWER=p1 SWITCH=0\nGROUPS=b POWER=p1 SWITCH=1")
            .unwrap();
        let hosts = ["a".to_owned(), "b".to_owned(), "a".to_owned()];
        assert_eq!(groups(&config, "SWITCH", &hosts).unwrap(), ["0", "1", "0"]);
        assert_eq!(groups(&config, "NODE", &hosts).unwrap(), ["a", "b", "a"]);
        assert_eq!(groups(&config, "WORLD", &hosts).unwrap(), ["", "", ""]);
        let why = groups(&config, "RACK", &hosts).unwrap_err().to_string();
        assert_eq!(why, "SCR_GROUP=RACK: it takes a line GROUPS=a RACK=..");
    }
}
