// SPDX-License-Identifier: Apache-2.0
//! The coordinator of one job as a pure state machine: events in, actions out, no I/O and no clock.
//!
//! Ranks stop wherever they are, so first everybody has to agree on *where*: `fermata-protocol`.
//! Once all are parked under their newest targets nobody sends any more, the bookmarks (messages
//! sent, by receiver) are transposed, every rank receives what is still on its way, and the images
//! are cut. A snapshot exists from the moment the shell has renamed its directory.
//!
//! Floors, each of which knows only those before it: `interface` and `reasons` (plain data);
//! `texts` (what people read), `times` (how long it took) and `wire` (the protocol as messages);
//! `registry`, `app_request`, `heartbeat`, `advice` and `attempt` (machines by themselves);
//! `checkpoint`; `machine`, which routes. `ending`, when the coordinator itself ends, stands beside
//! them.
//!
//! Invariant: until then every failure ends in ABORT to all and the previous snapshot stays. What
//!            is said about an epoch that is over is ignored.
//! Invariant: versions of a rank's targets grow over the whole job, so that it can never take those
//!            of an earlier epoch for those of this one.

mod advice;
mod app_request;
mod attempt;
mod checkpoint;
pub mod ending;
mod heartbeat;
mod interface;
mod machine;
mod reasons;
mod registry;
mod texts;
mod times;
mod wire;

pub use interface::{
    Action, CommitFigures, CommitPlan, Config, Conn, DiskError, Event, Figures, ImageDone, Outcome,
    RankView, Reply, SiteJob, StatusView,
};
pub use machine::Machine;
