// SPDX-License-Identifier: Apache-2.0
//! Whole stripes, piece by piece: parities made, lost images rebuilt, what is kept checked.

use crate::layout::{Layout, Part, Shard};
use crate::stripe::Coder;
use crate::sums::{Sum, Sums};
use std::collections::BTreeSet;

/// As much of a segment as is worked on at a time: those of a whole stripe stay in the cache.
const PIECE: u64 = 128 * 1024;

/// The members' files.
pub trait Members {
    /// Why one cannot be read or written.
    type Error;

    /// Reads from a member's image or parities, never beyond their ends.
    ///
    /// # Errors
    /// It cannot.
    fn read(
        &mut self,
        member: usize,
        part: Part,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), Self::Error>;

    /// Writes to them, likewise.
    ///
    /// # Errors
    /// It cannot.
    fn write(
        &mut self,
        member: usize,
        part: Part,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Self::Error>;
}

/// Why something is not made, or not rebuilt.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkError<E> {
    /// A member's files.
    #[error(transparent)]
    Members(E),
    /// The code itself, which is a bug.
    #[error("the code fails: {0}")]
    Code(reed_solomon_simd::Error),
    /// More are lost than the set rebuilds.
    #[error("{lost} members are lost, and the set rebuilds {parities}")]
    TooManyLost {
        /// As many are lost.
        lost: usize,
        /// As many may be.
        parities: usize,
    },
    /// A member's file is not what it was; it has to count as lost.
    #[error("what member {} has is not what it was", .0.member)]
    Changed(Shard),
    /// An image that was rebuilt is not what it was, though all that it was made from is.
    #[error("what was rebuilt of member {} is not what it was", .0.member)]
    Wrong(Shard),
}

impl<E> From<reed_solomon_simd::Error> for WorkError<E> {
    fn from(error: reed_solomon_simd::Error) -> Self {
        Self::Code(error)
    }
}

/// One segment that is gone through from its beginning to its end.
struct Stream {
    shard: Shard,
    crc: u32,
    piece: Vec<u8>,
}

impl Stream {
    fn new(shard: Shard) -> Self {
        Self { shard, crc: 0, piece: Vec::new() }
    }

    /// As much of a piece as the file has, and where that is in the file.
    fn extent(&self, layout: &Layout, at: u64) -> (u64, usize) {
        let (begin, has) = layout.extent(self.shard);
        let bytes = has.saturating_sub(at).min(self.piece.len() as u64);
        (begin + at, usize::try_from(bytes).unwrap_or(0))
    }

    fn read<M: Members>(
        &mut self,
        layout: &Layout,
        at: u64,
        members: &mut M,
    ) -> Result<(), WorkError<M::Error>> {
        let (offset, bytes) = self.extent(layout, at);
        let (kept, zeros) = self.piece.split_at_mut(bytes);
        zeros.fill(0);
        if !kept.is_empty() {
            let Shard { member, part, .. } = self.shard;
            members.read(member, part, offset, kept).map_err(WorkError::Members)?;
            self.crc = crc32c::crc32c_append(self.crc, kept);
        }
        Ok(())
    }

    fn write<M: Members>(
        &mut self,
        layout: &Layout,
        at: u64,
        members: &mut M,
    ) -> Result<(), WorkError<M::Error>> {
        let (offset, bytes) = self.extent(layout, at);
        let kept = &self.piece[..bytes];
        if !kept.is_empty() {
            let Shard { member, part, .. } = self.shard;
            members.write(member, part, offset, kept).map_err(WorkError::Members)?;
            self.crc = crc32c::crc32c_append(self.crc, kept);
        }
        Ok(())
    }

    fn sum(&self) -> Sum {
        Sum { shard: self.shard, crc: self.crc }
    }
}

fn streams(shards: Vec<Shard>) -> Vec<Stream> {
    shards.into_iter().map(Stream::new).collect()
}

/// Pieces of a segment: where each begins, and its bytes.
fn pieces(layout: &Layout) -> impl Iterator<Item = (u64, usize)> + use<> {
    let end = layout.segment_bytes();
    let step = usize::try_from(PIECE).unwrap_or(usize::MAX);
    (0..end).step_by(step).map(move |at| {
        let bytes = (end - at).min(PIECE);
        (at, usize::try_from(bytes).unwrap_or(0))
    })
}

