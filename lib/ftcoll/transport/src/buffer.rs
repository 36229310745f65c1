// SPDX-License-Identifier: Apache-2.0
//! The bytes of values. A communicator keeps the values of its last calls, so that memory is freed
//! in other places than it was taken from, and malloc(3) gives what is free at the end of its heap
//! back to the system: a value of 32 KiB would pay for eight fresh pages each time. So freed memory
//! of more than a page is kept for the next values, up to a bound, the latest first.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Memory of fewer bytes is malloc's.
const LEAST_BYTES: usize = 4 << 10;
/// So many bytes are kept at most, in all.
const KEPT_BYTES_MAX: usize = 4 << 20;

static KEPT: Mutex<Kept> = Mutex::new(Kept { free: Vec::new(), bytes: 0 });

#[derive(Debug)]
struct Kept {
    free: Vec<Vec<u8>>,
    /// Of all of them.
    bytes: usize,
}

impl Kept {
    /// Memory that has room, and is not much larger.
    fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let fits = |free: &Vec<u8>| (bytes..=2 * bytes).contains(&free.capacity());
        let taken = self.free.remove(self.free.iter().rposition(fits)?);
        self.bytes -= taken.capacity();
        Some(taken)
    }

    fn put(&mut self, mut memory: Vec<u8>) {
        let bytes = memory.capacity();
        if self.bytes + bytes <= KEPT_BYTES_MAX {
            memory.clear();
            self.bytes += bytes;
            self.free.push(memory);
        }
    }
}

/// Bytes of a value.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    /// Allocates only if nothing that fits is kept.
    pub fn copy_of(bytes: &[u8]) -> Self {
        if bytes.len() < LEAST_BYTES {
            return Self(bytes.to_vec());
        }
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take(bytes.len());
        let mut memory = kept.unwrap_or_else(|| Vec::with_capacity(bytes.len()));
        memory.extend_from_slice(bytes);
        Self(memory)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.capacity() >= LEAST_BYTES {
            let memory = std::mem::take(&mut self.0);
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).put(memory);
        }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Buffer, KEPT_BYTES_MAX, Kept, LEAST_BYTES};

    #[test]
    fn memory_is_taken_again_by_what_fits_it() {
        let mut kept = Kept { free: Vec::new(), bytes: 0 };
        kept.put(Vec::with_capacity(40_000));
        kept.put(Vec::with_capacity(10_000));
        assert!(kept.take(4_096).is_none(), "both are much larger");
        assert!(kept.take(40_001).is_none(), "both are too small");
        let taken = kept.take(32_768).expect("the first fits");
        assert!(taken.is_empty() && taken.capacity() >= 40_000);
        assert!(kept.take(32_768).is_none());
        assert!(kept.take(10_000).is_some() && kept.bytes == 0);
    }

    #[test]
    fn no_more_is_kept_than_the_bound() {
        let mut kept = Kept { free: Vec::new(), bytes: 0 };
        (0..100).for_each(|_| kept.put(Vec::with_capacity(KEPT_BYTES_MAX / 10)));
        assert!(kept.free.len() <= 10 && kept.bytes <= KEPT_BYTES_MAX);
    }

    #[test]
    fn a_buffer_has_the_bytes_it_was_made_of() {
        for length in [0, 1, LEAST_BYTES - 1, LEAST_BYTES, 3 * LEAST_BYTES, 5] {
            let bytes: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let buffer = Buffer::copy_of(&bytes);
            assert_eq!(*buffer, bytes[..]);
            assert_eq!(buffer.clone(), buffer);
        }
    }
}
