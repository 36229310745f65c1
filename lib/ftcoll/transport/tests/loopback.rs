// SPDX-License-Identifier: Apache-2.0
//! Jobs over sockets.
#![allow(clippy::unwrap_used)]

mod jobs;

const TRANSPORT: ftcoll::Transport = ftcoll::Transport::Tcp;
