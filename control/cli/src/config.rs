// SPDX-License-Identifier: Apache-2.0
//! `fermata.toml`: what a site, a user and a project would say on every command line. The later
//! file wins, and a flag over all of them. A restart continues as the job last ran, so it takes
//! nothing from here but where jobs are.
//!
//! Invariant: a file is read only if nobody else can have written it: it names commands that are
//!            run. The site's belongs to root, the others to the user.

use crate::exit::usage;
use crate::hints;
use crate::output::{Output, duration, parse_duration_ms};
use crate::table::{table, words};
use anyhow::Result;
use fermata_launch::kept::{self, parse_which};
use fermata_launch::start::Start;
use fermata_storage::{Whose, open_file};
use fermata_sysio::print_error;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NAME: &str = "fermata.toml";
const SITE: &str = "/etc/fermata";
/// No sane file is larger.
const BYTES_MAX: u64 = 1 << 20;

/// What a file may say, in the words of the flags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    dir: Option<PathBuf>,
    mpi: Option<String>,
    #[serde(deserialize_with = "interval")]
    every: Option<u64>,
    keep: Option<u32>,
    #[serde(deserialize_with = "which_files")]
    files: Option<String>,
    encrypt: Option<bool>,
    remote_shell: Option<String>,
    local_dir: Option<PathBuf>,
    mpirun_arg: Option<Vec<String>>,
    on_commit: Option<String>,
    on_failure: Option<String>,
    metrics: Option<PathBuf>,
}

fn interval<'a, D: Deserializer<'a>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration_ms(&text).map(Some).map_err(de::Error::custom)
}

fn which_files<'a, D: Deserializer<'a>>(from: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    parse_which(&text).map(Some).map_err(de::Error::custom)
}

impl Settings {
    /// Each that is said, by its name.
    fn said(&self) -> Vec<(&'static str, Value)> {
        let all = [
            ("dir", json!(self.dir)),
            ("mpi", json!(self.mpi)),
            ("every", json!(self.every.map(duration))),
            ("keep", json!(self.keep)),
            ("files", json!(self.files)),
            ("encrypt", json!(self.encrypt)),
            ("remote-shell", json!(self.remote_shell)),
            ("local-dir", json!(self.local_dir)),
            ("mpirun-arg", json!(self.mpirun_arg)),
            ("on-commit", json!(self.on_commit)),
            ("on-failure", json!(self.on_failure)),
            ("metrics", json!(self.metrics)),
        ];
        all.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// With what a later file says.
    fn with(self, later: Self) -> Self {
        Self {
            dir: later.dir.or(self.dir),
            mpi: later.mpi.or(self.mpi),
            every: later.every.or(self.every),
            keep: later.keep.or(self.keep),
            files: later.files.or(self.files),
            encrypt: later.encrypt.or(self.encrypt),
            remote_shell: later.remote_shell.or(self.remote_shell),
            local_dir: later.local_dir.or(self.local_dir),
            mpirun_arg: later.mpirun_arg.or(self.mpirun_arg),
            on_commit: later.on_commit.or(self.on_commit),
            on_failure: later.on_failure.or(self.on_failure),
            metrics: later.metrics.or(self.metrics),
        }
    }
}

/// A file, and what has become of it.
#[derive(Debug)]
struct Layer {
    path: PathBuf,
    /// `None`: there is none. Else what it says, or why it is not read.
    found: Option<Result<Settings, String>>,
}

/// What all of them say.
#[derive(Debug)]
pub struct Config {
    layers: Vec<Layer>,
    all: Settings,
}

impl Config {
    /// Reads the site's, the user's and the project's, which is that of the working directory.
    ///
    /// # Errors
    /// One makes no sense.
    pub fn load() -> Result<Self> {
        let site = Path::new(SITE).join(NAME);
        let own = [user_file(), Some(PathBuf::from(NAME))];
        let own = own.into_iter().flatten().map(|path| (path, false));
        Self::of(std::iter::once((site, true)).chain(own))
    }

    /// `is_site`: it is root's.
    fn of(files: impl IntoIterator<Item = (PathBuf, bool)>) -> Result<Self> {
        let mut layers = Vec::new();
        let mut all = Settings::default();
        for (path, is_site) in files {
            let found = match read(&path, is_site) {
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => {
                    print_error(format_args!("{} is not read: {error}", path.display()));
                    Some(Err(error.to_string()))
                }
                Ok(text) => Some(Ok(parse(&path, &text)?)),
            };
            if let Some(Ok(settings)) = &found {
                all = all.with(settings.clone());
            }
            layers.push(Layer { path, found });
        }
        Ok(Self { layers, all })
    }

    /// Where jobs are, if neither a flag nor the environment says so.
    pub fn dir(&self) -> Option<PathBuf> {
        self.all.dir.clone()
    }

    /// What the command line of `run` does not say.
    pub fn fill(&self, start: &mut Start) {
        let all = self.all.clone();
        let or = |given: &mut Option<_>, said| *given = given.take().or(said);
        or(&mut start.mpi, all.mpi);
        or(&mut start.remote_shell, all.remote_shell);
        if std::env::var_os(kept::VARIABLE).is_none() {
            or(&mut start.save_files.which, all.files);
        }
        or(&mut start.hooks.on_commit, all.on_commit);
        or(&mut start.hooks.on_failure, all.on_failure);
        start.every_ms = start.every_ms.or(all.every);
        start.keep = start.keep.or(all.keep);
        start.local_dir = start.local_dir.take().or(all.local_dir);
        start.hooks.metrics = start.hooks.metrics.take().or(all.metrics);
        start.encrypt |= all.encrypt.unwrap_or(false);
        if start.mpirun_args.is_empty() {
            start.mpirun_args = all.mpirun_arg.unwrap_or_default();
        }
    }

