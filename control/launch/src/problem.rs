// SPDX-License-Identifier: Apache-2.0
//! Why something is not done, by what kind of thing is to be done about it. Whoever ends a program
//! with a code knows which.

/// An error that says how it is meant. Others are things that were tried and failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It cannot be done here or now, and nothing was tried.
    #[error("{0}")]
    Refused(String),
    /// A snapshot cannot be believed.
    #[error("{0}")]
    Damaged(String),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
}

/// It cannot be done here or now.
pub fn refused(text: impl Into<String>) -> anyhow::Error {
    Problem::Refused(text.into()).into()
}

/// A snapshot cannot be believed.
pub fn damaged(text: impl Into<String>) -> anyhow::Error {
    Problem::Damaged(text.into()).into()
}

/// What was asked for makes no sense.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Problem::Usage(text.into()).into()
}
