// SPDX-License-Identifier: Apache-2.0
//! The levels that there are.

mod local;

pub use local::Local;
