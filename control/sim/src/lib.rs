// SPDX-License-Identifier: Apache-2.0
//! Event-driven simulations of what runs: the plan of levels, the schedule between jobs. Time,
//! work, failures and disks are made here; every decision is one of the product's own crates.
//!
//! Policies that are compared meet the same failures (common random numbers), so their difference
//! has a small confidence interval. A plan is made from the model, never from the traces that it
//! is scored on.

pub mod chart;
pub mod job;
pub mod plan;
pub mod random;
pub mod schedule;
pub mod site;
pub mod stats;
pub mod store;
