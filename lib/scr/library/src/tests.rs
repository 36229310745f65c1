// SPDX-License-Identifier: Apache-2.0
//! Whole runs of ranks on hosts, which lose files, hosts and each other's opinion.

use crate::comm::Comm;
use crate::library::{Outcome, Scr};
use crate::problem::Problem;
use crate::testbed::{Cluster, Local};
use proptest::prelude::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const CHECKPOINT: i32 = 1;
const OUTPUT: i32 = 2;
const FOUR: [&str; 4] = ["a", "b", "c", "d"];
const EIGHT: [&str; 8] = ["a", "a", "b", "b", "c", "c", "d", "d"];

/// What a rank writes: of another length each, and rank 1 writes nothing.
fn text(rank: u32, step: u32) -> Vec<Vec<u8>> {
    if rank == 1 {
        return Vec::new();
    }
    let of = |file: u32| {
        let length = 1000 * (rank + 1) + file * 300_000 * (rank % 3);
        (0..length).map(|at| (at * 7 + rank * 31 + step + file).to_le_bytes()[0]).collect()
    };
    vec![of(0), of(1)]
}

fn name(rank: u32, step: u32, file: usize) -> String {
    format!("ckpt.{step}/rank_{rank}.{file}")
}

fn rank(scr: &Scr<Local>) -> u32 {
    scr.team.comm().rank()
}

fn save_with(
    scr: &mut Scr<Local>,
    step: u32,
    flags: i32,
    is_valid: bool,
) -> Result<Outcome, Problem> {
    let me = rank(scr);
    scr.start_output(Some(&format!("ckpt.{step}")), flags)?;
    for (file, text) in text(me, step).iter().enumerate() {
        let cwd = scr.prefix.root().to_path_buf();
        let path = scr.route_file(&name(me, step, file), &cwd)?;
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o664)).unwrap(); // as of umask 002
    }
    scr.complete_output(is_valid)
}

fn save(scr: &mut Scr<Local>, step: u32, flags: i32) {
    assert_eq!(save_with(scr, step, flags, true).unwrap(), Outcome::Continue);
}

/// Reads what there is; its step, and whether it is what was written.
fn load(scr: &mut Scr<Local>) -> Option<(u32, bool)> {
    let found = scr.have_restart().unwrap()?.to_owned();
    assert_eq!(scr.start_restart().unwrap(), found);
    let step = found.strip_prefix("ckpt.").unwrap().parse().unwrap();
    let me = rank(scr);
    let cwd = scr.prefix.root().to_path_buf();
    let is_whole = text(me, step).iter().enumerate().all(|(file, text)| {
        let path = scr.route_file(&name(me, step, file), &cwd).unwrap();
        fs::read(path).unwrap() == *text
    });
    Some((step, is_whole))
}

fn loaded(scr: &mut Scr<Local>) -> Option<u32> {
    let (step, is_whole) = load(scr)?;
    assert!(is_whole, "rank {} of ckpt.{step}", rank(scr));
    scr.complete_restart(true).unwrap();
    Some(step)
}

/// A run that saves these steps and ends without a word.
fn saved(cluster: &Cluster, hosts: &[&str], keys: &[(&str, &str)], steps: &'static [u32]) {
    cluster.run(hosts, keys, |mut scr, _| {
        loaded(&mut scr);
        steps.iter().for_each(|step| save(&mut scr, *step, CHECKPOINT));
    });
}

fn found(cluster: &Cluster, hosts: &[&str], keys: &[(&str, &str)]) -> Vec<Option<u32>> {
    cluster.run(hosts, keys, |mut scr, _| loaded(&mut scr))
}

/// Without what goes to the prefix directory.
fn scheme(copy_type: &'static str) -> [(&'static str, &'static str); 3] {
    [("SCR_COPY_TYPE", copy_type), ("SCR_FLUSH", "0"), ("SCR_CACHE_SIZE", "2")]
}

#[test]
fn what_was_saved_is_found() {
    for of in ["SINGLE", "PARTNER", "XOR", "RS"] {
        let cluster = Cluster::new("found");
        saved(&cluster, &EIGHT, &scheme(of), &[1, 2, 3]);
        assert_eq!(found(&cluster, &EIGHT, &scheme(of)), [Some(3); 8], "{of}");
        assert!(!cluster.cached("a", 1).exists(), "the oldest goes");
        assert!(cluster.cached("a", 2).exists());
    }
}

#[test]
fn one_rank_saves_itself() {
    let cluster = Cluster::new("one");
    saved(&cluster, &["a"], &scheme("XOR"), &[1]);
    assert_eq!(found(&cluster, &["a"], &scheme("XOR")), [Some(1)]);
}

