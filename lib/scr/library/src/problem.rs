// SPDX-License-Identifier: Apache-2.0
//! Why a call fails.

use crate::comm::CommError;
use fermata_levels::ArrangementError;
use fermata_scr::calls::OrderError;
use fermata_scr::config::ConfigError;
use fermata_scr::halt::HaltError;
use fermata_scr::settings::SettingError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a call fails.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The MPI.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// A file or directory.
    #[error("cannot {what} {}: {error}", .path.display())]
    File {
        /// What was to be done.
        what: &'static str,
        /// With which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another rank has said why.
    #[error("another rank has failed")]
    Elsewhere,
    /// The order of calls.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// A line of a configuration.
    #[error("{file}: {error}")]
    Config {
        /// Where it stands.
        file: String,
        /// What is wrong.
        error: ConfigError,
    },
    /// A value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A line of the halt file.
    #[error("{}: {error}", .file.display())]
    Halt {
        /// Which file.
        file: PathBuf,
        /// What is wrong.
        error: HaltError,
    },
    /// A bug.
    #[error(transparent)]
    Arrangement(#[from] ArrangementError),
    /// Anything else that the program or the user can mend.
    #[error("{0}")]
    Wrong(String),
}

impl Problem {
    /// A failed operation.
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |error| Self::File { what, path, error }
    }
}
