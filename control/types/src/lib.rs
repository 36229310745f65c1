// SPDX-License-Identifier: Apache-2.0
//! The words of the control plane: messages and image structures (both generated from `spec/`), the
//! frame they travel in, and the small records that lie beside the images.
//!
//! Nothing here does I/O; everything here may be used by every other crate.

mod checkpointer;
mod ended;
mod every;
mod hex;
mod history;
#[rustfmt::skip]
mod crossing_gen;
#[rustfmt::skip]
mod image_gen;
#[rustfmt::skip]
mod protocol_gen;
#[rustfmt::skip]
mod rank_gen;
mod records;
mod wire;
pub mod words;

pub use checkpointer::*;
pub use crossing_gen::*;
pub use ended::*;
pub use every::Every;
pub use hex::{hex, unhex};
pub use history::*;
pub use image_gen::*;
pub use protocol_gen::*;
pub use rank_gen::*;
pub use records::*;
pub use wire::*;
