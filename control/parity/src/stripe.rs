// SPDX-License-Identifier: Apache-2.0
//! One piece of a stripe: the code itself.

use reed_solomon_simd::{Error, ReedSolomonDecoder, ReedSolomonEncoder};

/// A piece's buffers, and the code that they go through.
pub(crate) enum Coder {
    /// One parity.
    Xor,
    /// More, of this many segments.
    ReedSolomon { data: usize, parities: usize },
}

impl Coder {
    pub(crate) fn new(data: usize, parities: usize) -> Self {
        if parities == 1 { Self::Xor } else { Self::ReedSolomon { data, parities } }
    }

    /// The parities of these segments into `parities`; all are equally long.
    pub(crate) fn encode(&self, data: &[&[u8]], parities: &mut [&mut [u8]]) -> Result<(), Error> {
        let bytes = data.first().map_or(0, |piece| piece.len());
        match self {
            Self::Xor => {
                for parity in parities {
                    xor_all(data.iter().copied(), parity);
                }
                Ok(())
            }
            Self::ReedSolomon { data: count, parities: m } => {
                let mut encoder = ReedSolomonEncoder::new(*count, *m, bytes)?;
                for piece in data {
                    encoder.add_original_shard(piece)?;
                }
                let encoded = encoder.encode()?;
                for (parity, made) in parities.iter_mut().zip(encoded.recovery_iter()) {
                    parity.copy_from_slice(made);
                }
                Ok(())
            }
        }
    }

    /// Fills in the lost ones, which are empty in `data`, from the others and from parities by
    /// their numbers; there are as many as are lost.
    pub(crate) fn rebuild(
        &self,
        data: &[Option<&[u8]>],
        parities: &[(usize, &[u8])],
        lost: &mut [(usize, &mut [u8])],
    ) -> Result<(), Error> {
        let bytes = lost.first().map_or(0, |(_, piece)| piece.len());
        match self {
            Self::Xor => {
                let kept = data.iter().flatten().copied();
                for (_, piece) in lost {
                    xor_all(kept.clone().chain(parities.iter().map(|(_, p)| *p)), piece);
                }
                Ok(())
            }
            Self::ReedSolomon { data: count, parities: m } => {
                let mut decoder = ReedSolomonDecoder::new(*count, *m, bytes)?;
                for (at, piece) in data.iter().enumerate() {
                    if let Some(piece) = piece {
                        decoder.add_original_shard(at, piece)?;
                    }
                }
                for (at, piece) in parities {
                    decoder.add_recovery_shard(*at, piece)?;
                }
                let decoded = decoder.decode()?;
                for (at, piece) in lost {
                    if let Some(made) = decoded.restored_original(*at) {
                        piece.copy_from_slice(made);
                    }
                }
                Ok(())
            }
        }
    }
}

fn xor_all<'a>(pieces: impl Iterator<Item = &'a [u8]>, into: &mut [u8]) {
    into.fill(0);
    for piece in pieces {
        // The compiler makes vector instructions of it.
        for (to, from) in into.iter_mut().zip(piece) {
            *to ^= from;
        }
    }
}
