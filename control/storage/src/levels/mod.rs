// SPDX-License-Identifier: Apache-2.0
//! The levels that there are.

mod job_directory;

pub use job_directory::JobDirectory;
