// SPDX-License-Identifier: Apache-2.0
//! Where the configuration comes from: variables, files, and the machine that FERMATA's names.
//!
//! Rank 0 reads for all. A launcher may hand variables to some hosts only, so those of rank 0 that
//! are keys hold everywhere.

use crate::comm::Comm;
use crate::prefix::normal;
use crate::problem::Problem;
use crate::team::Team;
use fermata_plan::System;
use fermata_scr::config::{Config, Source};
use fermata_storage::open_believed;
use fermata_sysio::effective_uid;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The system's file, if `SCR_SYSTEM_CONF_FILE` names no other one.
const SYSTEM: &str = "/etc/scr/scr.conf";
/// No sane file is larger.
const BYTES_MAX: u64 = 1 << 20;
/// What names a job, by batch system.
const JOBS: [&str; 5] = ["SLURM_JOB_ID", "SLURM_JOBID", "LSB_JOBID", "PBS_JOBID", "FLUX_JOB_ID"];

/// The variables of this process.
pub(crate) fn variables() -> BTreeMap<String, String> {
    let all = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    all.collect()
}

/// Collective: the variables of this process, with all keys as rank 0 has them.
pub(crate) fn agreed<C: Comm>(
    team: &Team<C>,
    mut mine: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Problem> {
    let is_key = |name: &String| name.starts_with("SCR_");
    let mut keys = mine.clone();
    keys.retain(|name, _| is_key(name));
    let keys = team.tell(0, &keys)?;
    mine.retain(|name, _| !is_key(name));
    mine.extend(keys);
    Ok(mine)
}

/// The texts of the system's and of the user's file, as far as there are any.
pub(crate) type Texts = [Option<(String, String)>; 2];

fn text(path: &Path) -> Result<Option<(String, String)>, Problem> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some((path.display().to_string(), text))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Problem::file("read", path)(error)),
    }
}

/// Reads them. Where the user's is depends on what the system's says.
pub(crate) fn texts(
    config: &Config,
    variables: &BTreeMap<String, String>,
    cwd: &Path,
) -> Result<Texts, Problem> {
    let variable = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    let system = variable("SCR_SYSTEM_CONF_FILE").map_or(SYSTEM, String::as_str);
    let system = text(Path::new(system))?;
    let mut config = config.clone();
    take(&mut config, Source::System, system.as_ref())?;
    let user = config.get("SCR_CONF_FILE").filter(|path| !path.is_empty());
    let user =
        user.map(|path| cwd.join(path)).unwrap_or_else(|| prefix(&config, cwd).join(".scrconf"));
    Ok([system, text(&user)?])
}

fn take(
    config: &mut Config,
    source: Source,
    text: Option<&(String, String)>,
) -> Result<(), Problem> {
    let Some((file, text)) = text else { return Ok(()) };
    config.read(source, text).map_err(|error| Problem::Config { file: file.clone(), error })
}

/// Adds them.
pub(crate) fn take_all(config: &mut Config, [system, user]: &Texts) -> Result<(), Problem> {
    take(config, Source::System, system.as_ref())?;
    take(config, Source::User, user.as_ref())
}

/// The directory that all see.
pub(crate) fn prefix(config: &Config, cwd: &Path) -> PathBuf {
    let named = config.get("SCR_PREFIX").unwrap_or_default();
    normal(&cwd.join(named))
}

/// A text as part of a path.
fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// What the caches of this job are called: others of the same user are not mixed up with it.
pub(crate) fn job(config: &Config, variables: &BTreeMap<String, String>, prefix: &Path) -> String {
    let known = || JOBS.iter().find_map(|name| variables.get(*name).cloned());
    let job = config.get("SCR_JOB_ID").or_else(known).unwrap_or_else(|| "none".into());
    let prefix = crc32c::crc32c(prefix.as_os_str().as_encoded_bytes());
    format!("scr.{}-{prefix:08x}", plain(&job))
}

/// What the user is called.
pub(crate) fn user(config: &Config, variables: &BTreeMap<String, String>) -> String {
    let name = config.get("SCR_USER_NAME").or_else(|| variables.get("USER").cloned());
    let name = plain(&name.unwrap_or_default());
    if name.trim_matches('.').is_empty() { format!("uid{}", effective_uid()) } else { name }
}

/// When the allocation ends, seconds since 1970, if the batch system says so.
pub(crate) fn end_s(variables: &BTreeMap<String, String>) -> Option<u64> {
    variables.get("SLURM_JOB_END_TIME")?.parse().ok()
}

