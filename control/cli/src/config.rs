// SPDX-License-Identifier: Apache-2.0
//! `fermata.toml`: what a site, a user and a project would say on every command line. The later
//! file wins, the environment over all of them, and a flag over that. A restart continues as the
//! job last ran; it takes from here what no record says.
//!
//! Invariant: a file is read only if nobody else can have written it: it names commands that are
//!            run. The site's belongs to root, the others to the user or to root.

use crate::end_args::EndArgs;
use crate::exit::usage;
use crate::hints;
use crate::hooks::Hooks;
use crate::output::{Output, parse_every};
use crate::start_args::parse_rate;
use crate::table::{table, words};
use anyhow::Result;
use fermata_launch::batch::Batch;
use fermata_launch::behind::Behind;
use fermata_launch::kept::{self, parse_which};
use fermata_launch::start::{SaveFiles, Start};
use fermata_levels::{Chain, ChainError, Groups};
use fermata_policy::signals::SaveOn;
use fermata_storage::open_believed;
use fermata_sysio::{Cores, NotCores, effective_uid, print_error};
use fermata_types::{Checkpointer, Every};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value, json};
use std::env;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, Error};

const NAME: &str = "fermata.toml";
const SITE: &str = "/etc/fermata";
/// No sane file is larger.
const BYTES_MAX: u64 = 1 << 20;
/// A word that is as near as this is probably the one that is meant.
const NEAR: f64 = 0.8;

/// What a file may say, in the words of the flags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    dir: Option<PathBuf>,
    mpi: Option<String>,
    #[serde(deserialize_with = "interval")]
    every: Option<Every>,
    machine: Option<PathBuf>,
    site: Option<PathBuf>,
    keep: Option<u32>,
    #[serde(deserialize_with = "which_files")]
    files: Option<String>,
    encrypt: Option<bool>,
    remote_shell: Option<String>,
    local_dir: Option<PathBuf>,
    #[serde(deserialize_with = "chain")]
    levels: Option<Chain>,
    #[serde(deserialize_with = "rate")]
    level_rate: Option<u64>,
    #[serde(deserialize_with = "cores")]
    service_cores: Option<Cores>,
    groups: Groups,
    mpirun_arg: Option<Vec<String>>,
    #[serde(deserialize_with = "signals")]
    save_on: Option<SaveOn>,
    requeue: Option<bool>,
    retries: Option<u32>,
    on_commit: Option<String>,
    on_failure: Option<String>,
    metrics: Option<PathBuf>,
}

/// All of them, in the order in which they are shown.
const KEYS: [&str; 21] = [
    "dir",
    "mpi",
    "every",
    "machine",
    "site",
    "keep",
    "files",
    "encrypt",
    "remote-shell",
    "local-dir",
    "levels",
    "level-rate",
    "service-cores",
    "groups",
    "mpirun-arg",
    "save-on",
    "requeue",
    "retries",
    "on-commit",
    "on-failure",
    "metrics",
];
/// Those that are paths: a relative one means one beside the file.
const PATHS: [&str; 5] = ["dir", "machine", "site", "local-dir", "metrics"];

/// A word that a flag reads so.
fn read_as<'a, D: Deserializer<'a>, T>(
    from: D,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    read(&String::deserialize(from)?).map(Some).map_err(de::Error::custom)
}

fn interval<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Every>, D::Error> {
    read_as(from, parse_every)
}

fn chain<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Chain>, D::Error> {
    read_as(from, |word| word.parse().map_err(|why: ChainError| why.to_string()))
}

fn rate<'a, D: Deserializer<'a>>(from: D) -> Result<Option<u64>, D::Error> {
    read_as(from, parse_rate)
}

fn cores<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Cores>, D::Error> {
    read_as(from, |word| word.parse().map_err(|why: NotCores| why.to_string()))
}

fn which_files<'a, D: Deserializer<'a>>(from: D) -> Result<Option<String>, D::Error> {
    read_as(from, parse_which)
}

fn signals<'a, D: Deserializer<'a>>(from: D) -> Result<Option<SaveOn>, D::Error> {
    read_as(from, SaveOn::parse)
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Site,
    User,
    Project,
}

/// What a file says, by key.
type Said = Map<String, Value>;

/// A file, and what has become of it.
#[derive(Debug)]
struct Layer {
    path: PathBuf,
    /// `None`: there is none. Else what it says, or why it is not read.
    found: Option<Result<Said, String>>,
}

/// What all of them say.
#[derive(Debug, Default)]
pub struct Config {
    layers: Vec<Layer>,
    all: Settings,
}

