// SPDX-License-Identifier: Apache-2.0
//! Our own part of the program that a rank runs: the front end, which an image names by its path
//! and build-id like any library. It is kept with the job, so that snapshots outlive an upgrade of
//! Fermata, its removal to another place, and one that is installed elsewhere on another host.

use crate::moved::{Images, Move, Moves};
use crate::registry::Prefix;
use crate::report::report;
use anyhow::{Context, Result};
use fermata_storage::{JobDir, Whose, build_id, copy_mapped, create_own, open_file};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where front ends are, below a prefix.
pub const FRONTS: &str = "/lib/fermata/front/";
/// In a job's directory: front ends, by their build-id.
const KEPT: &str = "parts";

fn place(job: &JobDir, id: &str) -> PathBuf {
    job.path().join(KEPT).join(id)
}

/// Under a name of its own first: a run that is killed leaves no half of a file.
fn copy(job: &JobDir, from: &Path, to: &Path) -> Result<()> {
    let made = job.via(&to.with_extension(std::process::id().to_string()));
    fs::create_dir_all(job.via(to.parent().unwrap_or(Path::new("."))))
        .and_then(|()| copy_mapped(from, &mut create_own(&made)?))
        .and_then(|()| fs::rename(&made, job.via(to)))
        .inspect_err(|_| _ = fs::remove_file(&made))
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Keeps the libraries of a front end with a job. A job runs without them as well.
pub fn keep(prefix: &Prefix, job: &JobDir, front: &str) {
    let Ok(entries) = fs::read_dir(prefix.front(front)) else { return };
    for from in entries.flatten().map(|entry| entry.path()) {
        if let Some(id) = build_id(&from).ok().filter(|id| !id.is_empty()) {
            keep_one(job, &from, &id);
        }
    }
}

fn keep_one(job: &JobDir, from: &Path, id: &str) {
    let to = place(job, id);
    if to.exists() {
        return;
    }
    if let Err(why) = copy(job, from, &to) {
        report(format_args!("{why:#}\n  hint: snapshots need this very Fermata then"));
    }
}

fn has_id(path: &Path, id: &str) -> bool {
    build_id(path).is_ok_and(|found| found == id)
}

/// Where the front ends of these images are that are not where they were: in this installation, or
/// with the job. Those that are nowhere are left out.
fn moves(prefix: &Prefix, jobs: &[&JobDir], images: &Images) -> Vec<Move> {
    let now = |path: &str, id: &str| {
        let ours = path.rsplit_once(FRONTS).map(|(_, name)| prefix.front(name));
        // It is code that will run.
        let own = |path: &PathBuf| open_file(path, Whose::Own(None)).is_ok();
        let kept = jobs.iter().map(|job| place(job, id)).filter(own);
        ours.into_iter().chain(kept).find(|candidate| has_id(candidate, id))
    };
    wanted(images)
        .iter()
        .filter(|(path, id)| !has_id(Path::new(&images.moves.path(path)), id))
        .filter_map(|(path, id)| Some(Move::of_file(path, &now(path, id)?)))
        .collect()
}

/// The front ends of these images: the path that each had, and its build-id.
fn wanted(images: &Images) -> BTreeSet<(String, String)> {
    let mut wanted = BTreeSet::new();
    for (_, image) in images.open() {
        for region in image.regions.iter().filter(|region| region.build_id_string != 0) {
            let path = image.string(region.path_string);
            let is_kept = Path::new(&path).parent().is_some_and(|above| above.ends_with(KEPT));
            if path.contains(FRONTS) || is_kept {
                wanted.insert((path, image.string(region.build_id_string)));
            }
        }
    }
    wanted
}

/// These images, with their front ends where they are now: in this installation or with one of
/// these jobs.
pub fn found<'a>(
    prefix: &Prefix,
    jobs: impl IntoIterator<Item = &'a JobDir>,
    mut images: Images,
) -> Images {
    let own = moves(prefix, &jobs.into_iter().collect::<Vec<_>>(), &images);
    images.moves = Moves::of([images.moves.all(), &own].concat());
    images
}

/// Keeps the front ends of these images, which have been found, with a job: those that it has from
/// another one, or from a Fermata that was installed before.
pub fn adopt(job: &JobDir, images: &Images) {
    for (path, id) in wanted(images) {
        let from = images.moves.path(&path);
        if has_id(Path::new(&from), &id) {
            keep_one(job, Path::new(&from), &id);
        }
    }
}
