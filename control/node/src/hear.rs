// SPDX-License-Identifier: Apache-2.0
//! Whole messages out of what a line brings.

use fermata_transport::Connection;
use fermata_types::{FrameBuffer, Message};
use std::io;

/// Blocks for the next whole message; `None` when the peer has closed.
///
/// # Errors
/// The line has broken, was silent for too long, or brings what is no message.
pub fn hear(connection: &mut Connection, frames: &mut FrameBuffer) -> io::Result<Option<Message>> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if let Some(message) = frames.pop().map_err(io::Error::other)? {
            return Ok(Some(message));
        }
        match connection.reader.receive(&mut buffer)? {
            0 => return Ok(None),
            bytes => frames.push(&buffer[..bytes]),
        }
    }
}