impl Config {
    /// Reads the site's, the user's and the project's, which is that of the working directory. One
    /// that somebody else may have written is told of and passed over.
    ///
    /// # Errors
    /// One makes no sense.
    pub fn load() -> Result<Self> {
        let site = (Path::new(SITE).join(NAME), Whose::Site);
        let user = user_file().map(|path| (path, Whose::User));
        Self::of([Some(site), user, Some((NAME.into(), Whose::Project))].into_iter().flatten())
    }

    fn of(files: impl IntoIterator<Item = (PathBuf, Whose)>) -> Result<Self> {
        let mut layers = Vec::new();
        let mut all = Said::new();
        for (path, whose) in files {
            let found = match read(&path, whose) {
                Err(error) if is_absent(&error) => None,
                Err(error) => {
                    print_error(format_args!(
                        "{} is not read: {error}\n  hint: what it says might be run as you",
                        path.display()
                    ));
                    Some(Err(error.to_string()))
                }
                Ok(text) => Some(Ok(parse(&path, &text)?)),
            };
            if let Some(Ok(said)) = &found {
                all.extend(said.clone());
            }
            layers.push(Layer { path, found });
        }
        Ok(Self { layers, all: serde_json::from_value(Value::Object(all))? })
    }

    /// Where jobs are, if neither a flag nor the environment says so.
    pub fn dir(&self) -> Option<PathBuf> {
        self.all.dir.clone()
    }

    /// Whether a run encrypts its images. `given`: on the command line.
    pub fn encrypts(&self, given: Option<bool>) -> bool {
        given.or(self.all.encrypt).unwrap_or(false)
    }

    /// Which files' contents a run saves. `given`: on the command line.
    pub fn saved_files(&self, given: SaveFiles) -> SaveFiles {
        let is_silent = given.which.is_none() && env::var_os(kept::VARIABLE).is_none();
        let which = if is_silent { self.all.files.clone() } else { given.which };
        SaveFiles { which, ..given }
    }

    /// With what the command line of `run` does not say.
    pub fn fill(&self, given: Start) -> Start {
        let all = self.all.clone();
        let none = given.mpirun_args.is_empty();
        let local_dir = given.local_dir.clone().or(all.local_dir);
        // As far as the job's hosts can have them: nobody asks for these of a job of one host.
        let makes_images = given.checkpointer != Checkpointer::Itself && local_dir.is_some();
        let hosts = given.count_of_hosts().filter(|_| makes_images);
        let behind = self.behind();
        let levels = all.levels.zip(hosts).and_then(|(levels, hosts)| levels.on(hosts));
        Start {
            mpi: given.mpi.or(all.mpi),
            every: given.every.or(all.every),
            machine: given.machine.or(all.machine),
            site: given.site.or(all.site),
            keep: given.keep.or(all.keep),
            remote_shell: given.remote_shell.or(all.remote_shell),
            local_dir,
            levels: given.levels.or(levels),
            behind: given.behind.or(behind),
            groups: all.groups,
            mpirun_args: all.mpirun_arg.filter(|_| none).unwrap_or(given.mpirun_args),
            ..given
        }
    }

    /// Which hosts fail together: of a run as it is now, whatever an earlier one was told.
    pub fn groups(&self) -> Groups {
        self.all.groups.clone()
    }

    /// What hosts may take for making levels: likewise.
    pub fn behind(&self) -> Behind {
        let all = &self.all;
        Behind { level_rate: all.level_rate, service_cores: all.service_cores.clone() }
    }

    /// Where the site's service is found, if the command line does not say.
    pub fn site(&self) -> Option<PathBuf> {
        self.all.site.clone()
    }

    /// What the command line does not say, of `run` and of `restart`: no record of a job says it
    /// either.
    pub fn fill_life(&self, end: &mut EndArgs, hooks: &mut Hooks) {
        let all = self.all.clone();
        end.save_on = end.save_on.take().or(all.save_on);
        end.retries = end.retries.or(all.retries);
        // Where there is no batch system nobody can queue anything.
        if end.chain.is_none() && Batch::detect().is_some() {
            end.requeue = end.requeue.or(all.requeue);
        }
        hooks.on_commit = hooks.on_commit.take().or(all.on_commit);
        hooks.on_failure = hooks.on_failure.take().or(all.on_failure);
        hooks.metrics = hooks.metrics.take().or(all.metrics);
    }

    /// What holds of this key, and the last file that says so.
    fn said(&self, key: &str) -> Option<(Value, String)> {
        let says = |layer: &Layer| match &layer.found {
            Some(Ok(said)) => Some((said.get(key)?.clone(), layer.path.display().to_string())),
            _ => None,
        };
        self.layers.iter().rev().find_map(says)
    }
}

