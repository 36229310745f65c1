// SPDX-License-Identifier: Apache-2.0
//! `doctor`: explains a machine. Each finding says what was looked at, what was found, what that
//! means for jobs, and what to do if it is not as it should be. Nothing is guessed where the real
//! thing can be asked: whether ranks can start is what the launcher itself says, and whether jobs
//! run is what a job of one rank shows under each registered MPI.

use crate::exit::FAILURE;
use crate::jobs::JobsDir;
use crate::output::Output;
use crate::trial;
use anyhow::Result;
use fermata_launch::mpi::{Family, Lower};
use fermata_launch::registry::Prefix;
use fermata_launch::units::human_bytes;
use fermata_transport::{leave_runtime_dir, runtime_dir};
use serde::Serialize;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Less than this is soon used up by snapshots.
const FREE_BYTES_WANTED: u64 = 1 << 30;
/// Both MPIs keep the messages between the ranks of a host there; Docker's own 64 MiB run out.
const SHARED_BYTES_WANTED: u64 = 256 << 20;
/// What a program may lock without rights, where nobody has said anything else.
const LOCKED_BYTES_WANTED: u64 = 8 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Works, but somebody should know.
    Note,
    /// Jobs cannot be run or saved.
    Missing,
}

#[derive(Serialize)]
struct Finding {
    what: String,
    found: String,
    state: State,
    means: &'static str,
    advice: String,
}

impl Finding {
    fn new(what: impl Into<String>, found: impl Into<String>, means: &'static str) -> Self {
        let (what, found, advice) = (what.into(), found.into(), String::new());
        Self { what, found, state: State::Ok, means, advice }
    }

    /// What it is if it is not as it should be.
    fn unless(mut self, good: bool, state: State, advice: impl Into<String>) -> Self {
        if !good {
            (self.state, self.advice) = (state, advice.into());
        }
        self
    }
}

fn found(good: bool) -> &'static str {
    if good { "found" } else { "missing" }
}

