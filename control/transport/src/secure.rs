// SPDX-License-Identifier: Apache-2.0
//! Between hosts: TCP under the Noise protocol, pattern NNpsk0. Both ends prove that they know the
//! job's secret, and from then on everything is encrypted and authenticated under keys of this one
//! connection: images, which hold the whole memory of a job, travel here too.
//!
//! On the wire: u16 length (big-endian), then one Noise message of that length.
//! Source: The Noise Protocol Framework, revision 34, sections 7.4, 7.7 and 9.
//!
//! Invariant: a nonce is the number of the message in its direction; TCP keeps the order.

use crate::address::local_addresses;
use crate::connection::{
    Connection, Listener, PendingPeer, Reader, SILENCE_MAX, WRITE_LIMIT, Writer,
};
use crate::error::TransportError;
use crate::secret::Secret;
use snow::{HandshakeState, StatelessTransportState};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"fermata control plane";
const MESSAGE_BYTES_MAX: usize = 65_535;
const TAG_BYTES: usize = 16;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
const DIAL_LIMIT: Duration = Duration::from_secs(3);
/// Peers that have not shown the secret yet, at any time.
const STRANGERS_MAX: usize = 64;

fn noise_error(error: snow::Error) -> io::Error {
    TransportError::NoSecret(error).into()
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_LIMIT))?;
    fermata_sysio::notice_silence(stream, SILENCE_MAX)
}

/// Reads exactly `buffer`, by `deadline` whatever trickles in.
fn read_by(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut have = 0;
    while have < buffer.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => have += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn say(state: &mut HandshakeState, stream: &mut TcpStream) -> io::Result<()> {
    let mut message = [0; 256];
    let bytes = state.write_message(&[], &mut message[2..]).map_err(noise_error)?;
    let length = u16::try_from(bytes).map_err(io::Error::other)?;
    message[..2].copy_from_slice(&length.to_be_bytes());
    stream.write_all(&message[..2 + bytes])
}

/// Takes one message of a handshake and gives it to `read`.
fn hear<T>(
    stream: &mut TcpStream,
    until: Instant,
    read: impl FnOnce(&[u8], &mut [u8]) -> Result<T, snow::Error>,
) -> io::Result<T> {
    let (mut head, mut message, mut nothing) = ([0; 2], [0; 256], [0; 256]);
    read_by(stream, &mut head, until)?;
    let length = usize::from(u16::from_be_bytes(head));
    let message = message.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
    read_by(stream, message, until)?;
    read(message, &mut nothing).map_err(noise_error)
}

/// Three messages, each under the secret: -> psk, e  and  <- e, ee  and an empty one of the
/// dialer's under the keys of this connection, since the first can be somebody's recording.
fn shake_hands(mut stream: TcpStream, secret: &Secret, is_dialer: bool) -> io::Result<Connection> {
    tune(&stream)?;
    let peer = stream.peer_addr()?.ip();
    let until = Instant::now() + HANDSHAKE_LIMIT;
    let pattern = PATTERN.parse().map_err(noise_error)?;
    let builder = snow::Builder::new(pattern)
        .prologue(PROLOGUE)
        .and_then(|builder| builder.psk(0, secret.bytes()))
        .map_err(noise_error)?;
    let mut state = if is_dialer { builder.build_initiator() } else { builder.build_responder() }
        .map_err(noise_error)?;
    if is_dialer {
        say(&mut state, &mut stream)?;
    }
    hear(&mut stream, until, |message, out| state.read_message(message, out))?;
    if !is_dialer {
        say(&mut state, &mut stream)?;
    }
    let keys = Arc::new(state.into_stateless_transport_mode().map_err(noise_error)?);
    let mut writer =
        SecureWriter { stream: stream.try_clone()?, keys: Arc::clone(&keys), nonce: 0 };
    let mut nonce = 0;
    if is_dialer {
        writer.say(&[])?;
    } else {
        hear(&mut stream, until, |message, out| keys.read_message(nonce, message, out))?;
        nonce += 1;
    }
    stream.set_read_timeout(None)?;
    let (raw, plain) = (Vec::new(), vec![0; MESSAGE_BYTES_MAX]);
    let reader = SecureReader { stream, keys, nonce, raw, plain, left: 0..0 };
    let peer = Some(peer.to_canonical());
    Ok(Connection { reader: Box::new(reader), writer: Box::new(writer), peer })
}

struct SecureReader {
    stream: TcpStream,
    keys: Arc<StatelessTransportState>,
    nonce: u64,
    /// Received and not yet a whole message: the timeout may end in the middle of one.
    raw: Vec<u8>,
    plain: Vec<u8>,
    /// Of `plain`, what has not been given out.
    left: std::ops::Range<usize>,
}

impl SecureReader {
    /// Decrypts the next message if all of it is there.
    fn open_next(&mut self) -> io::Result<bool> {
        let Some(head) = self.raw.first_chunk::<2>() else {
            return Ok(false);
        };
        let end = 2 + usize::from(u16::from_be_bytes(*head));
        let Some(message) = self.raw.get(2..end) else {
            return Ok(false);
        };
        let bytes =
            self.keys.read_message(self.nonce, message, &mut self.plain).map_err(noise_error)?;
        self.nonce += 1;
        self.left = 0..bytes;
        self.raw.drain(..end);
        Ok(true)
    }
}

impl Reader for SecureReader {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() {
            if self.open_next()? {
                continue;
            }
            let have = self.raw.len();
            self.raw.resize(have + 2 + MESSAGE_BYTES_MAX, 0);
            let got = self.stream.read(&mut self.raw[have..]);
            self.raw.truncate(have + *got.as_ref().unwrap_or(&0));
            if got? == 0 {
                return Ok(0);
            }
        }
        let bytes = self.left.len().min(buffer.len());
        let from = self.left.start;
        buffer[..bytes].copy_from_slice(&self.plain[from..from + bytes]);
        self.left.start += bytes;
        Ok(bytes)
    }
    fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }
    fn end(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

struct SecureWriter {
    stream: TcpStream,
    keys: Arc<StatelessTransportState>,
    nonce: u64,
}

impl SecureWriter {
    /// Sends one message.
    fn say(&mut self, part: &[u8]) -> io::Result<()> {
        let mut message = vec![0; 2 + part.len() + TAG_BYTES];
        let sealed =
            self.keys.write_message(self.nonce, part, &mut message[2..]).map_err(noise_error)?;
        self.nonce += 1;
        let length = u16::try_from(sealed).map_err(io::Error::other)?;
        message[..2].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&message[..2 + sealed])
    }
}