/// `$XDG_CONFIG_HOME/fermata`, else `~/.config/fermata`.
fn user_file() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    Some(config?.join("fermata").join(NAME))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn read(path: &Path, whose: Whose) -> io::Result<String> {
    const ROOT: u32 = 0;
    let owners = match whose {
        Whose::Site => [ROOT; 2],
        Whose::User | Whose::Project => [effective_uid(), ROOT],
    };
    // Whoever has made the working directory could lead from it to any file of the user's.
    let file = open_believed(path, &owners, whose != Whose::Project)?;
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// # Errors
/// It makes no sense.
fn parse(path: &Path, text: &str) -> Result<Said> {
    let fault = |span: Option<Range<usize>>, why: &str| {
        let line = text.get(..span.map_or(0, |span| span.start)).unwrap_or(text);
        usage(format!("{}:{}: {why}", path.display(), line.matches('\n').count() + 1))
    };
    let at = |error: Error| fault(error.span(), error.message());
    let table = DeTable::parse(text).map_err(at)?;
    for key in table.get_ref().keys() {
        let word = key.get_ref();
        if !KEYS.contains(&word.as_ref()) {
            let why = format!("there is no setting '{word}'\n  hint: {}", nearest(word));
            return Err(fault(Some(key.span()), &why));
        }
    }
    toml::from_str::<Settings>(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let holds = |at: Range<usize>| at.start <= span.start && span.end <= at.end;
        let key = table.get_ref().iter().find(|(_, value)| holds(value.span()));
        let key = key.map_or(String::new(), |(key, _)| format!("{}: ", key.get_ref()));
        fault(Some(span), &format!("{key}{}", error.message()))
    })?;
    let mut said: Said = toml::from_str(text).map_err(at)?;
    for key in PATHS {
        if let Some(Value::String(word)) = said.get_mut(key) {
            let beside = path.parent().unwrap_or(Path::new(""));
            let whole = expanded(word).map_err(|why| {
                let span = table.get_ref().get(key).map(|value| value.span());
                fault(span, &format!("{key}: {why}"))
            })?;
            *word = beside.join(whole).to_string_lossy().into_owned();
        }
    }
    Ok(said)
}

/// What to write instead.
fn nearest(word: &str) -> String {
    let likeness = |key: &&str| strsim::jaro_winkler(word, key);
    let best = KEYS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best.filter(|key| likeness(key) >= NEAR) {
        Some(key) => format!("'{key}'?"),
        None => format!("there are {}", KEYS.join(", ")),
    }
}

/// A path with `~` and `$NAME` as a shell has them.
fn expanded(word: &str) -> Result<String, String> {
    let home = || env::var("HOME").ok();
    let variable = |name: &str| match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(format!("${name} is not set")),
    };
    shellexpand::full_with_context(word, home, variable)
        .map(Into::into)
        .map_err(|error| error.cause)
}

/// `fermata config`. `given`: the directory of jobs of the command line.
pub fn show(config: &Config, given: Option<&Path>, output: Output) -> Result<u8> {
    let from_environment =
        |name: &str| Some((json!(env::var_os(name)?.to_string_lossy()), format!("${name}")));
    let held = |key: &str| match key {
        "dir" => given
            .map(|dir| (json!(dir.to_string_lossy()), "--dir".into()))
            .or_else(|| from_environment(hints::VARIABLE))
            .or_else(|| config.said(key))
            .or_else(|| Some((json!(hints::DEFAULT_DIRECTORY), "default".into()))),
        "files" => from_environment(kept::VARIABLE).or_else(|| config.said(key)),
        _ => config.said(key),
    };
    let (mut rows, mut values) = (Vec::new(), Map::new());
    for key in KEYS {
        let Some((value, from)) = held(key) else { continue };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        rows.push([key.to_owned(), text, from.clone()]);
        values.insert(key.to_owned(), json!({"value": value, "from": from}));
    }
    let state = |layer: &Layer| match &layer.found {
        None => "not there".to_owned(),
        Some(Ok(_)) => "read".into(),
        Some(Err(why)) => format!("not read: {why}"),
    };
    let row = |layer: &Layer| [layer.path.display().to_string(), state(layer)];
    let files: Vec<[String; 2]> = config.layers.iter().map(row).collect();
    let settings = table([words("SETTING"), words("VALUE"), words("FROM")], &rows);
    let text = settings + "\n" + &table([words("FILE"), words("STATE")], &files);
    let files: Vec<Value> =
        files.iter().map(|[path, state]| json!({"path": path, "state": state})).collect();
    output.answer(text, &json!({"settings": values, "files": files}))?;
    Ok(0)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