#[test]
fn a_lost_host_is_rebuilt_on_another_one_and_so_is_the_next() {
    for (of, lost) in [("PARTNER", 1), ("XOR", 1), ("RS", 2)] {
        let cluster = Cluster::new("lost");
        saved(&cluster, &EIGHT, &scheme(of), &[1, 2]);
        let mut hosts = EIGHT;
        for (round, spare) in [["e", "f"], ["g", "h"], ["i", "j"]].iter().enumerate() {
            for (at, spare) in (0..lost).zip(spare) {
                let first = (round * 2 + at * 2) % hosts.len();
                cluster.lose(hosts[first]);
                (hosts[first], hosts[first + 1]) = (spare, spare);
            }
            assert_eq!(found(&cluster, &hosts, &scheme(of)), [Some(2); 8], "{of} {hosts:?}");
        }
    }
}

#[test]
fn more_than_a_set_bears_is_fetched_from_the_prefix_directory() {
    for (of, lost) in [("SINGLE", 1), ("XOR", 2), ("RS", 3)] {
        let cluster = Cluster::new("fetched");
        let keys = [("SCR_COPY_TYPE", of), ("SCR_FLUSH", "2"), ("SCR_CACHE_SIZE", "2")];
        saved(&cluster, &FOUR, &keys, &[1, 2, 3]);
        FOUR[..lost].iter().for_each(|host| cluster.lose(host));
        assert_eq!(found(&cluster, &FOUR, &keys), [Some(2); 4], "{of}");
        // It is in the caches again.
        fs::rename(cluster.prefix().join("ckpt.2"), cluster.prefix().join("moved")).unwrap();
        assert_eq!(found(&cluster, &FOUR, &keys), [Some(2); 4], "{of}");
    }
}

#[test]
fn ranks_that_change_places_find_their_files() {
    let cluster = Cluster::new("moved");
    saved(&cluster, &EIGHT, &scheme("XOR"), &[1]);
    let mut hosts = EIGHT;
    hosts.reverse();
    assert_eq!(found(&cluster, &hosts, &scheme("XOR")), [Some(1); 8]);
    hosts.swap(0, 7);
    cluster.lose("b");
    (hosts[4], hosts[5]) = ("b", "b");
    assert_eq!(found(&cluster, &hosts, &scheme("XOR")), [Some(1); 8]);
}

