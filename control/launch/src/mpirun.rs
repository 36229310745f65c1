// SPDX-License-Identifier: Apache-2.0
//! The command line of an MPI's own mpirun, and what it starts as each rank.

use crate::environment;
use crate::files::Rule;
use crate::grace;
use crate::guarded;
use crate::hosts::{self, Hosts};
use crate::kept;
use crate::moved::{Images, Moves};
use crate::mpi::{Family, Lower};
use crate::registry::Prefix;
use crate::start::Start;
use crate::stdin::give_stdin;
use crate::surviving;
use anyhow::{Context, Result};
use fermata_storage::JobDir;
use fermata_sysio::host_name;
use fermata_transport::Secret;
use fermata_types::{JobRecord, each_program};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

/// What a run is launched with.
pub struct LaunchContext<'a> {
    /// Where Fermata is installed.
    pub prefix: &'a Prefix,
    /// The MPI below.
    pub lower: &'a Lower,
    /// As the command says.
    pub start: &'a Start,
    /// The hosts; `None`: this one, or those that mpirun knows of.
    pub hosts: Option<Hosts>,
}

/// What a run continues from.
pub struct Restore {
    /// The snapshot.
    pub snapshot: PathBuf,
    /// Its images; none if the program saved itself.
    pub images: Images,
    /// What to do about files that have changed.
    pub files: Rule,
    /// Directories that have moved, as given.
    pub moves: Moves,
}

/// mpirun in its environment, and the words that tell it how many processes to start.
fn begin<'a>(context: &LaunchContext<'a>) -> Result<(Command, &'a [String])> {
    let lower = context.lower;
    let (mpirun, template) = lower
        .mpirun
        .split_first()
        .with_context(|| format!("MPI '{}' has no mpirun; add it again", lower.name))?;
    let mut command = Command::new(mpirun);
    command.env_remove(Secret::VARIABLE);
    environment::for_mpi(&mut command, lower);
    if let Some(shell) = &context.start.remote_shell {
        hosts::use_remote_shell(&mut command, shell);
    }
    Ok((command, template))
}

/// mpirun with all that it is told: once for each program of the job.
pub fn command(
    context: &LaunchContext,
    record: &JobRecord,
    secret: Option<&str>,
    job: &JobDir,
    restore: Option<&Restore>,
) -> Result<Command> {
    let LaunchContext { lower, start, hosts, .. } = context;
    let (mut command, template) = begin(context)?;
    let family = lower.family;
    guarded::guard(&mut command, &start.save_on);
    let fermata = context.prefix.fermata()?;
    match family {
        Family::OpenMpi => guarded::guard_helpers(&mut command, &fermata, start, record, job),
        Family::Mpich => guarded::guard_proxies(&mut command, &fermata, start, job),
    }
    let stdin = give_stdin(&mut command, record, family, restore.is_some());
    let rank = rank_words(context, record, job, restore, stdin)?;
    let programs = each_program(&record.programs, &record.argv, record.size);
    for (i, program) in programs.iter().enumerate() {
        if i > 0 {
            command.arg(":");
        }
        command.args(template.iter().map(|arg| arg.replace("{n}", &program.ranks.to_string())));
        // Open MPI's wants the hosts for each program, MPICH's once.
        if let Some(hosts) = hosts.as_ref().filter(|_| i == 0 || family == Family::OpenMpi) {
            hosts.give_to(&mut command, family);
        }
        if i == 0 {
            command.args(&start.mpirun_args);
            if start.survive {
                surviving::tell(&mut command, family);
            }
            let here = hosts.as_ref().map_or(record.size, Hosts::most_ranks);
            settle_open_mpi(&mut command, family, start, here);
        }
        environment::hand_over(&mut command, family, start.spans_hosts());
        guarded::hand_over(&mut command, family, start);
        if let Some(secret) = secret {
            hosts::hand_over(&mut command, family, Secret::VARIABLE, secret);
        }
        command.args(&rank).arg("--").args(&program.argv);
    }
    Ok(command)
}

/// mpirun that starts a program of Fermata's on each of these hosts, which is none of MPI.
///
/// # Errors
/// There is no mpirun.
pub fn helpers(
    context: &LaunchContext,
    hosts: &Hosts,
    secret: &str,
    words: &[OsString],
) -> Result<Command> {
    let LaunchContext { lower, start, .. } = context;
    let (mut command, template) = begin(context)?;
    let count = hosts.all().len().to_string();
    command.args(template.iter().map(|arg| arg.replace("{n}", &count)));
    hosts.give_to(&mut command, lower.family);
    command.args(&start.mpirun_args);
    settle_open_mpi(&mut command, lower.family, start, 1);
    environment::hand_over(&mut command, lower.family, true);
    hosts::hand_over(&mut command, lower.family, Secret::VARIABLE, secret);
    command.arg(context.prefix.fermata()?).args(words);
    Ok(command)
}

