// SPDX-License-Identifier: Apache-2.0
//! A level is a place that keeps snapshots of a job. The coordinator puts a checkpoint into
//! one; ranks know of none, they write images where they are told to.
//!
//! Invariant: what a level lists is complete. It gets there by one step, and leaves by one.

use crate::error::StorageError;
use crate::layout::SnapshotInfo;
use fermata_types::Manifest;
use std::path::PathBuf;

/// From when on what was put into a level outlives a crash of every process and host concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// When `put` has returned.
    OnReturn,
}

/// A place that keeps snapshots.
pub trait Level {
    /// Takes in the checkpoint whose images have been written, and returns where it is.
    ///
    /// # Errors
    /// An image is missing or not the one its rank reported, or what the file system says. The
    /// previous snapshot is untouched then.
    fn put(&self, manifest: &Manifest) -> Result<PathBuf, StorageError>;

    /// Where a snapshot is that ranks can be restored from.
    ///
    /// # Errors
    /// There is none of that number.
    fn get(&self, epoch: u32) -> Result<PathBuf, StorageError>;

    /// All snapshots, oldest first.
    fn list(&self) -> Vec<SnapshotInfo>;

    /// Removes one. Whether it is gone; if not, it is no snapshot all the same.
    fn drop(&self, epoch: u32) -> bool;

    /// When a snapshot can be relied on.
    fn durable_after(&self) -> Durable;
}
