// SPDX-License-Identifier: Apache-2.0
//! The commands' end of a connection to the coordinator.

use fermata_job::Outcome;
use fermata_transport::{Connection, Secret, connect_unix, dial_any, is_waiting};
use fermata_types::{
    Answer, Checkpoint, ClientHello, FrameBuffer, Message, Progress, Signalled, Status, WireError,
    encode_frame,
};
use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Progress is said every other second; only a disk that hangs may keep the coordinator from that.
const SILENCE_MAX: Duration = Duration::from_secs(2000);
const SLICE: Duration = Duration::from_millis(200);

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// Nobody listens there, or the connection broke.
    Io(io::Error),
    /// The other side is no coordinator of ours.
    Wire(WireError),
    /// The coordinator went away: the job has ended.
    Gone,
    /// It is there, but said nothing for too long.
    Silent,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot speak with the coordinator: {error}"),
            Self::Wire(error) => write!(f, "cannot understand the coordinator: {error}"),
            Self::Gone => write!(f, "the coordinator went away before it answered"),
            Self::Silent => write!(f, "the coordinator does not answer"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A connected command.
pub struct Client {
    connection: Connection,
    frames: FrameBuffer,
}

impl Client {
    /// Connects to the coordinator of `job` on this host.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(socket: &str, job: &str) -> Result<Self, ClientError> {
        Self::greet(connect_unix(Path::new(socket))?, job)
    }

    /// Connects to the coordinator of `job` on another host.
    ///
    /// # Errors
    /// Nobody listens there, or not with this secret.
    pub fn dial(addresses: &[String], secret: &Secret, job: &str) -> Result<Self, ClientError> {
        Self::greet(dial_any(addresses, secret)?, job)
    }

    fn greet(mut connection: Connection, job: &str) -> Result<Self, ClientError> {
        connection.reader.set_timeout(Some(SLICE))?;
        let mut client = Self { connection, frames: FrameBuffer::default() };
        client.send(&ClientHello { job: job.to_owned() }.into())?;
        Ok(client)
    }

    /// Takes a checkpoint and waits for its end.
    ///
    /// # Errors
    /// There was no answer.
    pub fn checkpoint(
        &mut self,
        stop: bool,
        timeout_ms: u64,
        progress: impl FnMut(&Progress),
    ) -> Result<(Outcome, Answer), ClientError> {
        let stop = u32::from(stop);
        self.send(&Checkpoint { stop, timeout_ms }.into())?;
        self.wait_for_answer(SILENCE_MAX, progress)
    }

    /// Asks how the job is.
    ///
    /// # Errors
    /// There was no answer within `timeout`.
    pub fn status(&mut self, timeout: Duration) -> Result<Answer, ClientError> {
        self.send(&Status {}.into())?;
        let (_, answer) = self.wait_for_answer(timeout, |_| {})?;
        Ok(answer)
    }

    /// Tells of a signal that is to save the job. There is no answer.
    ///
    /// # Errors
    /// The line is broken.
    pub fn signalled(&mut self, signal: u32) -> Result<(), ClientError> {
        self.send(&Signalled { signal }.into())
    }

    fn send(&mut self, message: &Message) -> Result<(), ClientError> {
        Ok(self.connection.writer.send(&encode_frame(message))?)
    }

    fn wait_for_answer(
        &mut self,
        silence_max: Duration,
        mut progress: impl FnMut(&Progress),
    ) -> Result<(Outcome, Answer), ClientError> {
        let mut heard = Instant::now();
        let mut buffer = vec![0; 16 * 1024];
        while heard.elapsed() < silence_max {
            while let Some(message) = self.frames.pop().map_err(ClientError::Wire)? {
                heard = Instant::now();
                match message {
                    Message::Progress(step) => progress(&step),
                    Message::Answer(answer) => {
                        return Ok((Outcome::of(answer.outcome), answer));
                    }
                    _ => {}
                }
            }
            match self.connection.reader.receive(&mut buffer) {
                Ok(0) => return Err(ClientError::Gone),
                Ok(bytes) => self.frames.push(&buffer[..bytes]),
                Err(error) if is_waiting(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ClientError::Silent)
    }
}
