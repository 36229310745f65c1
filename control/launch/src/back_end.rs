// SPDX-License-Identifier: Apache-2.0
//! Registering an MPI: its back end is compiled against its own mpi.h, and all code that it may
//! load is looked through, so that an MPI that cannot work is refused now, by the name of the
//! library that cannot, and not in the middle of a job.

use crate::flavour;
use crate::mpi::{Family, Lower};
use crate::problem::refused;
use crate::registry::Prefix;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Where this program was built; the back end's source is there.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const SITES_REFUSED: i32 = 3;

/// An MPI that has been registered.
pub struct Added {
    /// Its record.
    pub lower: Lower,
    /// What is said of plug-ins of it that cannot be used.
    pub unusable: Option<String>,
}

/// Builds the back end of this MPI and registers it. `progress` hears what is being done.
///
/// # Errors
/// It cannot be built, or loads what cannot be rewritten.
pub fn register(
    prefix: &Prefix,
    mpicc: &Path,
    name: &str,
    progress: &mut dyn FnMut(String),
) -> Result<Added> {
    build_back_end(prefix, mpicc, name)?;
    let record = prefix.lower_record(name);
    let added = match describe(prefix, mpicc, name.to_owned(), progress) {
        Ok(added) => added,
        Err(why) => {
            // A back end without a record would be taken for up to date when the MPI has been
            // mended.
            if !record.exists() {
                let _ = fs::remove_file(prefix.lower_program(name));
            }
            return Err(why);
        }
    };
    fs::write(&record, serde_json::to_string_pretty(&added.lower)? + "\n")
        .with_context(|| format!("cannot write {}", record.display()))?;
    Ok(added)
}

/// Looks at everything the built back end loads.
fn describe(
    prefix: &Prefix,
    mpicc: &Path,
    name: String,
    progress: &mut dyn FnMut(String),
) -> Result<Added> {
    let program = prefix.lower_program(&name);
    let closure = libraries_of(std::slice::from_ref(&program))?;
    let family = family_of(&closure).ok_or_else(|| {
        refused(format!(
            "{} is linked to neither libmpi.so.40 nor libmpich.so.12 or libmpi.so.12",
            program.display()
        ))
    })?;
    let mpirun = flavour::mpirun_beside(mpicc)
        .ok_or_else(|| refused(format!("there is no mpirun beside {}", mpicc.display())))?;
    progress(format!("looking through {} libraries and their plug-ins", closure.len()));
    let unusable = find_sites(prefix, &program, &closure)?;
    let version = Command::new(&mpirun)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map(|out| flavour::describe_version(&String::from_utf8_lossy(&out.stdout)))
        .unwrap_or_default();
    let lower = Lower {
        name,
        family,
        version,
        mpirun: vec![mpirun.to_string_lossy().into_owned(), "-n".into(), "{n}".into()],
        mpicc: mpicc.to_string_lossy().into_owned(),
        env: flavour::lower_environment(mpicc, family),
    };
    Ok(Added { lower, unusable })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|candidate| candidate.is_file())
}

/// The compiler wrapper that is meant: by its path, its name, or the directory of its MPI.
pub fn find_mpicc(what: &str) -> Result<PathBuf> {
    let path = Path::new(what);
    let found = if path.is_dir() {
        Some(path.join("bin/mpicc")).filter(|mpicc| mpicc.is_file())
    } else if what.contains('/') {
        Some(path.to_owned()).filter(|mpicc| mpicc.is_file())
    } else {
        in_path(what)
    };
    found.ok_or_else(|| {
        refused(format!(
            "there is no mpicc at '{what}'\n  \
             hint: give an mpicc or the directory that holds bin/mpicc"
        ))
    })
}

/// mpicc.openmpi -> openmpi; /opt/foo/bin/mpicc -> foo
pub fn default_name(mpicc: &Path) -> String {
    let file = mpicc.file_name().unwrap_or_default().to_string_lossy();
    if let Some(suffix) = file.strip_prefix("mpicc.") {
        return suffix.to_owned();
    }
    mpicc
        .parent()
        .and_then(Path::parent)
        .and_then(Path::file_name)
        .map_or("mpi".into(), |name| name.to_string_lossy().into_owned())
}