/// The machine that a `fermata.toml` names: the project's, else the user's, else the site's, as
/// for `fermata run`. Files that somebody else may have written are passed over.
///
/// # Errors
/// It cannot be read, or makes no sense.
pub(crate) fn machine(
    variables: &BTreeMap<String, String>,
    cwd: &Path,
) -> Result<Option<System>, Problem> {
    let me = effective_uid();
    let variable = |name: &str| variables.get(name).map(PathBuf::from);
    let home = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    let user = home.filter(|path| path.is_absolute()).map(|path| path.join("fermata"));
    let project = (Some(cwd.to_path_buf()), me, false);
    for (directory, owner, through_links) in
        [project, (user, me, true), (Some("/etc/fermata".into()), 0, true)]
    {
        let Some(path) = directory.map(|directory| directory.join("fermata.toml")) else {
            continue;
        };
        let mut said = String::new();
        let opened = open_believed(&path, &[owner, 0], through_links);
        let read = opened.and_then(|file| file.take(BYTES_MAX).read_to_string(&mut said));
        let table: toml::Table = match read {
            Ok(_) => toml::from_str(&said).map_err(|error| wrong(&path, &error))?,
            Err(_) => continue,
        };
        let Some(word) = table.get("machine").and_then(toml::Value::as_str) else { continue };
        let home = || variables.get("HOME").cloned();
        let lookup = |name: &str| Ok::<_, env::VarError>(variables.get(name).cloned());
        let whole = shellexpand::full_with_context(word, home, lookup)
            .map_err(|error| Problem::Wrong(format!("{}: {error}", path.display())))?;
        let file = path.with_file_name(&*whole);
        let text = fs::read_to_string(&file).map_err(Problem::file("read", &file))?;
        return toml::from_str(&text).map(Some).map_err(|error| wrong(&file, &error));
    }
    Ok(None)
}

fn wrong(path: &Path, error: &toml::de::Error) -> Problem {
    Problem::Wrong(format!("{}: {}", path.display(), error.message()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::Scratch;

    fn with(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_job_has_a_name_of_its_own() {
        let config = |pairs: &[(&str, &str)]| Config::new(with(pairs));
        let name = |pairs: &[(&str, &str)], prefix: &str| {
            job(&config(pairs), &with(pairs), Path::new(prefix))
        };
        assert!(name(&[("SLURM_JOB_ID", "12/3")], "/p").starts_with("scr.12_3-"));
        assert_ne!(name(&[], "/p"), name(&[], "/q"));
        let named = |pairs: &[(&str, &str)]| user(&config(pairs), &with(pairs));
        assert_eq!(named(&[("USER", "ann")]), "ann");
        assert_eq!(named(&[("USER", "ann"), ("SCR_USER_NAME", "a/b")]), "a_b");
        assert_eq!(named(&[("USER", "..")]), named(&[]));
    }

    #[test]
    fn the_users_file_is_where_the_prefix_is() {
        let scratch = Scratch::new("sources");
        let (system, project) = (scratch.0.join("system"), scratch.0.join("project"));
        fs::create_dir(&project).unwrap();
        fs::write(&system, format!("SCR_PREFIX={}", project.display())).unwrap();
        fs::write(project.join(".scrconf"), "SCR_FLUSH=7").unwrap();
        let variables = with(&[("SCR_SYSTEM_CONF_FILE", system.to_str().unwrap())]);
        let mut config = Config::new(variables.clone());
        let texts = texts(&config, &variables, &scratch.0).unwrap();
        take_all(&mut config, &texts).unwrap();
        assert_eq!(config.get("SCR_FLUSH").unwrap(), "7");
        assert_eq!(prefix(&config, &scratch.0), project);
    }

    #[test]
    fn the_machine_is_that_of_fermata() {
        let scratch = Scratch::new("machine");
        let variables = with(&[("HOME", "/nowhere"), ("M", "machine.toml")]);
        assert!(machine(&variables, &scratch.0).unwrap().is_none());
        fs::write(scratch.0.join("fermata.toml"), "machine = \"$M\"\nkeep = 3\n").unwrap();
        assert!(machine(&variables, &scratch.0).is_err(), "it is not there");
        let text = "nodes = 2\nbytes-per-node = \"1GB\"\n\
            bandwidth = { local = \"2GB\", network = \"10GB\" }\n\
            failure = [{ name = \"node\", mttf = \"1y\" }]\nlevel = [{ kind = \"local\" }]\n";
        fs::write(scratch.0.join("machine.toml"), text).unwrap();
        assert_eq!(machine(&variables, &scratch.0).unwrap().unwrap().nodes, 2);
    }
}
