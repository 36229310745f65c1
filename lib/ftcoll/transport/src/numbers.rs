// SPDX-License-Identifier: Apache-2.0
//! The predefined operations on runs of elements, in the byte order of the machine.

use crate::value::{Kind, Op};

/// An element of a predefined type.
trait Element: Copy {
    const BYTES: usize;
    fn read(from: &[u8]) -> Self;
    fn write(self, to: &mut [u8]);
}

/// One that can be added and compared.
trait Number: Element + PartialOrd {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

/// One that has bits and a truth.
trait Integer: Number {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn is_true(self) -> bool;
    fn truth(value: bool) -> Self;
}

macro_rules! element {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const BYTES: usize = size_of::<Self>();
            fn read(from: &[u8]) -> Self {
                from.first_chunk().map_or(Self::default(), |bytes| Self::from_ne_bytes(*bytes))
            }
            fn write(self, to: &mut [u8]) {
                to[..Self::BYTES].copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
        }
        impl Integer for $type {
            fn and(self, other: Self) -> Self { self & other }
            fn or(self, other: Self) -> Self { self | other }
            fn xor(self, other: Self) -> Self { self ^ other }
            fn is_true(self) -> bool { self != 0 }
            fn truth(value: bool) -> Self { Self::from(value) }
        }
    )*};
}

macro_rules! floating {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn plus(self, other: Self) -> Self { self + other }
            fn times(self, other: Self) -> Self { self * other }
        }
    )*};
}

element!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);
integer!(i8, i16, i32, i64, u8, u16, u32, u64);
floating!(f32, f64);

/// A complex number: its parts, one behind the other.
#[derive(Clone, Copy)]
struct Complex<T>(T, T);

impl<T: Element> Element for Complex<T> {
    const BYTES: usize = 2 * T::BYTES;
    fn read(from: &[u8]) -> Self {
        Self(T::read(from), T::read(&from[T::BYTES..]))
    }
    fn write(self, to: &mut [u8]) {
        self.0.write(to);
        self.1.write(&mut to[T::BYTES..]);
    }
}

/// A value with its index, behind it at a multiple of four bytes. The size of the whole is a
/// multiple of the value's.
#[derive(Clone, Copy)]
struct Indexed<T>(T, i32);

impl<T: Element> Indexed<T> {
    const AT: usize = if T::BYTES < 4 { 4 } else { T::BYTES };
}

impl<T: Element> Element for Indexed<T> {
    const BYTES: usize = 2 * Self::AT;
    fn read(from: &[u8]) -> Self {
        Self(T::read(from), i32::read(&from[Self::AT..]))
    }
    fn write(self, to: &mut [u8]) {
        self.0.write(to);
        self.1.write(&mut to[Self::AT..]);
    }
}

fn each<T: Element>(into: &mut [u8], behind: &[u8], f: impl Fn(T, T) -> T) -> bool {
    let pairs = into.chunks_exact_mut(T::BYTES).zip(behind.chunks_exact(T::BYTES));
    pairs.for_each(|(a, b)| f(T::read(a), T::read(b)).write(a));
    true
}

fn number<T: Number>(op: Op, into: &mut [u8], behind: &[u8]) -> bool {
    match op {
        Op::Sum => each(into, behind, T::plus),
        Op::Prod => each(into, behind, T::times),
        Op::Min => each(into, behind, |a: T, b: T| if b < a { b } else { a }),
        Op::Max => each(into, behind, |a: T, b: T| if b > a { b } else { a }),
        _ => false,
    }
}

fn integer<T: Integer>(op: Op, into: &mut [u8], behind: &[u8]) -> bool {
    match op {
        Op::Land => each(into, behind, |a: T, b: T| T::truth(a.is_true() && b.is_true())),
        Op::Lor => each(into, behind, |a: T, b: T| T::truth(a.is_true() || b.is_true())),
        Op::Lxor => each(into, behind, |a: T, b: T| T::truth(a.is_true() != b.is_true())),
        Op::Band => each(into, behind, T::and),
        Op::Bor => each(into, behind, T::or),
        Op::Bxor => each(into, behind, T::xor),
        _ => number::<T>(op, into, behind),
    }
}

fn complex<T: Number + std::ops::Sub<Output = T>>(op: Op, into: &mut [u8], behind: &[u8]) -> bool {
    type C<T> = Complex<T>;
    match op {
        Op::Sum => each(into, behind, |a: C<T>, b: C<T>| Complex(a.0.plus(b.0), a.1.plus(b.1))),
        Op::Prod => each(into, behind, |a: C<T>, b: C<T>| {
            let real = a.0.times(b.0) - a.1.times(b.1);
            Complex(real, a.0.times(b.1).plus(a.1.times(b.0)))
        }),
        _ => false,
    }
}

fn indexed<T: Number>(op: Op, into: &mut [u8], behind: &[u8]) -> bool {
    let choose = |is_better: fn(&T, &T) -> bool| {
        move |a: Indexed<T>, b: Indexed<T>| {
            if is_better(&b.0, &a.0) || (a.0 == b.0 && b.1 < a.1) { b } else { a }
        }
    };
    match op {
        Op::MinLoc => each(into, behind, choose(T::lt)),
        Op::MaxLoc => each(into, behind, choose(T::gt)),
        _ => false,
    }
}

/// Puts `into op behind` into `into`, element by element. False, and nothing is changed: the
/// operation is not defined for the type.
pub(crate) fn combine(kind: Kind, op: Op, into: &mut [u8], behind: &[u8]) -> bool {
    match kind {
        Kind::I8 => integer::<i8>(op, into, behind),
        Kind::I16 => integer::<i16>(op, into, behind),
        Kind::I32 => integer::<i32>(op, into, behind),
        Kind::I64 => integer::<i64>(op, into, behind),
        Kind::U8 => integer::<u8>(op, into, behind),
        Kind::U16 => integer::<u16>(op, into, behind),
        Kind::U32 => integer::<u32>(op, into, behind),
        Kind::U64 => integer::<u64>(op, into, behind),
        Kind::F32 => number::<f32>(op, into, behind),
        Kind::F64 => number::<f64>(op, into, behind),
        Kind::C32 => complex::<f32>(op, into, behind),
        Kind::C64 => complex::<f64>(op, into, behind),
        Kind::I16Index => indexed::<i16>(op, into, behind),
        Kind::I32Index => indexed::<i32>(op, into, behind),
        Kind::I64Index => indexed::<i64>(op, into, behind),
        Kind::F32Index => indexed::<f32>(op, into, behind),
        Kind::F64Index => indexed::<f64>(op, into, behind),
    }
}
