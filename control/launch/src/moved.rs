// SPDX-License-Identifier: Apache-2.0
//! Directories that have moved since the snapshot: `restart --map OLD=NEW`. Images hold absolute
//! paths, of the program, its libraries, its files and its working directory.

use crate::key;
use fermata_storage::{Image, image_name};
use fermata_types::Manifest;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Where directories, or files, are now. Of several that fit a path the longest holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves(Vec<Move>);

/// One `OLD=NEW`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// What is mapped, as it was given: absolute, without a slash at its end.
    pub from: String,
    /// The same by its real name, which images have.
    real: String,
    /// Where it is now.
    pub to: String,
}

/// The path without `.`, `..` and doubled slashes, and without a slash at its end; `/` is "".
fn plain(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    plain.to_string_lossy().trim_end_matches('/').to_owned()
}

/// As many links as the kernel follows in a path.
const LINKS_MAX: u32 = 40;

/// A path that may be no more, by the real name of what is left of the directories above it, and by
/// where a link among its parts led that leads nowhere now. An image has the names that the kernel
/// knows, which are without links.
fn by_real_name(path: &Path, links: u32) -> PathBuf {
    for above in path.ancestors().skip(1) {
        let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) else {
            continue;
        };
        let mut parts = rest.components();
        let gone = real.join(parts.next().map_or("".as_ref(), |part| part.as_os_str()));
        return match gone.read_link() {
            Ok(target) if links > 0 && !gone.exists() => {
                by_real_name(&real.join(target).join(parts.as_path()), links - 1)
            }
            _ => real.join(rest),
        };
    }
    path.to_owned()
}

/// What follows `start` in a path, if that is a whole number of its parts.
fn behind<'a>(path: &'a str, start: &str) -> Option<&'a str> {
    path.strip_prefix(start).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Move {
    /// An argument of `--map`.
    ///
    /// # Errors
    /// It is not of the form `OLD=NEW`, or OLD is no absolute path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = text
            .split_once('=')
            .filter(|(from, to)| !from.is_empty() && !to.is_empty())
            .ok_or_else(|| format!("'{text}' is not OLD=NEW"))?;
        let from = Path::new(from);
        if !from.is_absolute() {
            return Err(format!("'{}' is no absolute path, as it was saved", from.display()));
        }
        let to = std::path::absolute(to).map_err(|error| format!("'{to}': {error}"))?;
        Ok(Self { from: plain(from), real: plain(&by_real_name(from, LINKS_MAX)), to: plain(&to) })
    }

    /// Of a file, by the path that an image has.
    pub fn of_file(from: &str, to: &Path) -> Self {
        Self { from: from.into(), real: from.into(), to: to.to_string_lossy().into_owned() }
    }

    /// As it is written on a command line.
    pub fn text(&self) -> String {
        let slash = |path: &str| if path.is_empty() { "/".to_owned() } else { path.to_owned() };
        format!("{}={}", slash(&self.from), slash(&self.to))
    }

    /// The paths that it is about.
    fn names(&self) -> impl Iterator<Item = &str> {
        let real = Some(self.real.as_str()).filter(|real| *real != self.from);
        std::iter::once(self.from.as_str()).chain(real)
    }
}

impl Moves {
    /// These.
    pub fn of(moves: Vec<Move>) -> Self {
        Self(moves)
    }

    /// One by one.
    pub fn all(&self) -> &[Move] {
        &self.0
    }

    /// Nothing has moved.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every pair of names, what was and what is now.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|one| one.names().map(|name| (name, one.to.as_str())))
    }

    /// As they are written on a command line.
    pub fn arguments(&self) -> impl Iterator<Item = [String; 2]> + '_ {
        self.0.iter().map(|one| ["--map".into(), one.text()])
    }

    /// Each, and how many of these paths it is about.
    pub fn uses<'a>(
        &'a self,
        paths: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = (&'a Move, usize)> {
        self.0.iter().map(|one| {
            let fits = |path: &&String| one.names().any(|name| behind(path, name).is_some());
            (one, paths.iter().filter(fits).count())
        })
    }

    /// Where a path is now.
    pub fn path(&self, path: &str) -> String {
        let fitting = self.pairs().filter_map(|(from, to)| Some((from, to, behind(path, from)?)));
        match fitting.max_by_key(|(from, _, _)| from.len()) {
            Some(("", to, _)) if path.starts_with('/') => format!("{to}{path}"),
            Some((from, to, rest)) if !from.is_empty() => {
                let now = format!("{to}{rest}");
                if now.is_empty() { "/".into() } else { now }
            }
            _ => path.into(),
        }
    }
}

