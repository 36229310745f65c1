// SPDX-License-Identifier: Apache-2.0
//! What goes wrong between two programs beside what the system says. Operations on a connection
//! fail with `io::Error`, whose kind tells what to do; these are in it, and tell why.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why two programs do not come together.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Another user's process has connected.
    #[error("a process of user {0} tried to connect")]
    ForeignPeer(u32),
    /// Another user's process is where we connect.
    #[error("a process of user {0} listens there")]
    ForeignListener(u32),
    /// The other end has not shown the secret.
    #[error("the peer does not know this job's secret, or is no peer of ours ({0})")]
    NoSecret(snow::Error),
    /// Too many have connected and not shown it yet.
    #[error("{0}: too many connections that have not shown the secret")]
    Crowded(SocketAddr),
    /// What went wrong with this peer.
    #[error("{from}: {why}")]
    Peer {
        /// Where it is.
        from: SocketAddr,
        /// What went wrong.
        why: io::Error,
    },
    /// Nobody has answered, and what each address said.
    #[error("{}", each(.0))]
    NoAnswer(Vec<(String, io::Error)>),
    /// Where sockets are to be, somebody else may do something.
    #[error("{} is not a directory of yours with mode 0700", .0.display())]
    SharedDirectory(PathBuf),
    /// The file of a secret is not as it has to be.
    #[error("{}: {why}", .path.display())]
    SecretFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: SecretProblem,
    },
}

/// What is wrong with the file of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretProblem {
    /// It is another user's, or something else than a file.
    #[error("it is no file of yours")]
    NotOurs,
    /// Others may read it.
    #[error("others may read it; its mode must be 0600")]
    Readable,
    /// There is something else in it.
    #[error("not the secret of a job")]
    NoSecret,
}

fn each(said: &[(String, io::Error)]) -> String {
    said.iter().map(|(who, why)| format!("{who}: {why}")).collect::<Vec<_>>().join("; ")
}

impl From<TransportError> for io::Error {
    fn from(error: TransportError) -> Self {
        use TransportError as E;
        let kind = match &error {
            E::ForeignPeer(_) | E::ForeignListener(_) | E::NoSecret(_) | E::SharedDirectory(_) => {
                ErrorKind::PermissionDenied
            }
            E::Crowded(_) => ErrorKind::ConnectionRefused,
            E::Peer { why, .. } => why.kind(),
            E::NoAnswer(_) => ErrorKind::NotConnected,
            E::SecretFile { .. } => ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}
