// SPDX-License-Identifier: Apache-2.0
//! What levels promise holds: in all orders of a small cluster, and in random lives of larger ones.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod cluster;
mod promised;
mod simulated;
