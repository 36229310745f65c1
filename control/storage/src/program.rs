// SPDX-License-Identifier: Apache-2.0
//! What a program that saves itself leaves in a snapshot: a directory that all its ranks write to.
//! Each rank has flushed what its host wrote before it said that it was done. What the files mean
//! is the program's business; that none is lost or cut short is ours.

use crate::error::{Cause, Operation, StorageError};
use crate::job::JobDir;
use crate::layout::partial_path;
use fermata_types::{FileRecord, Manifest, PROGRAM_DIRECTORY};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes the directory in a prepared `<epoch>.partial`.
///
/// # Errors
/// What the file system says.
pub fn prepare_program(job: &JobDir, epoch: u32) -> Result<(), StorageError> {
    let path = partial_path(job, epoch).join(PROGRAM_DIRECTORY);
    fs::DirBuilder::new()
        .mode(0o700)
        .create(job.via(&path))
        .map_err(|e| StorageError::at(Operation::Make, &path, e))
}

/// All that ranks have written there, by path.
///
/// # Errors
/// What the file system says, or there is something that is neither a file nor a directory.
pub fn program_files(job: &JobDir, epoch: u32) -> Result<Vec<FileRecord>, StorageError> {
    let mut files = Vec::new();
    let mut left = vec![PROGRAM_DIRECTORY.to_owned()];
    let root = partial_path(job, epoch);
    while let Some(directory) = left.pop() {
        let at = root.join(&directory);
        let failed = |e: io::Error| StorageError::at(Operation::Read, &at, e);
        for entry in fs::read_dir(job.via(&at)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let meta = entry.metadata().map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else {
                let path = at.join(entry.file_name());
                return Err(StorageError::at(Operation::List, &path, Cause::NotUtf8));
            };
            let path = format!("{directory}/{name}");
            if meta.is_dir() {
                left.push(path);
            } else if meta.is_file() {
                files.push(FileRecord { path, bytes: meta.len() });
            } else {
                let why = Cause::NeitherFileNorDirectory;
                return Err(StorageError::at(Operation::Keep, &at.join(name), why));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// One sentence for each file that is not as it was.
pub(crate) fn program_problems(snapshot: &Path, manifest: &Manifest) -> Vec<String> {
    // A path that leads out of the directory is none a commit ever wrote.
    let is_strange = |path: &str| path.split('/').any(|part| part.is_empty() || part == "..");
    let problem = |file: &FileRecord| match fs::symlink_metadata(snapshot.join(&file.path)) {
        _ if is_strange(&file.path) => Some(format!("{}: a strange path", file.path)),
        Ok(meta) if meta.is_file() && meta.len() == file.bytes => None,
        Ok(meta) if meta.is_file() => {
            Some(format!("{}: has {} bytes, not {}", file.path, meta.len(), file.bytes))
        }
        Ok(_) => Some(format!("{}: is no file", file.path)),
        Err(error) => Some(format!("{}: {error}", file.path)),
    };
    manifest.files.iter().filter_map(problem).collect()
}
