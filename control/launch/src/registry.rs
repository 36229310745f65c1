// SPDX-License-Identifier: Apache-2.0
//! The installed tree and the MPIs registered in it.
//!
//! ```text
//! PREFIX/bin/fermata
//! PREFIX/libexec/fermata/{launcher,sites,trial}
//! PREFIX/lib/fermata/front/{ompi,mpich}/lib*.so.N      what applications see
//! PREFIX/lib/fermata/lower/NAME, NAME.json             one back end per MPI, and its record
//! ```

use crate::batch::OF_THE_JOB;
use crate::choice;
use crate::environment;
use crate::limits;
use crate::mpi::{Family, Lower};
use crate::problem::refused;
use anyhow::{Context, Result, anyhow};
use fermata_storage::make_own;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// How often a launcher is asked that a signal for the whole job ends.
const MAX_PROBES: usize = 5;

/// Where this program is. If it has been replaced since it was started, as by an upgrade while a
/// run of `--retries` lasts, its successor is meant: Linux names the old one "PATH (deleted)".
fn own_program() -> Result<PathBuf> {
    let named = std::env::current_exe().context("cannot find my own program file")?;
    let successor = named.as_os_str().as_bytes().strip_suffix(b" (deleted)".as_slice());
    let successor = successor.map(|path| PathBuf::from(OsStr::from_bytes(path)));
    Ok(successor.filter(|path| !named.exists() && path.exists()).unwrap_or(named))
}

/// What a process gives that no signal for the whole job has ended, or the last of several.
fn undisturbed(mut run: impl FnMut() -> io::Result<Output>) -> io::Result<Output> {
    let is_ended_so =
        |output: &Output| output.status.signal().is_some_and(|signal| OF_THE_JOB.contains(&signal));
    let mut output = run()?;
    for _ in 1..MAX_PROBES {
        if !is_ended_so(&output) {
            break;
        }
        output = run()?;
    }
    Ok(output)
}

/// The installed tree.
#[derive(Clone, Debug)]
pub struct Prefix {
    root: PathBuf,
}

impl Prefix {
    /// The tree this program stands in.
    pub fn find() -> Result<Self> {
        let program = own_program()?;
        let root = program
            .parent()
            .and_then(Path::parent)
            .context("my program file is in no bin/ directory")?;
        Ok(Self { root: root.to_owned() })
    }

    /// This program.
    pub fn fermata(&self) -> Result<PathBuf> {
        own_program()
    }

    /// The launcher of ranks.
    pub fn launcher(&self) -> PathBuf {
        self.root.join("libexec/fermata/launcher")
    }

