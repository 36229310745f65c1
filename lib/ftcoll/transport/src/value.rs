// SPDX-License-Identifier: Apache-2.0
//! What processes contribute: contiguous elements of a predefined type, or of the program's own,
//! and how two such values are combined element by element.
//!
//! Invariant: values that do not fit each other (another type, operation or length: a mistake of
//! the program) make a value that says so, and every process gets that.

use crate::buffer::Buffer;
use crate::numbers;
use fermata_ftcoll::ftco::Value;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A predefined type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A signed integer of 8 bits.
    I8 = 1,
    /// Of 16 bits.
    I16,
    /// Of 32 bits.
    I32,
    /// Of 64 bits.
    I64,
    /// An unsigned integer of 8 bits; also a byte, and a C bool.
    U8,
    /// Of 16 bits.
    U16,
    /// Of 32 bits.
    U32,
    /// Of 64 bits.
    U64,
    /// `float`.
    F32,
    /// `double`.
    F64,
    /// `float _Complex`.
    C32,
    /// `double _Complex`.
    C64,
    /// `struct { short value; int index; }`
    I16Index,
    /// `struct { int value; int index; }`
    I32Index,
    /// `struct { long value; int index; }`
    I64Index,
    /// `struct { float value; int index; }`
    F32Index,
    /// `struct { double value; int index; }`
    F64Index,
}

/// A predefined operation. Source: MPI-4.1, section 6.9.2; pairs: 6.9.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// The sum; of integers, modulo their width.
    Sum = 1,
    /// The product; of integers, modulo their width.
    Prod,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// Whether both are true.
    Land,
    /// Whether one is true.
    Lor,
    /// Whether just one is true.
    Lxor,
    /// Bits of both.
    Band,
    /// Bits of one at least.
    Bor,
    /// Bits of just one.
    Bxor,
    /// The smaller value and its index, the smaller index of equal ones.
    MinLoc,
    /// The larger value and its index, the smaller index of equal ones.
    MaxLoc,
}

use Kind::{
    C32, C64, F32, F32Index, F64, F64Index, I8, I16, I16Index, I32, I32Index, I64, I64Index, U8,
    U16, U32, U64,
};

const KINDS: [Kind; 17] = [
    I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, C32, C64, I16Index, I32Index, I64Index,
    F32Index, F64Index,
];
const OPS: [Op; 12] = [
    Op::Sum,
    Op::Prod,
    Op::Min,
    Op::Max,
    Op::Land,
    Op::Lor,
    Op::Lxor,
    Op::Band,
    Op::Bor,
    Op::Bxor,
    Op::MinLoc,
    Op::MaxLoc,
];

impl Kind {
    /// The type of this number in `ftcoll.h` and on the wire.
    #[must_use]
    pub fn of(code: u8) -> Option<Self> {
        KINDS.into_iter().find(|&kind| kind as u8 == code)
    }

    /// Bytes of an element, with its padding.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            I8 | U8 => 1,
            I16 | U16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 | C32 | I16Index | I32Index | F32Index => 8,
            C64 | I64Index | F64Index => 16,
        }
    }

    /// Whether the operation is defined for these elements.
    #[must_use]
    pub fn has(self, op: Op) -> bool {
        match self {
            I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 => !matches!(op, Op::MinLoc | Op::MaxLoc),
            F32 | F64 => matches!(op, Op::Sum | Op::Prod | Op::Min | Op::Max),
            C32 | C64 => matches!(op, Op::Sum | Op::Prod),
            I16Index | I32Index | I64Index | F32Index | F64Index => {
                matches!(op, Op::MinLoc | Op::MaxLoc)
            }
        }
    }
}

impl Op {
    /// The operation of this number in `ftcoll.h` and on the wire.
    #[must_use]
    pub fn of(code: u8) -> Option<Self> {
        OPS.into_iter().find(|&op| op as u8 == code)
    }
}

/// What a program's own operation does: puts `ahead op behind` into `behind`, element by element.
pub type Function = dyn Fn(&[u8], &mut [u8]) + Send + Sync;

/// An operation of the program's own. It is called by the thread that waits in a call or by the
/// library's, never by two at a time on one communicator.
#[derive(Clone)]
pub struct UserOp {
    /// Bytes of an element.
    pub element: usize,
    /// Whether the order of its operands may be changed. It is kept in any case.
    pub commutes: bool,
    /// What it does.
    pub function: Arc<Function>,
}

impl fmt::Debug for UserOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserOp({} bytes)", self.element)
    }
}

/// Where the values of a lane find the program's operation of the present call: it is known to each
/// process by itself, and values of others may come before this one enters the call.
#[derive(Clone, Debug, Default)]
pub struct Slot(Arc<Mutex<Option<UserOp>>>);

impl Slot {
    /// Sets the operation of the call that begins.
    pub fn set(&self, op: Option<UserOp>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = op;
    }

    fn get(&self) -> Option<UserOp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How a value is combined with others.
#[derive(Clone, Debug)]
pub enum How {
    /// It is not: what a root broadcasts.
    Opaque,
    /// By a predefined operation.
    Elements(Kind, Op),
    /// By the program's, on elements of so many bytes.
    User(u32, Slot),
    /// Values that do not fit each other were to be combined.
    Mismatch,
}

/// What a process contributes. A clone shares the bytes.
#[derive(Clone, Debug)]
pub struct Data {
    /// The elements.
    pub bytes: Arc<Buffer>,
    /// How to combine them.
    pub how: How,
}

impl Data {
    fn spoil(&mut self) {
        *self = Self { bytes: Arc::default(), how: How::Mismatch };
    }

    /// By the program's operation: false if the values do not fit it.
    fn merge_by(&mut self, op: &UserOp, behind: &Self) -> bool {
        if op.element == 0 || self.bytes.len() % op.element != 0 {
            return false;
        }
        let mut result = Buffer::clone(&behind.bytes);
        (op.function)(&self.bytes, &mut result);
        self.bytes = Arc::new(result);
        true
    }
}

impl Value for Data {
    fn merge(&mut self, behind: &Self) {
        let has_fitted = self.bytes.len() == behind.bytes.len()
            && match (&self.how, &behind.how) {
                (How::Elements(kind, op), How::Elements(other, also)) => {
                    let (kind, op, fits) = (*kind, *op, kind == other && op == also);
                    fits && {
                        let bytes = Arc::make_mut(&mut self.bytes);
                        numbers::combine(kind, op, bytes, &behind.bytes)
                    }
                }
                (How::User(size, slot), How::User(other, _)) if size == other => {
                    let (op, size) = (slot.get(), *size as usize);
                    let op = op.filter(|op| op.element == size);
                    op.is_some_and(|op| self.merge_by(&op, behind))
                }
                _ => false,
            };
        if !has_fitted {
            self.spoil();
        }
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.how, &other.how) {
            (How::Opaque, How::Opaque) | (How::Mismatch, How::Mismatch) => true,
            (How::Elements(kind, op), How::Elements(other, also)) => kind == other && op == also,
            (How::User(size, _), How::User(other, _)) => size == other,
            _ => false,
        };
        same && self.bytes == other.bytes
    }
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
