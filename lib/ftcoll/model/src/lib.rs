// SPDX-License-Identifier: Apache-2.0
//! Every order in which messages can arrive and processes can die, for the machines of
//! `fermata-ftcoll` in small groups. What is checked is what runs.
//!
//! Between any two steps a process may die, and in a step after any of its messages. Messages of a
//! pair of processes arrive in order; those of a dead process arrive, however late. Who waits
//! for a dead process learns at any time later that it is dead, but nobody takes a living process
//! for dead: that is what timeouts promise.
//!
//! ```text
//! world     processes, lines and deaths, as a model for stateright
//! subjects  the machines: what they wait for, and what must hold
//! cases     what is searched for the table in docs/evidence/ftcoll.md: ./x model ftcoll
//! search    a search of our own, for larger groups
//!   packed  states as numbers, steps as look-ups
//!   tables  the numbers
//! ```

pub mod cases;
pub mod packed;
pub mod search;
pub mod subjects;
pub mod tables;
pub mod world;
