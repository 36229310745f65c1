// SPDX-License-Identifier: Apache-2.0
//! What single MPIs need that others do not: where their process manager is, what their compiler
//! wrapper must be told, and the environment of their lower half.

use crate::environment::LIBRARY_PATH;
use crate::mpi::Family;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Plug-ins of hwloc that would load graphics drivers and compilers into the lower half.
const HWLOC_COMPONENTS: &str = "-opencl,-gl,-cuda,-nvml,-rsmi,-levelzero";
/// PMIx 5 wants its shared memory at the address its server has it at, which may lie in the upper
/// window; without it the same data come by message.
const PMIX_STORES: &str = "^shmem2";

/// The component of Open MPI 4 that makes one-sided windows where no other can. Debian's
/// configuration leaves it out, and then there are none with a single member.
const OSC_FALLBACK: &str = "pt2pt";

/// What the installation's configuration says of `osc`, without leaving out the fallback.
fn osc_with_fallback(mpicc: &Path) -> Option<String> {
    let own = mpicc.parent()?.parent()?.join("etc/openmpi-mca-params.conf");
    let debian = Path::new("/etc/openmpi/openmpi-mca-params.conf");
    let file = if own.is_file() || !mpicc.starts_with("/usr/bin") { &own } else { debian };
    let text = std::fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "osc").then_some(value)
    })?;
    let left_out: Vec<&str> = value.trim().strip_prefix('^')?.split(',').map(str::trim).collect();
    let others: Vec<&str> = left_out.iter().copied().filter(|name| *name != OSC_FALLBACK).collect();
    let changed = !others.is_empty() && others.len() < left_out.len();
    changed.then(|| format!("^{}", others.join(",")))
}

/// The prefix of an Intel MPI. Its wheels and packages leave it to the user to say where they are.
fn intel_root(mpicc: &Path) -> Option<PathBuf> {
    let bin = mpicc.parent()?;
    bin.join("impi_info").is_file().then(|| bin.parent().map(Path::to_owned))?
}

fn intel_variables(mpicc: &Path) -> Option<(String, String)> {
    let root = intel_root(mpicc)?;
    Some(("I_MPI_ROOT".to_owned(), root.to_string_lossy().into_owned()))
}

/// The environment in which this compiler wrapper works.
pub fn compiler_environment(mpicc: &Path) -> BTreeMap<String, String> {
    intel_variables(mpicc).into_iter().collect()
}

/// The environment of a rank's lower half.
pub fn lower_environment(mpicc: &Path, family: Family) -> BTreeMap<String, String> {
    let mut env = compiler_environment(mpicc);
    // Where its libraries have just been found, whatever module the user of a job has loaded.
    let path = std::env::var(LIBRARY_PATH).unwrap_or_default();
    env.insert(LIBRARY_PATH.to_owned(), path);
    env.insert("HWLOC_COMPONENTS".to_owned(), HWLOC_COMPONENTS.to_owned());
    if family == Family::OpenMpi {
        env.insert("PMIX_MCA_gds".to_owned(), PMIX_STORES.to_owned());
        env.extend(osc_with_fallback(mpicc).map(|value| ("OMPI_MCA_osc".to_owned(), value)));
    }
    env
}

/// The process manager beside the compiler: mpicc.openmpi has mpirun.openmpi. Intel's mpirun is a
/// script that takes the first mpiexec of the user's PATH, so there it is the program behind it.
pub fn mpirun_beside(mpicc: &Path) -> Option<PathBuf> {
    let file = mpicc.file_name()?.to_str()?;
    let tools: &[&str] =
        if intel_root(mpicc).is_some() { &["mpiexec.hydra"] } else { &["mpirun", "mpiexec"] };
    tools
        .iter()
        .map(|tool| mpicc.with_file_name(file.replacen("mpicc", tool, 1)))
        .find(|path| path.is_file())
}

/// The MPI's name and version, from what its mpirun says of itself.
pub fn describe_version(text: &str) -> String {
    let hydra = text.lines().find_map(|line| line.trim().strip_prefix("Version:"));
    let first = text.lines().next().unwrap_or_default().trim();
    let intel = first.strip_prefix("Intel(R) MPI Library").and_then(|rest| {
        rest.split_once("Version ").and_then(|(_, rest)| rest.split_whitespace().next())
    });
    match (hydra, intel, first.rsplit_once(' ')) {
        (Some(version), _, _) => format!("MPICH {}", version.trim()),
        (None, Some(version), _) => format!("Intel MPI {version}"),
        // "mpirun (Open MPI) 4.1.4" or "mpirun.openmpi (OpenRTE) 4.1.4"
        (None, None, Some((program, version))) if program.contains("(Open") => {
            format!("Open MPI {version}")
        }
        _ => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(describe_version("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport"), "Open MPI 4.1.4");
        assert_eq!(
            describe_version("HYDRA build details:\n    Version:      4.0.2\n"),
            "MPICH 4.0.2"
        );
        let intel =
            "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b)\n";
        assert_eq!(describe_version(intel), "Intel MPI 2021.18.1");
    }
}