    /// Lets the launcher do everything that this machine may forbid, and nothing else: for a rank
    /// to start ("machine"), and for it to be saved as well ("saving"). A signal that was meant for
    /// all processes of the job, as a batch system's warning is, tells nothing of the machine: what
    /// it ends is done again.
    pub fn probe(&self, what: &str) -> Result<()> {
        let launcher = self.launcher();
        if !launcher.exists() {
            return Err(refused(format!("{} is missing\n  hint: ./x build", launcher.display())));
        }
        let output = undisturbed(|| {
            Command::new(&launcher).args(["--probe", what]).stdin(Stdio::null()).output()
        })
        .with_context(|| format!("cannot start {}", launcher.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        let why = why.strip_prefix("fermata: ").unwrap_or(&why).trim_end();
        Err(refused(match why {
            "" => format!("{} cannot run here: {}", launcher.display(), output.status),
            _ => why.to_owned(),
        }))
    }

    /// The finder of FS prefixes.
    pub fn sites_tool(&self) -> PathBuf {
        self.root.join("libexec/fermata/sites")
    }

    /// The program of one rank that `doctor` runs.
    pub fn trial(&self) -> PathBuf {
        self.root.join("libexec/fermata/trial")
    }

    /// The lists of sites that came with the MPIs, for everybody to read.
    pub fn sites_shared(&self) -> PathBuf {
        self.root.join("lib/fermata/sites")
    }

    /// Where new ones are kept: with the MPIs if that is ours and can be written, else in the
    /// user's own cache, of which there may be none. By these lists code is rewritten: nobody else
    /// may write to them.
    pub fn sites_cache(&self) -> Result<PathBuf> {
        let is_good = |dir: &Path| make_own(dir).is_ok() && fermata_sysio::is_writable(dir);
        if is_good(&self.sites_shared()) {
            return Ok(self.sites_shared());
        }
        let base =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|at| at.is_absolute());
        let cache = base("XDG_CACHE_HOME").or_else(|| Some(base("HOME")?.join(".cache")));
        let own = cache.context("there is neither XDG_CACHE_HOME nor HOME")?.join("fermata/sites");
        make_own(&own).with_context(|| format!("cannot use {}", own.display()))?;
        if !fermata_sysio::is_writable(&own) {
            return Err(anyhow!("{} is not writable", own.display()));
        }
        Ok(own)
    }

    /// A front-end library, by its path under `front/`.
    pub fn front(&self, relative: &str) -> PathBuf {
        self.root.join("lib/fermata/front").join(relative)
    }

    /// Where back ends and their records are.
    pub fn lower_dir(&self) -> PathBuf {
        self.root.join("lib/fermata/lower")
    }

    /// The back-end program of an MPI.
    pub fn lower_program(&self, name: &str) -> PathBuf {
        self.lower_dir().join(name)
    }

    /// The record of an MPI.
    pub fn lower_record(&self, name: &str) -> PathBuf {
        self.lower_dir().join(format!("{name}.json"))
    }

    /// All registered MPIs, by name.
    pub fn lowers(&self) -> Vec<Lower> {
        let Ok(entries) = fs::read_dir(self.lower_dir()) else {
            return Vec::new();
        };
        let mut lowers: Vec<Lower> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
            .filter_map(|path| serde_json::from_str(&fs::read_to_string(path).ok()?).ok())
            .collect();
        lowers.sort_by(|a, b| a.name.cmp(&b.name));
        lowers
    }

    /// The MPI of that name. Without a name one of that family, if there is any; of several the one
    /// at hand.
    pub fn choose(&self, name: Option<&str>, family: Option<Family>) -> Result<Lower> {
        let lowers = self.lowers();
        let names: Vec<&str> = lowers.iter().map(|lower| lower.name.as_str()).collect();
        let known = names.join(", ");
        if lowers.is_empty() {
            return Err(refused(
                "no MPI is registered\n  \
                 hint: fermata mpi add mpicc (or the path of another mpicc)",
            ));
        }
        let found = match name {
            Some(name) => lowers.iter().find(|lower| lower.name == name),
            None => {
                let fits = |lower: &&Lower| Some(lower.family) == family;
                let fitting: Vec<&Lower> = lowers.iter().filter(fits).collect();
                let mut all: Vec<&Lower> = lowers.iter().collect();
                all.sort_by_key(|lower| lower.family != Family::OpenMpi);
                choice::default_of(if fitting.is_empty() { &all } else { &fitting })
            }
        };
        let Some(lower) = found else {
            let name = name.unwrap_or_default();
            return Err(refused(format!(
                "no MPI '{name}' is registered; there are: {known}\n  \
                 hint: fermata mpi add MPICC --name {name}"
            )));
        };
        let program = self.lower_program(&lower.name);
        if !program.exists() {
            return Err(refused(format!(
                "the back end {} is missing\n  hint: fermata mpi add {} --name {}",
                program.display(),
                lower.mpicc,
                lower.name
            )));
        }
        Ok(lower.clone())
    }

    /// Asked once before a job starts: can ranks be started here, and on this MPI?
    pub fn check_ready(&self, lower: &Lower) -> Result<()> {
        self.check_installed(lower)?;
        if let Some(why) = limits::address_space_refusal() {
            return Err(refused(why));
        }
        self.probe("machine")
    }

    /// A registered MPI may have been uninstalled since.
    pub fn check_installed(&self, lower: &Lower) -> Result<()> {
        let name = &lower.name;
        let gone = |what: String| {
            refused(format!(
                "MPI '{name}' cannot be used: {what}\n  \
                 hint: install it again and run fermata mpi add {} --name {name}",
                lower.mpicc
            ))
        };
        let mpirun = lower.mpirun.first().map_or("", String::as_str);
        if !Path::new(mpirun).is_file() {
            return Err(gone(format!("its mpirun '{mpirun}' is not there")));
        }
        let program = self.lower_program(name);
        let mut ldd = Command::new("ldd");
        let listing = environment::for_mpi(&mut ldd, lower)
            .arg(&program)
            .stdin(Stdio::null())
            .output()
            .context("cannot run ldd")?;
        let text = String::from_utf8_lossy(&listing.stdout);
        let missing = |line: &&str| line.contains("=> not found");
        match text.lines().find(missing).and_then(|line| line.split_whitespace().next()) {
            Some(library) => Err(gone(format!("its library {library} is not there"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGSYS, SIGTERM, SIGUSR1};
    use std::process::ExitStatus;

    /// What is made of processes that end with these wait statuses, the last again and again; how
    /// many there were.
    fn asked(statuses: &[i32]) -> (ExitStatus, usize) {
        let mut runs = 0;
        let output = undisturbed(|| {
            let status = ExitStatus::from_raw(statuses[runs.min(statuses.len() - 1)]);
            runs += 1;
            Ok(Output { status, stdout: Vec::new(), stderr: Vec::new() })
        });
        (output.unwrap().status, runs)
    }

    #[test]
    fn a_probe_that_a_signal_for_the_job_ends_is_made_again() {
        assert_eq!(asked(&[SIGTERM, SIGUSR1, 0]), (ExitStatus::from_raw(0), 3));
    }

    #[test]
    fn what_the_kernel_forbids_is_told_at_once() {
        assert_eq!(asked(&[SIGSYS, 0]), (ExitStatus::from_raw(SIGSYS), 1));
        assert_eq!(asked(&[1 << 8, 0]), (ExitStatus::from_raw(1 << 8), 1));
    }

    #[test]
    fn signals_without_an_end_are_told() {
        assert_eq!(asked(&[SIGTERM]), (ExitStatus::from_raw(SIGTERM), MAX_PROBES));
    }
}