fn change(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_changed_or_missing_file_is_rebuilt() {
    for of in ["PARTNER", "XOR", "RS"] {
        let cluster = Cluster::new("changed");
        saved(&cluster, &FOUR, &scheme(of), &[1]);
        change(&cluster.cached("c", 1).join("rank_2/rank_2.1"));
        assert_eq!(found(&cluster, &FOUR, &scheme(of)), [Some(1); 4], "{of}");
        fs::remove_file(cluster.cached("a", 1).join("rank_0/rank_0.0")).unwrap();
        assert_eq!(found(&cluster, &FOUR, &scheme(of)), [Some(1); 4], "{of}");
    }
}

#[test]
fn what_cannot_be_rebuilt_gives_way_to_the_one_before() {
    let cluster = Cluster::new("before");
    saved(&cluster, &FOUR, &scheme("XOR"), &[1, 2]);
    change(&cluster.cached("c", 2).join("rank_2/rank_2.1"));
    change(&cluster.cached("a", 2).join("rank_0/rank_0.0"));
    assert_eq!(found(&cluster, &FOUR, &scheme("XOR")), [Some(1); 4]);
    assert!(!cluster.cached("b", 2).exists(), "what is newer goes");
}

#[test]
fn changed_parities_count_as_lost() {
    let cluster = Cluster::new("parities");
    saved(&cluster, &FOUR, &scheme("XOR"), &[1, 2]);
    let meta = cluster.cached("a", 2).join("meta_0");
    let names = fs::read_dir(&meta).unwrap().map(|entry| entry.unwrap().path());
    let is_parities = |path: &std::path::PathBuf| path.to_str().unwrap().contains("parities");
    change(&names.into_iter().find(is_parities).unwrap());
    fs::remove_file(cluster.cached("c", 2).join("rank_2/rank_2.1")).unwrap();
    assert_eq!(found(&cluster, &FOUR, &scheme("XOR")), [Some(1); 4]);
}

#[test]
fn what_the_program_refuses_is_not_offered_again() {
    let cluster = Cluster::new("refused");
    let keys = [("SCR_FLUSH", "1"), ("SCR_CACHE_SIZE", "2")];
    saved(&cluster, &FOUR, &keys, &[1, 2, 3]);
    let steps = cluster.run(&FOUR, &keys, |mut scr, _| {
        let mut steps = Vec::new();
        while let Some((step, is_whole)) = load(&mut scr) {
            assert!(is_whole);
            steps.push(step);
            let is_valid = step == 1 || rank(&scr) != 3;
            if scr.complete_restart(is_valid).is_ok() {
                break;
            }
        }
        save(&mut scr, 9, CHECKPOINT);
        steps
    });
    assert_eq!(steps, vec![vec![3, 2, 1]; 4]);
    assert_eq!(found(&cluster, &FOUR, &keys), [Some(9); 4]);
}

#[test]
fn an_output_that_is_not_valid_everywhere_is_none() {
    let cluster = Cluster::new("invalid");
    cluster.run(&FOUR, &scheme("XOR"), |mut scr, _| {
        save(&mut scr, 1, CHECKPOINT);
        let is_valid = rank(&scr) != 2;
        assert!(save_with(&mut scr, 2, CHECKPOINT, is_valid).is_err());
    });
    assert_eq!(found(&cluster, &FOUR, &scheme("XOR")), [Some(1); 4]);
}

#[test]
fn a_file_that_was_not_written_makes_it_invalid() {
    let cluster = Cluster::new("unwritten");
    cluster.run(&FOUR, &scheme("XOR"), |mut scr, _| {
        scr.start_output(None, CHECKPOINT).unwrap();
        let cwd = scr.prefix.root().to_path_buf();
        if rank(&scr) == 3 {
            scr.route_file("nothing", &cwd).unwrap();
        }
        assert!(scr.complete_output(true).is_err());
        assert!(scr.have_restart().unwrap().is_none());
    });
}

#[test]
fn files_are_written_to_the_prefix_directory_if_the_cache_is_bypassed() {
    let cluster = Cluster::new("bypassed");
    let keys = [("SCR_CACHE_BYPASS", "1"), ("SCR_PREFIX_SIZE", "2")];
    saved(&cluster, &FOUR, &keys, &[1, 2, 3]);
    assert!(cluster.prefix().join("ckpt.3/rank_0.0").exists());
    assert!(!cluster.prefix().join("ckpt.1").exists(), "the window has two");
    assert_eq!(found(&cluster, &FOUR, &keys), [Some(3); 4]);
    fs::write(cluster.prefix().join("ckpt.3/rank_2.1"), "short").unwrap();
    assert_eq!(found(&cluster, &FOUR, &keys), [Some(2); 4]);
    assert!(!cluster.scratch.0.join("hosts/a/ann").exists(), "no cache is made");
}

#[test]
fn outputs_reach_the_prefix_directory_and_leave_the_cache() {
    let cluster = Cluster::new("outputs");
    cluster.run(&FOUR, &scheme("XOR"), |mut scr, _| {
        save(&mut scr, 1, OUTPUT);
        save(&mut scr, 2, OUTPUT | CHECKPOINT);
        save(&mut scr, 3, CHECKPOINT);
    });
    let there = |step| cluster.prefix().join(format!("ckpt.{step}")).exists();
    assert_eq!([1, 2, 3].map(there), [true, true, false]);
    assert!(!cluster.cached("a", 1).exists() && cluster.cached("a", 2).exists());
    FOUR.iter().for_each(|host| cluster.lose(host));
    assert_eq!(found(&cluster, &FOUR, &scheme("XOR")), [Some(2); 4]);
}

#[test]
fn a_name_that_is_written_again_is_one_dataset() {
    for bypass in ["0", "1"] {
        let cluster = Cluster::new("again");
        let keys = [("SCR_FLUSH", "1"), ("SCR_CACHE_BYPASS", bypass)];
        saved(&cluster, &FOUR, &keys, &[1, 2]);
        let mut back = keys.to_vec();
        back.push(("SCR_CURRENT", "ckpt.1"));
        cluster.run(&FOUR, &back, |mut scr, _| {
            assert_eq!(loaded(&mut scr), Some(1));
            // It ends in the middle of writing files that were there before.
            scr.start_output(Some("ckpt.2"), CHECKPOINT).unwrap();
        });
        let hidden = fs::read_dir(cluster.prefix().join(".scr")).unwrap();
        let summaries = hidden.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
        assert_eq!(summaries, if bypass == "1" { 1 } else { 2 });
        saved(&cluster, &FOUR, &back, &[2]);
        let hidden = fs::read_dir(cluster.prefix().join(".scr")).unwrap();
        assert_eq!(hidden.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count(), 2);
        assert_eq!(found(&cluster, &FOUR, &keys), [Some(2); 4]);
    }
}

#[test]
fn what_is_fetched_has_to_be_what_it_was() {
    let cluster = Cluster::new("corrupt");
    let keys = [("SCR_FLUSH", "1"), ("SCR_CACHE_SIZE", "1")];
    saved(&cluster, &FOUR, &keys, &[1, 2]);
    FOUR.iter().for_each(|host| cluster.lose(host));
    change(&cluster.prefix().join("ckpt.2/rank_3.0"));
    assert_eq!(found(&cluster, &FOUR, &keys), [Some(1); 4]);
}

#[test]
fn datasets_are_named_deleted_and_dropped() {
    let cluster = Cluster::new("named");
    let keys = [("SCR_FLUSH", "1"), ("SCR_CACHE_SIZE", "3")];
    saved(&cluster, &FOUR, &keys, &[1, 2, 3, 4]);
    let began_with = |name: &'static str| {
        let keys = [("SCR_FLUSH", "1"), ("SCR_CACHE_SIZE", "3"), ("SCR_CURRENT", name)];
        found(&cluster, &FOUR, &keys)
    };
    assert_eq!(began_with("ckpt.9"), [Some(4); 4], "there is none of this name");
    assert_eq!(began_with("ckpt.3"), [Some(3); 4]);
    cluster.run(&FOUR, &keys, |mut scr, _| {
        scr.current("ckpt.2").unwrap();
        assert_eq!(loaded(&mut scr), Some(2));
        assert!(scr.current("ckpt.9").is_err());
        scr.drop_entry("ckpt.4").unwrap();
        assert!(scr.drop_entry("ckpt.4").is_err());
        scr.delete("ckpt.2").unwrap();
        assert!(scr.delete("ckpt.2").is_err());
    });
    let there = |step| cluster.prefix().join(format!("ckpt.{step}")).exists();
    assert_eq!([2, 3, 4].map(there), [false, true, true]);
    assert_eq!(found(&cluster, &FOUR, &keys), [Some(1); 4]);
}

