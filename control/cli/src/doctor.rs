// SPDX-License-Identifier: Apache-2.0
//! `doctor`: looks at what this machine must have and says what to do about what it lacks.

use crate::exit::FAILURE;
use crate::jobs::Place;
use crate::output::Output;
use crate::registry::Prefix;
use anyhow::Result;
use serde_json::json;
use std::fs;

struct Finding {
    what: String,
    ok: bool,
    needed: bool,
    advice: &'static str,
}

fn finding(what: impl Into<String>, ok: bool, needed: bool, advice: &'static str) -> Finding {
    let what = what.into();
    Finding { what, ok, needed, advice }
}

fn kernel_at_least(release: &str, major: u32, minor: u32) -> bool {
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let have = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    have >= (major, minor)
}

fn system_findings() -> Vec<Finding> {
    let release = fermata_sysio::kernel_release();
    let trap = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
        .is_ok_and(|actions| actions.split_whitespace().any(|action| action == "trap"));
    let userns = fs::read_to_string("/proc/sys/user/max_user_namespaces")
        .is_ok_and(|text| text.trim().parse::<u64>().unwrap_or(0) > 0);
    vec![
        finding(
            format!("kernel {release} (5.11 or newer)"),
            kernel_at_least(&release, 5, 11),
            true,
            "boot a newer kernel",
        ),
        finding(
            "FS and GS bases writable by programs (FSGSBASE)",
            fermata_sysio::has_fsgsbase(),
            true,
            "needs a CPU since 2012, kernel 5.9, and no nofsgsbase on the kernel's command line",
        ),
        finding(
            "seccomp filters that trap",
            trap,
            true,
            "the kernel needs CONFIG_SECCOMP_FILTER; a container must allow seccomp(2)",
        ),
        finding(
            "membarrier(2), private expedited",
            fermata_sysio::has_private_membarrier(),
            true,
            "the kernel needs CONFIG_MEMBARRIER; a container must allow membarrier(2)",
        ),
        finding(
            "user namespaces",
            userns,
            false,
            "only some tests use them: sysctl user.max_user_namespaces=10000",
        ),
    ]
}

fn installed_findings(prefix: &Prefix) -> Vec<Finding> {
    let mut out = vec![
        finding("launcher", prefix.launcher().exists(), true, "./x build"),
        finding("site finder", prefix.sites_tool().exists(), true, "./x build"),
    ];
    for (name, library) in [
        ("front end for Open MPI programs", "ompi/libmpi.so.40"),
        ("front end for MPICH programs", "mpich/libmpich.so.12"),
    ] {
        out.push(finding(name, prefix.front(library).exists(), true, "./x build"));
    }
    let lowers = prefix.lowers();
    if lowers.is_empty() {
        out.push(finding("an MPI to run on", false, true, "fermata mpi add mpicc"));
    }
    for lower in lowers {
        let usable = prefix.lower_program(&lower.name).exists()
            && lower.mpirun.first().is_some_and(|path| fs::metadata(path).is_ok());
        out.push(finding(
            format!("MPI {}: {}", lower.name, lower.version),
            usable,
            false,
            "install it again and run fermata mpi add, or fermata mpi remove",
        ));
    }
    out
}

/// `fermata doctor`
pub fn doctor(_place: &Place, output: Output) -> Result<u8> {
    let prefix = Prefix::find()?;
    let mut findings = system_findings();
    findings.extend(installed_findings(&prefix));
    let mut text = String::new();
    for f in &findings {
        let mark = match (f.ok, f.needed) {
            (true, _) => "ok  ",
            (false, true) => "BAD ",
            (false, false) => "note",
        };
        text += &format!("{mark} {}\n", f.what);
        if !f.ok {
            text += &format!("     hint: {}\n", f.advice);
        }
    }
    let good = findings.iter().all(|f| f.ok || !f.needed);
    let rows: Vec<_> = findings
        .iter()
        .map(|f| json!({"what": f.what, "ok": f.ok, "needed": f.needed, "advice": f.advice}))
        .collect();
    output.result(text, &json!({"ok": good, "findings": rows}));
    Ok(if good { 0 } else { FAILURE })
}

#[cfg(test)]
mod tests {
    use super::kernel_at_least;

    #[test]
    fn kernel_versions_compare_as_numbers() {
        assert!(kernel_at_least("6.1.0-13-amd64", 5, 11));
        assert!(kernel_at_least("5.11.0", 5, 11));
        assert!(!kernel_at_least("5.9-rc1", 5, 11));
    }
}
