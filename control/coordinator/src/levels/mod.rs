// SPDX-License-Identifier: Apache-2.0
//! Snapshots that stay on the hosts of the job (`run --levels`). The daemons keep images, copies
//! and parities; what they are to do, and when a snapshot exists, is decided here, behind the job.
//!
//! Floors, each of which knows only those before it: `interface`; `earlier` (what is there
//! already); `promoter` (the machine); `shell` (its thread, the lines to daemons, the job's
//! directory).

mod earlier;
mod interface;
mod promoter;
mod shell;

pub(crate) use shell::{Levels, Line};
