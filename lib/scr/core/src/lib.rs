// SPDX-License-Identifier: Apache-2.0
//! What decides in the library for programs that save themselves, whose calls are those of SCR.
//!
//! Floors, each of which knows only those before it: `config` (keys, their sources, and which of
//! them wins); `descriptor` (stores, groups, which redundancy for which checkpoint); `settings`
//! (the keys as values); `dataset` (what the files of one output are); `arrange` (sets and partners
//! of ranks, by `fermata-levels`); `index` (what the prefix directory has); `halt` (when a job is
//! to end); `need` (when it is to save); `calls` (which call may follow which).
//!
//! Invariant: no I/O, no clock, no randomness: texts, environments and times are handed in.
//! Source: the user guide of SCR 3 (scr.readthedocs.io), for names, values and their meaning.

pub mod arrange;
pub mod calls;
pub mod config;
pub mod dataset;
pub mod descriptor;
pub mod halt;
pub mod index;
pub mod need;
pub mod settings;

pub use arrange::{Place, arrange};
pub use calls::{Call, Phase};
pub use config::{Config, Source};
pub use dataset::{Dataset, File, Files, Flags, Kept};
pub use descriptor::{Descriptor, Scheme, Store};
pub use halt::Halt;
pub use index::Index;
pub use settings::Settings;