    /// The last file that says this.
    fn source(&self, name: &str) -> Option<&Path> {
        let says = |layer: &&Layer| match &layer.found {
            Some(Ok(settings)) => settings.said().iter().any(|(said, _)| *said == name),
            _ => false,
        };
        self.layers.iter().rev().find(says).map(|layer| layer.path.as_path())
    }
}

/// `$XDG_CONFIG_HOME/fermata`, else `~/.config/fermata`.
fn user_file() -> Option<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    Some(config?.join("fermata").join(NAME))
}

/// A relative path means one beside the file.
fn parse(path: &Path, text: &str) -> Result<Settings> {
    let mut settings: Settings = toml::from_str(text)
        .map_err(|error| usage(format!("{}: {}", path.display(), error.to_string().trim_end())))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    for relative in [&mut settings.dir, &mut settings.local_dir, &mut settings.metrics] {
        *relative = relative.take().map(|it| beside.join(it));
    }
    Ok(settings)
}

fn read(path: &Path, is_site: bool) -> io::Result<String> {
    let file = if is_site { open_of_root(path)? } else { open_file(path, Whose::Own(None))? };
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn open_of_root(path: &Path) -> io::Result<File> {
    let file = open_file(path, Whose::Anybodys(None))?;
    let info = file.metadata()?;
    if info.uid() != 0 || info.mode() & 0o022 != 0 {
        let why = "it does not belong to root, or others may write to it";
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

/// `fermata config`. `given`: the directory of jobs of the command line.
pub fn show(config: &Config, given: Option<&Path>, output: Output) -> Result<u8> {
    let mut rows = Vec::new();
    let mut values = Map::new();
    let mut add = |name: &str, value: &Value, from: &str| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        rows.push([name.to_owned(), text, from.to_owned()]);
        values.insert(name.to_owned(), json!({"value": value, "from": from}));
    };
    let variable = std::env::var_os(hints::VARIABLE).map(PathBuf::from);
    let dir = match (given, variable) {
        (Some(given), _) => Some((given.to_owned(), "--dir".to_owned())),
        (_, Some(variable)) => Some((variable, format!("${}", hints::VARIABLE))),
        _ if config.dir().is_some() => None,
        _ => Some((hints::DEFAULT_DIRECTORY.into(), "default".to_owned())),
    };
    if let Some((dir, from)) = &dir {
        add("dir", &json!(dir.to_string_lossy()), from);
    }
    for (name, value) in config.all.said() {
        let from = config.source(name).unwrap_or(Path::new("-")).display().to_string();
        if name != "dir" || dir.is_none() {
            add(name, &value, &from);
        }
    }
    let state = |layer: &Layer| match &layer.found {
        None => "not there".to_owned(),
        Some(Ok(_)) => "read".into(),
        Some(Err(why)) => format!("not read: {why}"),
    };
    let files: Vec<[String; 2]> = config
        .layers
        .iter()
        .map(|layer| [layer.path.display().to_string(), state(layer)])
        .collect();
    let text = table([words("SETTING"), words("VALUE"), words("FROM")], &rows)
        + "\n"
        + &table([words("FILE"), words("")], &files);
    let files: Vec<Value> =
        files.iter().map(|[path, state]| json!({"path": path, "state": state})).collect();
    output.answer(text, &json!({"settings": values, "files": files}))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fermata-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_later_file_wins_and_a_flag_over_all() {
        let scratch = Scratch::new("layers");
        let first = scratch.file("1", "every = \"30m\"\nkeep = 5\nmpi = \"openmpi\"\n", 0o600);
        let second = scratch.file("2", "keep = 7\nmetrics = \"m.prom\"\n", 0o644);
        let none = scratch.0.join("3");
        let files = [first.clone(), second.clone(), none].map(|path| (path, false));
        let config = Config::of(files).unwrap();
        let mut start = Start { mpi: Some("mpich".into()), ..Start::default() };
        config.fill(&mut start);
        assert_eq!((start.mpi.as_deref(), start.keep), (Some("mpich"), Some(7)));
        assert_eq!(start.every_ms, Some(1_800_000));
        assert_eq!(start.hooks.metrics, Some(scratch.0.join("m.prom")), "beside its file");
        assert_eq!(config.source("every"), Some(first.as_path()));
        assert_eq!(config.source("keep"), Some(second.as_path()));
        assert!(config.layers[2].found.is_none());
    }

    #[test]
    fn a_file_that_others_may_write_is_not_read() {
        let scratch = Scratch::new("others");
        for mode in [0o620, 0o602, 0o666] {
            let path = scratch.file("c", "on-commit = \"evil\"\n", mode);
            let config = Config::of([(path, false)]).unwrap();
            assert!(matches!(config.layers[0].found, Some(Err(_))), "{mode:o}");
            assert_eq!(config.all, Settings::default());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        let scratch = Scratch::new("nonsense");
        for (text, place) in [
            ("mpi = \"x\"\nkepe = 3\n", "kepe"),
            ("every = \"soon\"\n", "soon"),
            ("files = \"some\"\n", "some"),
            ("keep = [\n", "line"),
        ] {
            let path = scratch.file("c", text, 0o600);
            let error = Config::of([(path.clone(), false)]).unwrap_err().to_string();
            assert!(
                error.contains(&path.display().to_string()) && error.contains(place),
                "{error}"
            );
        }
    }
}
