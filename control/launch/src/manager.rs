// SPDX-License-Identifier: Apache-2.0
//! The process manager that has started this rank: mpirun of either MPI, or srun. It tells what it
//! has to tell by the environment.

use crate::mpi::{Family, Lower};
use crate::problem::refused;
use anyhow::Result;
use fermata_sysio::Process;

/// What the process manager says about this rank.
pub struct Manager {
    /// Its number in MPI_COMM_WORLD.
    pub rank: u32,
    /// How many there are.
    pub size: u32,
    /// How many ranks it has started on this host, if it tells.
    local_size: Option<u32>,
    /// Whether what all ranks of this host have to say is said by this one.
    pub is_first_here: bool,
    /// The MPI that the process manager belongs to, if one has started this rank.
    pub family: Option<Family>,
    /// Something all ranks of the job and no other job share.
    pub identity: String,
}

/// The first of these variables that is a number.
fn number(names: &[&str]) -> Option<u32> {
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// Hydra's proxies have no name for the job, but all are told where its mpirun listens.
fn hydra_identity() -> Option<String> {
    let pid = std::os::unix::process::parent_id();
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    words.find(|word| word == "--control-port")?;
    Some(format!("hydra{}", words.next()?))
}

/// Process ids come again, so the time of the start goes with it.
fn parent_identity() -> String {
    Process::of(std::os::unix::process::parent_id()).to_string()
}

impl Manager {
    /// Looks into the environment, and at the parent process.
    pub fn detect() -> Self {
        let text = |name: &str| std::env::var(name).ok();
        let open_mpi = text("OMPI_COMM_WORLD_RANK").is_some() || text("PMIX_RANK").is_some();
        let mpich = text("PMI_RANK").is_some();
        let identity = text("PMIX_NAMESPACE")
            .or_else(|| text("OMPI_MCA_ess_base_jobid"))
            .or_else(|| text("I_MPI_HYDRA_UUID"))
            .or_else(|| {
                let step = text("SLURM_STEP_ID").or_else(|| text("SLURM_STEPID"))?;
                Some(format!("slurm{}.{step}", text("SLURM_JOB_ID")?))
            })
            .or_else(hydra_identity)
            .unwrap_or_else(parent_identity);
        Self {
            rank: number(&["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"])
                .unwrap_or(0),
            size: number(&["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"]).unwrap_or(1),
            local_size: number(&["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"]),
            is_first_here: number(&[
                "OMPI_COMM_WORLD_LOCAL_RANK",
                "MPI_LOCALRANKID",
                "SLURM_LOCALID",
            ])
            .is_none_or(|local| local == 0),
            family: match (open_mpi, mpich) {
                (true, _) => Some(Family::OpenMpi),
                (_, true) => Some(Family::Mpich),
                _ => None,
            },
            identity,
        }
    }

    /// Whether ranks may be on other hosts.
    pub fn may_span_hosts(&self) -> bool {
        match self.local_size {
            Some(here) => here < self.size,
            None => number(&["SLURM_STEP_NUM_NODES", "SLURM_NNODES"])
                .map_or(self.size > 1, |nodes| nodes > 1),
        }
    }

    /// On how many hosts they are, as far as it tells; at least 1.
    pub fn hosts(&self) -> u32 {
        let told = self.local_size.map(|here| self.size.div_ceil(here.max(1)));
        told.or_else(|| number(&["SLURM_STEP_NUM_NODES", "SLURM_NNODES"])).unwrap_or(1).max(1)
    }

    /// Whether it starts ranks of this MPI.
    ///
    /// # Errors
    /// It is another MPI's, or would refuse this user.
    pub fn check(&self, lower: &Lower) -> Result<()> {
        if let Some(family) = self.family.filter(|family| *family != lower.family) {
            return Err(refused(format!(
                "this process manager starts {family:?} ranks, but MPI '{}' is {:?}\n  \
             hint: start with that MPI's own mpirun, or use fermata run --mpi {}",
                lower.name, lower.family, lower.name
            )));
        }
        // Under an mpirun of its own it has been asked already.
        let alone = self.family.is_none();
        if alone && lower.family == Family::OpenMpi && fermata_sysio::effective_uid() == 0 {
            let allowed = |name| std::env::var_os(name).is_some();
            if !(allowed("OMPI_ALLOW_RUN_AS_ROOT") && allowed("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")) {
                return Err(refused(
                    "Open MPI refuses to run as root\n  \
                 hint: set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                ));
            }
        }
        Ok(())
    }
}
