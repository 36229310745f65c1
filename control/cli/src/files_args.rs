// SPDX-License-Identifier: Apache-2.0
//! Flags about files: which contents are saved, and what a restart does about changed ones.

use crate::output::parse_bytes;
use clap::{Args, ValueEnum};
use fermata_launch::files::Rule;
use fermata_launch::kept::parse_which;
use fermata_launch::start::SaveFiles;

/// `--files` of a restart: `fermata_launch::files::Rule`, with the words of the help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FilesRule {
    /// Cut files back to their size at the checkpoint; refuse if contents are lost
    #[default]
    Restore,
    /// Leave every file as it is, and say what has changed
    Keep,
    /// Refuse the restart if any file has changed
    Fail,
}

impl From<FilesRule> for Rule {
    fn from(rule: FilesRule) -> Self {
        match rule {
            FilesRule::Restore => Self::Restore,
            FilesRule::Keep => Self::Keep,
            FilesRule::Fail => Self::Fail,
        }
    }
}

/// Contents of files in the snapshots.
#[derive(Args, Clone, Debug)]
pub struct FilesArgs {
    /// save: snapshots have the contents of files open for writing, and a restart makes missing
    /// ones again; save=DIR:DIR of all open files below these directories; leave: of none [default:
    /// $FERMATA_FILES, else leave]
    #[arg(id = "save_files", long = "files", value_name = "WHAT", value_parser = parse_which)]
    save_files: Option<String>,
    /// The most bytes of such files that a rank may save
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "1g")]
    files_limit: u64,
}

impl From<FilesArgs> for SaveFiles {
    fn from(args: FilesArgs) -> Self {
        Self { which: args.save_files, limit: args.files_limit }
    }
}
