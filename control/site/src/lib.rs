// SPDX-License-Identifier: Apache-2.0
//! Checkpoints of several jobs on one shared file system, one after the other instead of all at
//! once.
//!
//! A job *offers* a checkpoint before it is due. The service accepts, with a *lease* on the file
//! system's bandwidth, or denies and says when to ask again; a job that is denied computes on.
//! Nobody ever stands still for an answer. From the offers the service knows when each job's
//! checkpoint is due, predicts which would collide, and puts these into the order that costs the
//! least (`order`). Restarts come first.
//!
//! The service only advises. Its state is soft: a replica that takes over (`lead`) knows nothing,
//! and learns from the next offers. A job whose offers stay unanswered twice follows its own plan
//! (`client`).
//!
//! Invariant: no I/O, no clock, no randomness: `step(event, now) -> actions`.
//! Source: M. Gholami and F. Schintke, SRMPDS 2018 (user-level offers, system-level decision);
//! T. Herault et al., APDCM 2018 (least waste on a shared token).

pub mod client;
pub mod lead;
pub mod order;
pub mod service;

/// A job, by a number that is its own at the site.
pub type JobId = u64;

/// What a job wants to write, and what it costs to write it later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Who.
    pub job: JobId,
    /// Bytes of all its nodes; 0: not known yet.
    pub bytes: f64,
    /// Its nodes.
    pub nodes: u32,
    /// Its mean time between failures, seconds.
    pub mtbf_s: f64,
    /// Milliseconds until the job's own plan has it due; 0 and below: it is due since then.
    pub due_in_ms: i64,
    /// The most bytes per second that its nodes can write.
    pub most_per_s: f64,
    /// A restart, which reads; the job stands still meanwhile.
    pub is_restart: bool,
}

/// The right to use the file system for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lease {
    /// Its number, for `Done`.
    pub number: u64,
    /// It ends by itself so many milliseconds after the answer was given.
    pub lasts_ms: u64,
    /// Bytes per second.
    pub per_s: f64,
}

/// What the service says to an offer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// Write now.
    Accept(Lease),
    /// Compute on, and ask again in so many milliseconds.
    Deny {
        /// Milliseconds from the answer on.
        ask_in_ms: u64,
    },
}