fn build_back_end(prefix: &Prefix, mpicc: &Path, name: &str) -> Result<()> {
    let source = Path::new(SOURCE);
    let script = source.join("runtime/backend/build.sh");
    let program = prefix.lower_program(name);
    if !script.exists() {
        if program.exists() {
            return Ok(());
        }
        return Err(refused(format!("the back end's source is not at {}", script.display())));
    }
    let before = prefix.lowers().into_iter().find(|lower| lower.name == name);
    let same_compiler = before.is_none_or(|lower| Path::new(&lower.mpicc) == mpicc);
    if same_compiler && is_newer_than_source(&program, source) {
        return Ok(());
    }
    fs::create_dir_all(prefix.lower_dir())?;
    let output = Command::new(&script)
        .arg(mpicc)
        .arg(prefix.lower_dir())
        .arg(name)
        .envs(flavour::compiler_environment(mpicc))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(anyhow::anyhow!(
        "building the back end for {} failed:\n{}",
        mpicc.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    ))
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}

fn is_newer_than_source(program: &Path, source: &Path) -> bool {
    let Some(built) = modified(program) else {
        return false;
    };
    ["backend", "agent", "halves", "base", "mpi"]
        .iter()
        .filter_map(|folder| fs::read_dir(source.join("runtime").join(folder)).ok())
        .flat_map(|entries| entries.flatten())
        .all(|entry| modified(&entry.path()).is_none_or(|time| time <= built))
}

/// What ldd finds for all of them together.
fn libraries_of(files: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let output =
        Command::new("ldd").args(files).stdin(Stdio::null()).output().context("cannot run ldd")?;
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    // With several files ldd heads each list with a line "file:".
    let found: BTreeSet<PathBuf> = listing
        .lines()
        .filter(|line| !line.ends_with(':'))
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect();
    Ok(found.into_iter().collect())
}

fn family_of(libraries: &[PathBuf]) -> Option<Family> {
    libraries.iter().find_map(|library| match library.file_name()?.to_str()? {
        "libmpi.so.40" => Some(Family::OpenMpi),
        "libmpich.so.12" | "libmpi.so.12" => Some(Family::Mpich),
        _ => None,
    })
}

/// Plug-ins that the libraries load later, as far as custom tells where those lie.
fn plugins_beside(libraries: &[PathBuf]) -> Vec<PathBuf> {
    const FOLDERS: [&str; 6] = ["openmpi", "openmpi3", "pmix", "pmix2", "ucx", "hwloc"];
    let mut folders = BTreeSet::new();
    for library in libraries {
        let real = fs::canonicalize(library).unwrap_or_else(|_| library.clone());
        for dir in [library.parent(), real.parent()].into_iter().flatten() {
            folders.extend(FOLDERS.iter().map(|name| dir.join(name)));
        }
    }
    let mut found = Vec::new();
    let mut open: Vec<(PathBuf, u32)> = folders.into_iter().map(|dir| (dir, 3)).collect();
    while let Some((dir, depth)) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && depth > 0 {
                open.push((path, depth - 1));
            } else if path.extension().is_some_and(|ext| ext == "so") {
                found.push(path);
            }
        }
    }
    found
}

/// Finds the FS prefixes of everything this MPI loads, so that the first job starts fast. Returns
/// what is said of plug-ins that cannot be used.
fn find_sites(prefix: &Prefix, program: &Path, closure: &[PathBuf]) -> Result<Option<String>> {
    let tool = prefix.sites_tool();
    if !tool.exists() {
        return Err(refused(format!("{} is missing\n  hint: ./x build", tool.display())));
    }
    let mut needed = vec![program.to_owned()];
    needed.extend_from_slice(closure);
    let run = |files: &[PathBuf]| -> Result<Option<String>> {
        if files.is_empty() {
            return Ok(None);
        }
        let kept = prefix.sites_cache().ok().map(|dir| [OsString::from("--cache"), dir.into()]);
        let output = Command::new(&tool)
            .arg("--quiet")
            .args(kept.into_iter().flatten())
            .args(files)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", tool.display()))?;
        let text = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        match output.status.code() {
            Some(0) => Ok(None),
            Some(SITES_REFUSED) => Ok(Some(text)),
            _ => Err(anyhow::anyhow!("{} failed: {text}", tool.display())),
        }
    };
    if let Some(why) = run(&needed)? {
        return Err(refused(format!(
            "this MPI loads code that cannot be rewritten:\n{why}\n  \
             hint: an MPI built without that library works; fermata mpi add its mpicc instead"
        )));
    }
    let mut plugins = plugins_beside(closure);
    if !plugins.is_empty() {
        plugins.extend(libraries_of(&plugins)?);
    }
    // A plug-in that cannot be prepared is refused when somebody loads it.
    Ok(run(&plugins).ok().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_names() {
        assert_eq!(default_name(Path::new("/usr/bin/mpicc.openmpi")), "openmpi");
        assert_eq!(default_name(Path::new("/opt/mpich-5/bin/mpicc")), "mpich-5");
    }
}
