// SPDX-License-Identifier: Apache-2.0
//! The commands' end of the coordinator's socket.

use fermata_types::{
    Answer, Checkpoint, ClientHello, FrameBuffer, Message, Progress, Status, WireError,
    encode_frame,
};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longer than any phase lasts without a word of progress.
const SILENCE_MAX: Duration = Duration::from_secs(2000);
const SLICE: Duration = Duration::from_millis(200);

/// How a command ended at the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Ok,
    /// Tried and failed; the job runs on.
    Failed,
    /// Not tried.
    Refused,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// Nobody listens there, or the connection broke.
    Io(io::Error),
    /// The other side is no coordinator of ours.
    Wire(WireError),
    /// The coordinator went away (the job has ended) or said nothing for too long.
    Gone,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot speak with the coordinator: {error}"),
            Self::Wire(error) => write!(f, "cannot understand the coordinator: {error}"),
            Self::Gone => write!(f, "the coordinator went away before it answered"),
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
    stream: UnixStream,
    frames: FrameBuffer,
}

impl Client {
    /// Connects to the coordinator of `job`.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(socket: &str, job: &str) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(SLICE))?;
        let mut client = Self { stream, frames: FrameBuffer::default() };
        let job = job.to_owned();
        let secret = String::new();
        client.send(&ClientHello { job, secret }.into())?;
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
    /// There was no answer within 10 s.
    pub fn status(&mut self) -> Result<Answer, ClientError> {
        self.send(&Status {}.into())?;
        let (_, answer) = self.wait_for_answer(Duration::from_secs(10), |_| {})?;
        Ok(answer)
    }

    fn send(&mut self, message: &Message) -> Result<(), ClientError> {
        Ok(self.stream.write_all(&encode_frame(message))?)
    }

    fn wait_for_answer(
        &mut self,
        silence_max: Duration,
        mut progress: impl FnMut(&Progress),
    ) -> Result<(Outcome, Answer), ClientError> {
        let mut heard = Instant::now();
        let mut buffer = [0; 16 * 1024];
        while heard.elapsed() < silence_max {
            while let Some(message) = self.frames.pop().map_err(ClientError::Wire)? {
                heard = Instant::now();
                match message {
                    Message::Progress(step) => progress(&step),
                    Message::Answer(answer) => {
                        let outcome = match answer.outcome {
                            0 => Outcome::Ok,
                            2 => Outcome::Refused,
                            _ => Outcome::Failed,
                        };
                        return Ok((outcome, answer));
                    }
                    _ => {}
                }
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ClientError::Gone),
                Ok(bytes) => self.frames.push(&buffer[..bytes]),
                Err(error) if is_waiting(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ClientError::Gone)
    }
}

fn is_waiting(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
