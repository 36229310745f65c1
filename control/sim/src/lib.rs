// SPDX-License-Identifier: Apache-2.0
//! Event-driven simulations of what decides: the plan of levels, the schedule between jobs, the
//! membership of nodes. Time, work, failures, disks and networks are made here; every decision is
//! one of the product's own crates.
//!
//! ```text
//!     plan         a job of 50 000 nodes under plans of levels; job: its time and failures
//!     small        the same of any job, at given intervals, beside what the model expects
//!     schedule     24 jobs on one file system; site, store: their time and its bandwidth
//!     membership   the nodes of a run, a network, standstills and deaths
//!     random, stats, chart, findings   what they share
//! ```
//!
//! Policies that are compared meet the same failures (common random numbers), so their difference
//! has a small confidence interval. A plan is made from the model, never from the traces that it
//! is scored on.

pub mod chart;
pub mod findings;
pub mod job;
pub mod membership;
pub mod plan;
pub mod random;
pub mod schedule;
pub mod site;
pub mod small;
pub mod stats;
pub mod store;