/// Makes the parities of a stripe. The checksums of all its segments, to be gathered in `Sums`.
///
/// # Errors
/// A member's files.
pub fn encode<M: Members>(
    layout: &Layout,
    stripe: usize,
    members: &mut M,
) -> Result<Vec<Sum>, WorkError<M::Error>> {
    let coder = Coder::new(layout.data(), layout.parities());
    let (data, parities) = layout.stripe(stripe);
    let (mut data, mut parities) = (streams(data), streams(parities));
    for (at, bytes) in pieces(layout) {
        for stream in &mut data {
            stream.piece.resize(bytes, 0);
            stream.read(layout, at, members)?;
        }
        for stream in &mut parities {
            stream.piece.resize(bytes, 0);
        }
        let from: Vec<&[u8]> = data.iter().map(|stream| stream.piece.as_slice()).collect();
        let mut to: Vec<&mut [u8]> =
            parities.iter_mut().map(|stream| stream.piece.as_mut_slice()).collect();
        coder.encode(&from, &mut to)?;
        for stream in &mut parities {
            stream.write(layout, at, members)?;
        }
    }
    Ok(data.iter().chain(&parities).map(Stream::sum).collect())
}

/// Writes the images of the lost members from what the others have. Their parities are not made
/// again: `encode` does that.
///
/// # Errors
/// More are lost than parities are there; a member's files; one of them is not what it was, and has
/// to count as lost; what was rebuilt is not what it was. What has been written is not to be used
/// then.
pub fn rebuild<M: Members>(
    layout: &Layout,
    sums: &Sums,
    lost: &BTreeSet<usize>,
    members: &mut M,
) -> Result<(), WorkError<M::Error>> {
    let parities = layout.parities();
    if lost.len() > parities {
        return Err(WorkError::TooManyLost { lost: lost.len(), parities });
    }
    (0..layout.stripes()).try_for_each(|stripe| rebuild_stripe(layout, sums, lost, stripe, members))
}

fn rebuild_stripe<M: Members>(
    layout: &Layout,
    sums: &Sums,
    lost: &BTreeSet<usize>,
    stripe: usize,
    members: &mut M,
) -> Result<(), WorkError<M::Error>> {
    let coder = Coder::new(layout.data(), layout.parities());
    let (data, parities) = layout.stripe(stripe);
    let is_lost = |shard: &Shard| lost.contains(&shard.member);
    let mut wanted: Vec<(usize, Stream)> = Vec::new();
    let mut kept: Vec<Option<Stream>> = Vec::new();
    for (at, shard) in data.into_iter().enumerate() {
        if is_lost(&shard) {
            wanted.push((at, Stream::new(shard)));
        }
        kept.push((!is_lost(&shard)).then(|| Stream::new(shard)));
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let living = parities.into_iter().enumerate().filter(|(_, shard)| !is_lost(shard));
    let mut used: Vec<(usize, Stream)> =
        living.take(wanted.len()).map(|(at, shard)| (at, Stream::new(shard))).collect();
    for (at, bytes) in pieces(layout) {
        for stream in kept.iter_mut().flatten().chain(used.iter_mut().map(|(_, s)| s)) {
            stream.piece.resize(bytes, 0);
            stream.read(layout, at, members)?;
        }
        for (_, stream) in &mut wanted {
            stream.piece.resize(bytes, 0);
        }
        let data: Vec<Option<&[u8]>> =
            kept.iter().map(|s| s.as_ref().map(|s| s.piece.as_slice())).collect();
        let from: Vec<(usize, &[u8])> =
            used.iter().map(|(n, s)| (*n, s.piece.as_slice())).collect();
        let mut to: Vec<(usize, &mut [u8])> =
            wanted.iter_mut().map(|(n, s)| (*n, s.piece.as_mut_slice())).collect();
        coder.rebuild(&data, &from, &mut to)?;
        for (_, stream) in &mut wanted {
            stream.write(layout, at, members)?;
        }
    }
    let is_changed = |stream: &&Stream| stream.crc != sums.get(layout, stream.shard);
    if let Some(changed) = kept.iter().flatten().chain(used.iter().map(|(_, s)| s)).find(is_changed)
    {
        return Err(WorkError::Changed(changed.shard));
    }
    let wrong = wanted.iter().map(|(_, stream)| stream).find(is_changed);
    wrong.map_or(Ok(()), |wrong| Err(WorkError::Wrong(wrong.shard)))
}

/// Whether one of a member's files is what it was.
///
/// # Errors
/// It is not, or cannot be read.
pub fn check<M: Members>(
    layout: &Layout,
    sums: &Sums,
    member: usize,
    part: Part,
    members: &mut M,
) -> Result<(), WorkError<M::Error>> {
    for shard in layout.segments(member, part) {
        let mut stream = Stream::new(shard);
        for (at, bytes) in pieces(layout) {
            stream.piece.resize(bytes, 0);
            stream.read(layout, at, members)?;
        }
        if stream.crc != sums.get(layout, shard) {
            return Err(WorkError::Changed(shard));
        }
    }
    Ok(())
}