fn kernel_at_least(release: &str, major: u32, minor: u32) -> bool {
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let have = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    have >= (major, minor)
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// `refusal`: why the launcher cannot start ranks here, if it cannot.
fn machine(prefix: &Prefix, refusal: Option<&str>) -> Vec<Finding> {
    let release = fermata_sysio::kernel_release();
    let fsgsbase = fermata_sysio::has_fsgsbase();
    let trap = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
        .is_ok_and(|actions| actions.split_whitespace().any(|action| action == "trap"));
    let compares = refusal.is_some() || prefix.probe("saving").is_ok();
    let (shown, advice) = refusal.map_or(("can start ranks here", ""), |text| {
        text.split_once("\n  hint: ").unwrap_or((text, ""))
    });
    let membarrier = fermata_sysio::has_private_membarrier();
    let pagemap = fs::File::open("/proc/self/pagemap").is_ok();
    let strict = number_in("/proc/sys/vm/overcommit_memory") == Some(2);
    let userns = number_in("/proc/sys/user/max_user_namespaces").unwrap_or(0) > 0;
    vec![
        Finding::new("kernel", &release, "5.13 or newer is needed").unless(
            kernel_at_least(&release, 5, 13),
            State::Missing,
            "boot a newer kernel",
        ),
        Finding::new(
            "FSGSBASE",
            found(fsgsbase),
            "programs may write the FS and GS bases: two libcs live in one process by it",
        )
        .unless(
            fsgsbase,
            State::Missing,
            "needs a CPU since 2012, Linux 5.9, and no nofsgsbase on the kernel's command line",
        ),
        Finding::new(
            "seccomp",
            found(trap),
            "filters that trap tell the application's system calls from the MPI library's",
        )
        .unless(
            trap,
            State::Missing,
            "the kernel needs CONFIG_SECCOMP_FILTER; a container must allow seccomp(2)",
        ),
        Finding::new(
            "the launcher",
            shown,
            "it has tried everything that a machine or a container may forbid",
        )
        .unless(refusal.is_none(), State::Missing, advice),
        Finding::new(
            "kcmp(2)",
            if compares { "allowed" } else { "forbidden" },
            "tells which descriptors of a program are one and the same",
        )
        .unless(
            compares,
            State::Missing,
            "a container must allow it; without it jobs run, but cannot be saved",
        ),
        Finding::new(
            "membarrier(2)",
            found(membarrier),
            "makes MPI calls cheap while no checkpoint is taken",
        )
        .unless(
            membarrier,
            State::Missing,
            "the kernel needs CONFIG_MEMBARRIER; a container must allow membarrier(2)",
        ),
        Finding::new("/proc", found(pagemap), "tells which pages of memory are worth saving")
            .unless(pagemap, State::Missing, "mount it: mount -t proc proc /proc"),
        Finding::new(
            "memory overcommit",
            if strict { "strict (vm.overcommit_memory=2)" } else { "allowed" },
            "ranks reserve address space they do not use; a checkpoint forks",
        )
        .unless(
            !strict,
            State::Note,
            "if starts or checkpoints fail for memory: set it to 0",
        ),
        Finding::new(
            "user namespaces",
            found(userns),
            "only the project's tests of several hosts and full disks use them",
        )
        .unless(userns, State::Note, "sysctl user.max_user_namespaces=10000"),
    ]
}

/// The value of a line `name value...` of a file in /proc; empty if there is none.
fn line_of(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    value.trim().to_owned()
}

/// What of a container, if any, surrounds this process.
fn surroundings() -> String {
    let mut found = Vec::new();
    if Path::new("/.dockerenv").exists() {
        found.push("Docker".to_owned());
    }
    if Path::new("/run/.containerenv").exists() {
        found.push("Podman".to_owned());
    }
    if line_of("/proc/self/status", "Seccomp:") == "2" {
        found.push("a seccomp filter".to_owned());
    }
    // The kernel ends the text with a NUL where it is the name of a profile alone.
    let profile = fs::read_to_string("/proc/self/attr/current").unwrap_or_default();
    let profile = profile.trim_end_matches(['\0', '\n']);
    if !profile.is_empty() && profile != "unconfined" {
        found.push(format!("security profile {profile}"));
    }
    found.join(", ")
}

/// What containers, batch systems and administrators set.
fn limits(launcher_works: bool) -> Vec<Finding> {
    let around = surroundings();
    let shown = if around.is_empty() { "none noticed" } else { around.as_str() };
    let privileges = line_of("/proc/self/status", "NoNewPrivs:") == "1";
    let locked = line_of("/proc/self/limits", "Max locked memory");
    let locked = locked.split_whitespace().next().unwrap_or("unknown");
    let enough = locked.parse::<u64>().map_or(true, |bytes| bytes >= LOCKED_BYTES_WANTED);
    let shared = fermata_sysio::file_system(Path::new("/dev/shm"));
    let text = shared.as_ref().map_or_else(
        |error| format!("cannot be looked at: {error}"),
        |(kind, free)| format!("{} free on {kind}", human_bytes(*free)),
    );
    let roomy = shared.is_ok_and(|(_, free)| free >= SHARED_BYTES_WANTED);
    vec![
        Finding::new("container", shown, "may forbid system calls that ranks need").unless(
            around.is_empty() || launcher_works,
            State::Note,
            "let it allow seccomp, arch_prctl, membarrier and clone3; for a trial: \
             --security-opt seccomp=unconfined --security-opt apparmor=unconfined",
        ),
        Finding::new(
            "no_new_privs",
            if privileges { "set already" } else { "not set" },
            "ranks set it, as a filter of system calls demands: set-uid programs that a job starts \
             (ping, sudo) gain no rights",
        ),
        Finding::new("/dev/shm", text, "the ranks of a host pass their messages through it")
            .unless(
                roomy,
                State::Note,
                "make it larger: mount -o remount,size=2G /dev/shm, \
                or --shm-size=2g of docker run",
            ),
        Finding::new(
            "memory that may be locked",
            locked.parse().map_or_else(|_| locked.to_owned(), human_bytes),
            "a program's locked memory is locked again at a restart; networks with RDMA need it",
        )
        .unless(
            enough,
            State::Note,
            "ulimit -l unlimited, or memlock in /etc/security/limits.conf, before mpirun starts",
        ),
    ]
}

fn installation(prefix: &Prefix) -> Vec<Finding> {
    let rebuild = "build it again: ./x build";
    let parts: [(&str, PathBuf, &str); 4] = [
        ("launcher", prefix.launcher(), "every rank runs in it"),
        (
            "front end ompi",
            prefix.front("ompi/libmpi.so.40"),
            "what programs built for Open MPI are linked to",
        ),
        ("program of one rank", prefix.trial(), "what this command runs under each MPI, below"),
        (
            "front end mpich",
            prefix.front("mpich/libmpich.so.12"),
            "what programs built for MPICH are linked to",
        ),
    ];
    let mut out: Vec<Finding> = parts
        .into_iter()
        .map(|(what, path, means)| {
            let exists = path.exists();
            Finding::new(what, found(exists), means).unless(exists, State::Missing, rebuild)
        })
        .collect();
    let bindings = prefix.front("ompi/libmpi_cxx.so.40").exists();
    out.push(
        Finding::new(
            "front end ompi, C++",
            found(bindings),
            "the C++ bindings of Open MPI, for programs that mpicxx linked to libmpi_cxx.so.40",
        )
        .unless(
            bindings,
            State::Note,
            "only such programs need it: ./x build, where the headers of Open MPI 4 are installed",
        ),
    );
    let finder = trial::site_finder(prefix);
    out.push(
        tried("site finder", "runs", &finder, "prepares the machine code of MPI libraries").unless(
            finder.is_ok(),
            State::Missing,
            rebuild,
        ),
    );
    let cache = prefix.sites_cache();
    let text = cache.as_ref().map_or_else(|e| format!("{e:#}"), |dir| dir.display().to_string());
    out.push(
        Finding::new("cache of sites", text, "libraries that were looked through before").unless(
            cache.is_ok(),
            State::Note,
            "make ~/.cache or $XDG_CACHE_HOME writable",
        ),
    );
    out
}

/// What was started, and how that went. Advice is what the command itself gave, if any.
fn tried(
    what: impl Into<String>,
    good: &str,
    outcome: &Result<(), String>,
    means: &'static str,
) -> Finding {
    match outcome {
        Ok(()) => Finding::new(what, good, means),
        Err(why) => {
            let (shown, advice) = why.split_once("\n  hint: ").unwrap_or((why.trim_end(), ""));
            Finding::new(what, shown, means).unless(false, State::Missing, advice)
        }
    }
}

/// A job of one rank on each MPI that is there.
fn trials(prefix: &Prefix, lowers: &[Lower]) -> Vec<Finding> {
    const MEANS: &str = "one rank was started here, saved and restarted, with your limits and \
                         environment";
    let usable = |lower: &&Lower| {
        prefix.check_installed(lower).is_ok() && prefix.lower_program(&lower.name).exists()
    };
    let usable: Vec<Lower> = lowers.iter().filter(usable).cloned().collect();
    let mut out = Vec::new();
    for (lower, outcome) in usable.iter().zip(trial::jobs(prefix, &usable)) {
        let name = &lower.name;
        let finding =
            tried(format!("a job on {name}"), "ran, was saved, continued", &outcome, MEANS);
        let advice = match finding.advice.as_str() {
            "" => format!("try what is above; then fermata mpi add {} --name {name}", lower.mpicc),
            own => own.to_owned(),
        };
        out.push(finding.unless(outcome.is_ok(), State::Missing, advice));
    }
    if usable.is_empty() && !lowers.is_empty() {
        let advice = "install one of them again, or another: fermata mpi add mpicc";
        out.push(Finding::new("a job", "none of the registered MPIs can be used", MEANS).unless(
            false,
            State::Missing,
            advice,
        ));
    }
    out
}

fn mpis(prefix: &Prefix, launcher_works: bool) -> Vec<Finding> {
    let lowers = prefix.lowers();
    let mut out = vec![
        Finding::new(
            "registered MPIs",
            lowers.len().to_string(),
            "jobs run on them; one is enough, two let jobs move between them",
        )
        .unless(
            !lowers.is_empty(),
            State::Missing,
            "install an MPI, then: fermata mpi add mpicc",
        ),
    ];
    for lower in &lowers {
        let built = prefix.lower_program(&lower.name).exists();
        let usable = prefix.check_installed(lower);
        let text = match (&usable, built) {
            (Err(why), _) => why.to_string(),
            (_, false) => "its back end is missing".into(),
            _ => lower.version.clone(),
        };
        let advice = format!("fermata mpi add {} --name {}", lower.mpicc, lower.name);
        out.push(
            Finding::new(format!("MPI {}", lower.name), text, "--mpi takes this name").unless(
                usable.is_ok() && built,
                State::Note,
                advice,
            ),
        );
    }
    // Where ranks cannot be started, that has been said.
    if launcher_works {
        out.extend(trials(prefix, &lowers));
    }
    let as_root = fermata_sysio::effective_uid() == 0;
    if as_root && lowers.iter().any(|lower| lower.family == Family::OpenMpi) {
        let variables = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
        let set = variables.iter().all(|name| std::env::var_os(name).is_some());
        let means = "Open MPI's own mpirun refuses root; fermata run and restart allow it";
        out.push(
            Finding::new("you are root", if set { "allowed" } else { "noticed" }, means).unless(
                set,
                State::Note,
                format!("before mpirun ... fermata exec: {}=1", variables.join("=1 ")),
            ),
        );
    }
    out
}

/// The nearest directory above that exists: where a new one would be made.
fn existing(path: &Path) -> PathBuf {
    let whole = std::env::current_dir().unwrap_or_default().join(path);
    whole.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn place(place: &JobsDir) -> Vec<Finding> {
    let dir = existing(place.dir());
    let writable = fermata_sysio::is_writable(&dir);
    let mut out = vec![
        Finding::new("directory of jobs", place.dir().display().to_string(), "snapshots go there")
            .unless(
                writable,
                State::Missing,
                format!("you may not write in {}: give --dir or FERMATA_DIR", dir.display()),
            ),
    ];
    if let Ok((kind, free)) = fermata_sysio::file_system(&dir) {
        let text = format!("{} free on {kind}", human_bytes(free));
        out.push(
            Finding::new("its disk", text, "a snapshot is about as large as the job's memory")
                .unless(free >= FREE_BYTES_WANTED, State::Note, "make room, or give another --dir")
                .unless(
                    kind != "tmpfs",
                    State::Note,
                    "tmpfs is memory, and gone after a reboot: give another --dir",
                ),
        );
    }
    let sockets = runtime_dir().inspect(|dir| leave_runtime_dir(dir));
    let text = sockets.as_ref().map_or_else(ToString::to_string, |dir| dir.display().to_string());
    out.push(
        Finding::new("directory of sockets", text, "ranks and commands meet the coordinator there")
            .unless(sockets.is_ok(), State::Missing, "set XDG_RUNTIME_DIR to a directory of yours"),
    );
    out
}

fn describe(title: &str, findings: &[Finding]) -> String {
    let mut text = format!("{title}\n");
    for f in findings {
        let mark = match f.state {
            State::Ok => "ok  ",
            State::Note => "note",
            State::Missing => "BAD ",
        };
        let shown = f.found.replace('\n', "\n       ");
        text += &format!("  {mark} {}: {shown}\n       {}\n", f.what, f.means);
        if f.state != State::Ok {
            text += &format!("       hint: {}\n", f.advice);
        }
    }
    text
}

/// `fermata doctor`
pub fn doctor(jobs: &JobsDir, output: Output) -> Result<u8> {
    let prefix = Prefix::find()?;
    let refusal = prefix.probe("machine").err().map(|error| error.to_string());
    let parts = [
        ("This machine", machine(&prefix, refusal.as_deref())),
        ("Limits", limits(refusal.is_none())),
        ("This installation", installation(&prefix)),
        ("MPIs", mpis(&prefix, refusal.is_none())),
        ("Jobs and snapshots", place(jobs)),
    ];
    let bad = parts.iter().flat_map(|(_, f)| f).filter(|f| f.state == State::Missing).count();
    let mut text: String =
        parts.iter().map(|(title, findings)| describe(title, findings)).collect();
    text += &match bad {
        0 => "Jobs can be run, saved and restarted here.".to_owned(),
        _ => format!("{bad} things are missing: jobs cannot be run or saved here yet."),
    };
    let rows: Vec<_> = parts.iter().flat_map(|(_, findings)| findings).collect();
    output.answer(text, &json!({"ok": bad == 0, "findings": rows}))?;
    Ok(if bad == 0 { 0 } else { FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_compare_as_numbers() {
        assert!(kernel_at_least("6.1.0-13-amd64", 5, 13));
        assert!(kernel_at_least("5.13.0", 5, 13));
        assert!(!kernel_at_least("5.9-rc1", 5, 13));
    }

    #[test]
    fn a_directory_to_be_made_is_judged_by_its_nearest_ancestor() {
        assert_eq!(existing(Path::new("/proc/no/such/place")), Path::new("/proc"));
    }
}