impl Writer for SecureWriter {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(MESSAGE_BYTES_MAX - TAG_BYTES).try_for_each(|part| self.say(part))
    }
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(timeout))?;
        // A peer whose disk stands still acknowledges nothing either. Ours is to decide first.
        fermata_sysio::bear_silence(&self.stream, timeout + SILENCE_MAX)
    }
    fn end(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A listening TCP socket for those who know the secret.
pub struct SecureListener {
    listener: TcpListener,
    secret: Secret,
    strangers: Arc<AtomicUsize>,
}

impl SecureListener {
    /// Listens on every address of this host, at a port of the system's choice.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(secret: Secret) -> io::Result<Self> {
        let everywhere = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0));
        let listener = TcpListener::bind(everywhere)
            .or_else(|_| TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)))?;
        Ok(Self { listener, secret, strangers: Arc::default() })
    }

    /// What daemons have to be told to connect: `ADDRESS:PORT` for each address of this host.
    ///
    /// # Errors
    /// What the system says.
    pub fn addresses(&self) -> io::Result<Vec<String>> {
        let port = self.listener.local_addr()?.port();
        let mut all = local_addresses();
        if all.is_empty() {
            all.push(IpAddr::from([127, 0, 0, 1]));
        }
        Ok(all.into_iter().map(|ip| SocketAddr::new(ip, port).to_string()).collect())
    }
}

impl Listener for SecureListener {
    fn accept(&mut self) -> io::Result<Box<dyn PendingPeer>> {
        let (stream, from) = self.listener.accept()?;
        if self.strangers.load(Ordering::Acquire) >= STRANGERS_MAX {
            return Err(TransportError::Crowded(from).into());
        }
        self.strangers.fetch_add(1, Ordering::AcqRel);
        let here = Stranger(Arc::clone(&self.strangers));
        Ok(Box::new(PendingSecurePeer { stream, from, secret: self.secret.clone(), _here: here }))
    }
}

/// Counts itself off when the peer is admitted or sent away.
struct Stranger(Arc<AtomicUsize>);

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

struct PendingSecurePeer {
    stream: TcpStream,
    from: SocketAddr,
    secret: Secret,
    _here: Stranger,
}

impl PendingPeer for PendingSecurePeer {
    fn admit(self: Box<Self>) -> io::Result<Connection> {
        let from = self.from;
        shake_hands(self.stream, &self.secret, false)
            .map_err(|why| TransportError::Peer { from, why }.into())
    }
}

/// Connects to `HOST:PORT` and shows the secret.
///
/// # Errors
/// What the system says; `PermissionDenied` if the other side does not know the secret.
pub fn dial(address: &str, secret: &Secret) -> io::Result<Connection> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, DIAL_LIMIT) {
            Ok(stream) => return shake_hands(stream, secret, true),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects to the first of these addresses where somebody knows the secret.
///
/// # Errors
/// What each of them said.
pub fn dial_any(addresses: &[String], secret: &Secret) -> io::Result<Connection> {
    let mut said = Vec::new();
    for address in addresses {
        match dial(address, secret) {
            Ok(connection) => return Ok(connection),
            Err(error) => said.push((address.clone(), error)),
        }
    }
    Err(TransportError::NoAnswer(said).into())
}

#[cfg(test)]
#[path = "secure_tests.rs"]
mod tests;