#[test]
fn the_halt_file_ends_a_job() {
    let cluster = Cluster::new("halt");
    let halt = cluster.prefix().join(".scr/halt.scr");
    fs::create_dir(cluster.prefix().join(".scr")).unwrap();
    fs::write(&halt, "CheckpointsLeft=2\n").unwrap();
    cluster.run(&FOUR, &scheme("XOR"), |mut scr, _| {
        save(&mut scr, 1, CHECKPOINT);
        assert!(!scr.should_exit().unwrap());
        save(&mut scr, 2, CHECKPOINT);
        assert!(scr.should_exit().unwrap() && scr.need_checkpoint().unwrap());
    });
    let exits = [("SCR_HALT_EXIT", "1"), ("SCR_FLUSH", "5")];
    let outcomes = cluster.run(&FOUR, &exits, |_, outcome| outcome);
    assert_eq!(outcomes, [Outcome::Exit; 4]);
    assert!(cluster.prefix().join("ckpt.2").exists(), "it is copied before the end");
    fs::write(&halt, "CheckpointsLeft=1\n").unwrap();
    cluster.run(&FOUR, &exits, |mut scr, outcome| {
        assert_eq!(outcome, Outcome::Continue);
        assert_eq!(save_with(&mut scr, 3, CHECKPOINT, true).unwrap(), Outcome::Exit);
    });
    assert_eq!(fs::read_to_string(&halt).unwrap(), "CheckpointsLeft=0\n");
    fs::remove_file(&halt).unwrap();
    cluster.run(&FOUR, &scheme("XOR"), |mut scr, _| {
        assert!(!scr.should_exit().unwrap());
        scr.finalize().unwrap();
        assert!(scr.start_output(None, CHECKPOINT).is_err());
    });
    assert_eq!(fs::read_to_string(&halt).unwrap(), "ExitReason=SCR_FINALIZE_CALLED\n");
    let wrong = cluster.try_run(&FOUR, &scheme("XOR"), |begun| begun.is_ok());
    assert_eq!(wrong, [true; 4]);
    fs::write(&halt, "Exit=now\n").unwrap();
    assert_eq!(cluster.try_run(&FOUR, &scheme("XOR"), |begun| begun.is_ok()), [false; 4]);
}

#[test]
fn the_end_of_a_job_copies_what_is_only_in_the_cache() {
    let cluster = Cluster::new("end");
    cluster.run(&FOUR, &[("SCR_FLUSH", "10")], |mut scr, _| {
        save(&mut scr, 1, CHECKPOINT);
        scr.finalize().unwrap();
    });
    FOUR.iter().for_each(|host| cluster.lose(host));
    assert_eq!(found(&cluster, &FOUR, &[]), [Some(1); 4]);
}