/// Images of a snapshot that can be read here, by rank. Without any the program saved itself.
#[derive(Clone, Debug, Default)]
pub struct Images {
    files: Vec<(u32, PathBuf)>,
    /// Where their paths are now.
    pub moves: Moves,
}

impl Images {
    /// All of a snapshot.
    pub fn of(snapshot: &Path, manifest: &Manifest, moves: Moves) -> Self {
        let place = |file: &String| snapshot.join(file);
        let files = manifest.images.iter().map(|image| (image.rank, place(&image.file))).collect();
        Self { files, moves }
    }

    /// One rank's.
    pub fn one(snapshot: &Path, rank: u32, moves: Moves) -> Self {
        Self { files: vec![(rank, snapshot.join(image_name(rank)))], moves }
    }

    /// Opens one after the other.
    pub fn open(&self) -> impl Iterator<Item = (u32, Image)> + '_ {
        let open = |(rank, path): &(u32, PathBuf)| {
            Image::open(path, key::own()).ok().map(|image| (*rank, image))
        };
        self.files.iter().filter_map(open)
    }

    /// Where a path of an image is now; "" if there is none at that offset.
    pub fn path(&self, image: &Image, offset: u32) -> String {
        self.moves.path(&image.string(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_arguments(texts: &[&str]) -> Moves {
        Moves::of(texts.iter().map(|text| Move::parse(text).unwrap()).collect())
    }

    #[test]
    fn whole_parts_of_a_path_move_and_the_longest_holds() {
        let moves = by_arguments(&["/gone/a=/b", "/gone/a/deep/=/c/", "/gone/x=/"]);
        assert_eq!(moves.path("/gone/a"), "/b");
        assert_eq!(moves.path("/gone/a/file"), "/b/file");
        assert_eq!(moves.path("/gone/ab"), "/gone/ab");
        assert_eq!(moves.path("/gone/a/deep/er"), "/c/er");
        assert_eq!(moves.path("/gone/x/y"), "/y");
        assert_eq!(moves.path("/gone/x"), "/");
        assert_eq!(moves.path(""), "");
        assert_eq!(moves.path("memfd:/gone/a"), "memfd:/gone/a");
    }

    #[test]
    fn the_root_may_move() {
        let moves = by_arguments(&["/=/mnt/old", "/gone=/new"]);
        assert_eq!(moves.path("/home/me"), "/mnt/old/home/me");
        assert_eq!(moves.path("/gone/b"), "/new/b");
        assert_eq!(moves.path(""), "");
        assert_eq!(moves.path("pipe:[7]"), "pipe:[7]");
    }

    #[test]
    fn uses_are_counted() {
        let moves = by_arguments(&["/gone/a=/b", "/gone/c=/d"]);
        let paths = ["/gone/a/b".to_owned(), "/gone/cc".to_owned()].into();
        assert_eq!(moves.uses(&paths).map(|(_, count)| count).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn arguments_are_absolute_and_two() {
        assert!(Move::parse("/a").is_err());
        assert!(Move::parse("a=/b").is_err());
        assert!(Move::parse("/a=").is_err());
        assert!(Move::parse("=/b").is_err());
        assert_eq!(Move::parse("/gone/./x/../a=/b=c").unwrap().text(), "/gone/a=/b=c");
        assert_eq!(Move::parse("/=/").unwrap().text(), "/=/");
    }

    #[test]
    fn links_above_what_is_gone_are_followed() {
        let directory = std::env::temp_dir().join(format!("fermata-moved-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("real")).unwrap();
        std::os::unix::fs::symlink("real", directory.join("link")).unwrap();
        let real = directory.canonicalize().unwrap().join("real");
        let moves = by_arguments(&[&format!("{}/link/gone=/new", directory.display())]);
        assert_eq!(moves.path(&format!("{}/gone/file", real.display())), "/new/file");
        assert_eq!(moves.path(&format!("{}/link/gone/f", directory.display())), "/new/f");
        std::os::unix::fs::symlink("gone", directory.join("dangling")).unwrap();
        std::os::unix::fs::symlink("round", directory.join("round")).unwrap();
        for (old, found) in [("dangling", "gone"), ("dangling/in", "gone/in"), ("round", "round")] {
            let moves = by_arguments(&[&format!("{}/{old}=/new", directory.display())]);
            let path = real.with_file_name(found).join("file");
            assert_eq!(moves.path(&path.to_string_lossy()), "/new/file", "{old}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