/// What Open MPI's mpirun is told in any case. `here`: the most ranks of a host.
fn settle_open_mpi(command: &mut Command, family: Family, start: &Start, here: u32) {
    if family != Family::OpenMpi {
        return;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let crowded = here as usize > cores;
    command.arg("--oversubscribe");
    command.env("OMPI_MCA_mpi_yield_when_idle", if crowded { "1" } else { "0" });
    if fermata_sysio::effective_uid() == 0 {
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    if start.is_begun_again || !start.save_on.is_empty() {
        grace::give_none(command, &start.mpirun_args);
    }
}

/// What mpirun starts as each rank, up to the program.
fn rank_words(
    context: &LaunchContext,
    record: &JobRecord,
    job: &JobDir,
    restore: Option<&Restore>,
    stdin: Option<String>,
) -> Result<Vec<OsString>> {
    let start = context.start;
    let mut words = vec![context.prefix.fermata()?.into_os_string()];
    let mut add = |option: &[&str]| words.extend(option.iter().map(OsString::from));
    add(&["exec", "--mpi", &record.lower, "--front", &record.front]);
    add(&["--name", &record.job, "--socket", &record.socket]);
    add(&["--collectives", &start.collectives]);
    if let Some(which) = kept::chosen(start.save_files.which.as_deref())? {
        add(&["--save-files", &kept::text_of(&which)]);
        add(&["--files-limit", &start.save_files.limit.to_string()]);
    }
    if start.encrypt {
        add(&["--encrypt"]);
    }
    if start.survive {
        add(&["--survive"]);
    }
    if start.levels.is_some() {
        add(&["--store", &record.store()]);
        start.behind.words().iter().for_each(|word| add(&[word]));
    }
    if !record.addresses.is_empty() {
        let found_at = format!("{},{}", record.host, record.addresses.join(","));
        add(&["--coordinator", &found_at]);
    }
    if let Some(restore) = restore {
        add(&["--files", restore.files.name(), "--settled", &host_name()]);
        restore.moves.arguments().for_each(|[option, text]| add(&[&option, &text]));
    }
    if let Some(stdin) = stdin {
        add(&["--stdin", &stdin]);
    }
    let paths = [
        ("--job-dir", Some(job.path())),
        ("--local-dir", start.local_dir.as_deref()),
        ("--restore", restore.map(|restore| restore.snapshot.as_path())),
    ];
    for (option, path) in paths.iter().filter_map(|(option, path)| Some((option, (*path)?))) {
        words.extend([OsString::from(option), path.as_os_str().to_owned()]);
    }
    Ok(words)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use fermata_policy::signals::SaveOn;
    use fermata_types::ProgramRecord;
    use std::path::Path;

    fn lower(family: Family) -> Lower {
        Lower {
            name: "some".into(),
            family,
            version: String::new(),
            mpirun: vec!["/opt/bin/mpirun".into(), "-n".into(), "{n}".into()],
            mpicc: String::new(),
            env: [(environment::LIBRARY_PATH.to_owned(), "/opt/lib".to_owned())].into(),
        }
    }

    /// The command of two programs, three ranks and one rank.
    fn two_programs(family: Family, hosts: Option<&[String]>, secret: Option<&str>) -> Command {
        let start = Start { hosts: hosts.unwrap_or_default().to_vec(), ..Start::default() };
        started(family, &start, secret)
    }

    fn started(family: Family, start: &Start, secret: Option<&str>) -> Command {
        let program = |ranks, name: &str| ProgramRecord { ranks, argv: vec![name.into()] };
        let record = JobRecord {
            job: "melt".into(),
            programs: vec![program(3, "/bin/a"), program(1, "/bin/b")],
            size: 4,
            ..JobRecord::default()
        };
        let hosts = Hosts::from(&start.hosts, None, record.size).unwrap();
        let (prefix, lower) = (Prefix::find().unwrap(), lower(family));
        let context = LaunchContext { prefix: &prefix, lower: &lower, start, hosts };
        let job = JobDir::new(Path::new("/jobs"), "work");
        command(&context, &record, secret, &job, None).unwrap()
    }

    fn words(command: &Command) -> Vec<String> {
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    fn count(words: &[String], word: &str) -> usize {
        words.iter().filter(|other| *other == word).count()
    }

    fn value<'a>(command: &'a Command, name: &str) -> Option<&'a str> {
        command.get_envs().find(|(key, _)| *key == name)?.1?.to_str()
    }

    #[test]
    fn each_program_has_its_own_number_of_ranks_and_the_same_words_before_it() {
        for family in [Family::OpenMpi, Family::Mpich] {
            let words = words(&two_programs(family, None, None));
            let parts: Vec<&[String]> = words.split(|word| word == ":").collect();
            assert_eq!(parts.len(), 2, "{words:?}");
            for (part, (ranks, program)) in parts.iter().zip([("3", "/bin/a"), ("1", "/bin/b")]) {
                assert_eq!(part[..2], ["-n", ranks], "{words:?}");
                assert_eq!(part[part.len() - 2..], ["--", program], "{words:?}");
                assert!(part.contains(&"exec".to_owned()), "{words:?}");
            }
        }
    }

    #[test]
    fn ranks_that_may_die_are_told_of_in_the_familys_way() {
        for (family, word) in
            [(Family::OpenMpi, "--enable-recovery"), (Family::Mpich, "-disable-auto-cleanup")]
        {
            assert_eq!(count(&words(&two_programs(family, None, None)), word), 0);
            let start = Start { survive: true, ..Start::default() };
            let command = started(family, &start, None);
            let asks = value(&command, "OMPI_MCA_oob_tcp_keepalive_time");
            assert_eq!(asks, (family == Family::OpenMpi).then_some("0"), "for silent hosts");
            let words = words(&command);
            assert_eq!((count(&words, word), count(&words, "--survive")), (1, 2), "{words:?}");
        }
    }

    #[test]
    fn each_family_hears_of_the_hosts_in_its_own_way() {
        let hosts = ["a:2".to_owned(), "b:2".to_owned()];
        let open_mpi = words(&two_programs(Family::OpenMpi, Some(&hosts), None));
        assert_eq!((count(&open_mpi, "--host"), count(&open_mpi, "a:2,b:2")), (2, 2));
        let mpich = words(&two_programs(Family::Mpich, Some(&hosts), None));
        assert_eq!((count(&mpich, "-hosts"), count(&mpich, "a:2,b:2")), (1, 1));
    }

    #[test]
    fn others_get_no_second_where_ranks_are_begun_again_or_saved_by_a_signal() {
        let grace = "odls_base_sigkill_timeout";
        for (family, is_begun_again, save_on, wanted) in [
            (Family::OpenMpi, true, "none", Some("0")),
            (Family::OpenMpi, false, "TERM", Some("0")),
            (Family::OpenMpi, false, "none", None),
            (Family::Mpich, true, "TERM", None),
        ] {
            let save_on = SaveOn::parse(save_on).unwrap();
            let start = Start { is_begun_again, save_on, ..Start::default() };
            let command = started(family, &start, None);
            for prefix in ["OMPI_MCA_", "PRTE_MCA_"] {
                assert_eq!(value(&command, &format!("{prefix}{grace}")), wanted, "{family:?}");
            }
        }
        let mpirun_args = ["--mca", grace, "3"].map(str::to_owned).to_vec();
        let own = Start { is_begun_again: true, mpirun_args, ..Start::default() };
        let command = started(Family::OpenMpi, &own, None);
        assert_eq!(value(&command, &format!("OMPI_MCA_{grace}")), None);
    }

    #[test]
    fn no_command_line_shows_the_secret() {
        for family in [Family::OpenMpi, Family::Mpich] {
            let with = two_programs(family, None, Some("s3cret"));
            assert_eq!(value(&with, Secret::VARIABLE), Some("s3cret"));
            assert!(!words(&with).iter().any(|said| said.contains("s3cret")), "{with:?}");
            let without = two_programs(family, None, None);
            assert_eq!(value(&without, Secret::VARIABLE), None);
        }
    }

    #[test]
    fn mpirun_finds_the_libraries_of_its_own_mpi() {
        let command = two_programs(Family::Mpich, None, None);
        assert_eq!(command.get_program(), "/opt/bin/mpirun");
        assert_eq!(value(&command, environment::LIBRARY_PATH), Some("/opt/lib"));
    }
}
