// SPDX-License-Identifier: Apache-2.0
//! Whole messages out of what a line brings.

use crate::connection::Reader;
use fermata_types::{FrameBuffer, Message};
use std::io;

/// Blocks for the next whole message; `None` when the peer has closed.
///
/// # Errors
/// The line has broken, was silent for too long, or brings what is no message.
pub fn next_message(
    reader: &mut dyn Reader,
    frames: &mut FrameBuffer,
) -> io::Result<Option<Message>> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let broken = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        if let Some(message) = frames.pop().map_err(broken)? {
            return Ok(Some(message));
        }
        match reader.receive(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(bytes) => frames.push(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
