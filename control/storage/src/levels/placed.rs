// SPDX-License-Identifier: Apache-2.0
//! A snapshot of the job's directory whose images lie on hosts, each where its rank will run: here
//! are the manifest and the heads of the images, and the file that says so.

use super::host::Kept;
use super::host::record;
use crate::error::{Operation, StorageError};
use crate::own::{self, Whose};
use fermata_seal::Key;
use std::io::{ErrorKind, Write};
use std::path::Path;

const FILE: &str = "placed.json";
const KIND: &str = "placed";

/// Marks the directory of a snapshot that is about to be committed.
///
/// # Errors
/// What the file system says.
pub fn note_placed(snapshot: &Path, kept: &Kept, key: Option<&Key>) -> Result<(), StorageError> {
    let path = snapshot.join(FILE);
    let text =
        record::seal(KIND, kept, key).map_err(|e| StorageError::at(Operation::Write, &path, e))?;
    own::create(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .map_err(|e| StorageError::at(Operation::Write, &path, e))
}

/// Which snapshot lies on which hosts; `None`: this one lies here.
///
/// # Errors
/// What says that it lies elsewhere cannot be believed.
pub fn read_placed(snapshot: &Path, whose: Whose) -> Result<Option<Kept>, StorageError> {
    let path = snapshot.join(FILE);
    let text = match own::read_to_string(&path, whose) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::at(Operation::Read, &path, error)),
    };
    let kept = record::unseal::<Kept>(KIND, &text, whose);
    kept.map(Some).map_err(|why| StorageError::at(Operation::Use, &path, why))
}