#[test]
fn all_files_are_read_from_the_prefix_directory_if_they_are_shared() {
    let cluster = Cluster::new("global");
    saved(&cluster, &FOUR, &scheme("XOR"), &[1]);
    let keys = [("SCR_FLUSH", "0"), ("SCR_GLOBAL_RESTART", "1")];
    cluster.run(&FOUR, &keys, |mut scr, _| {
        scr.start_restart().unwrap();
        let cwd = scr.prefix.root().to_path_buf();
        let path = scr.route_file("ckpt.1/rank_0.0", &cwd).unwrap();
        assert_eq!(fs::read(path).unwrap(), text(0, 1)[0]);
        scr.complete_restart(true).unwrap();
    });
}

#[test]
fn calls_that_make_no_sense_are_refused_everywhere() {
    let cluster = Cluster::new("refuse");
    cluster.run(&FOUR, &scheme("XOR"), |mut scr, _| {
        let cwd = scr.prefix.root().to_path_buf();
        let why = |result: Result<(), Problem>| result.unwrap_err().to_string();
        assert!(why(scr.start_restart().map(drop)).contains("no checkpoint"));
        assert!(why(scr.start_output(Some("x"), 4)).contains("no flags 4"));
        assert!(why(scr.start_output(Some(""), 1)).contains("1 to 1023 bytes"));
        let own = format!("ckpt.{}", rank(&scr));
        assert!(why(scr.start_output(Some(&own), 1)).contains("not the same"));
        scr.start_output(Some("x"), 1).unwrap();
        assert!(why(scr.start_output(Some("y"), 1)).contains("not complete"));
        assert!(why(scr.route_file("/elsewhere/f", &cwd).map(drop)).contains("is not below"));
        scr.route_file("one/f", &cwd).unwrap();
        assert!(why(scr.route_file("two/f", &cwd).map(drop)).contains("have the same name"));
        assert!(scr.complete_output(false).is_err());
        assert_eq!(scr.route_file("any/thing", &cwd).unwrap(), Path::new("any/thing"));
    });
    let bad = cluster.try_run(&FOUR, &[("SCR_FLUSH", "often")], |begun| match begun {
        Ok(_) => String::new(),
        Err(problem) => problem.to_string(),
    });
    assert_eq!(bad, vec!["SCR_FLUSH=often: it takes a number"; 4]);
}

#[test]
fn a_job_of_another_size_begins_anew() {
    let cluster = Cluster::new("size");
    let keys = [("SCR_FLUSH", "1")];
    saved(&cluster, &FOUR, &keys, &[1]);
    assert_eq!(found(&cluster, &["a", "b"], &keys), [None; 2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Ranks anywhere, hosts lost, ranks elsewhere: what is offered is what was written, and it is
    /// the newest wherever a set bears the loss.
    #[test]
    fn what_is_offered_is_what_was_written(
        before in proptest::collection::vec(0_usize..5, 2..9),
        after in proptest::collection::vec(0_usize..7, 9),
        lost in proptest::collection::btree_set(0_usize..5, 0..3),
        of in prop_oneof![Just("SINGLE"), Just("PARTNER"), Just("XOR"), Just("RS")],
        changed in any::<bool>(),
    ) {
        const HOSTS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
        let cluster = Cluster::new("drawn");
        let keys = [("SCR_COPY_TYPE", of), ("SCR_FLUSH", "2"), ("SCR_CACHE_SIZE", "2")];
        let hosts: Vec<&str> = before.iter().map(|host| HOSTS[*host]).collect();
        saved(&cluster, &hosts, &keys, &[1, 2, 3]);
        if changed {
            change(&cluster.cached(hosts[0], 3).join("rank_0/rank_0.0"));
        }
        let is_used = |host: &&usize| before.contains(host);
        let lost: Vec<usize> = lost.iter().filter(is_used).copied().collect();
        lost.iter().for_each(|host| cluster.lose(HOSTS[*host]));
        let hosts: Vec<&str> = after[..before.len()].iter().map(|host| HOSTS[*host]).collect();
        // Whoever is on no host of before has it still, where nobody looks.
        let is_seen = |host: &usize| after[..before.len()].contains(host) || lost.contains(host);
        let steps = found(&cluster, &hosts, &keys);
        prop_assert!(steps.iter().all(|step| step.is_some() && *step == steps[0]));
        if lost.is_empty() && !changed && before.iter().all(is_seen) {
            prop_assert_eq!(steps[0], Some(3));
        }
        prop_assert_eq!(found(&cluster, &hosts, &keys), steps);
    }
}
