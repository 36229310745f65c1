// SPDX-License-Identifier: Apache-2.0
use super::*;

fn data(how: How, bytes: &[u8]) -> Data {
    Data { bytes: Arc::new(Buffer::copy_of(bytes)), how }
}

fn merged(kind: Kind, op: Op, a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut value = data(How::Elements(kind, op), a);
    value.merge(&data(How::Elements(kind, op), b));
    assert!(matches!(value.how, How::Elements(..)), "{kind:?} {op:?}");
    value.bytes.to_vec()
}

#[test]
fn every_operation_does_what_it_says() {
    let ints = |a: i32, b: i32, op| {
        let bytes = merged(Kind::I32, op, &a.to_ne_bytes(), &b.to_ne_bytes());
        i32::from_ne_bytes(bytes.try_into().unwrap())
    };
    let expected = [
        (Op::Sum, -2),
        (Op::Prod, -48),
        (Op::Min, -8),
        (Op::Max, 6),
        (Op::Land, 1),
        (Op::Lor, 1),
        (Op::Lxor, 0),
        (Op::Band, 0),
        (Op::Bor, -2),
        (Op::Bxor, -2),
    ];
    for (op, result) in expected {
        assert_eq!(ints(6, -8, op), result, "{op:?}");
    }
    assert_eq!(ints(i32::MAX, 1, Op::Sum), i32::MIN);
    let floats = |op| {
        let bytes = merged(Kind::F64, op, &1.5f64.to_ne_bytes(), &(-2.0f64).to_ne_bytes());
        f64::from_ne_bytes(bytes.try_into().unwrap())
    };
    let expected = [(Op::Sum, -0.5), (Op::Prod, -3.0), (Op::Min, -2.0), (Op::Max, 1.5)];
    for (op, result) in expected {
        assert!((floats(op) - result).abs() < 1e-12, "{op:?}");
    }
}

#[test]
fn complex_numbers_are_multiplied_as_such() {
    let complex = |re: f32, im: f32| [re.to_ne_bytes(), im.to_ne_bytes()].concat();
    let product = merged(Kind::C32, Op::Prod, &complex(1.0, 2.0), &complex(3.0, -1.0));
    assert_eq!(product, complex(5.0, 5.0));
}

#[test]
fn the_smaller_index_of_equal_values_counts() {
    let pair =
        |value: f64, index: i32| [&value.to_ne_bytes()[..], &index.to_ne_bytes(), &[0; 4]].concat();
    let of = |op, a: (f64, i32), b: (f64, i32)| {
        let bytes = merged(Kind::F64Index, op, &pair(a.0, a.1), &pair(b.0, b.1));
        i32::from_ne_bytes(bytes[8..12].try_into().unwrap())
    };
    assert_eq!(of(Op::MinLoc, (1.0, 7), (1.0, 3)), 3);
    assert_eq!(of(Op::MinLoc, (1.0, 7), (0.5, 9)), 9);
    assert_eq!(of(Op::MaxLoc, (1.0, 7), (1.0, 9)), 7);
    assert_eq!(of(Op::MaxLoc, (1.0, 7), (0.5, 3)), 7);
}

#[test]
fn each_type_has_what_it_says_and_keeps_its_length() {
    for kind in KINDS {
        assert_eq!(Kind::of(kind as u8), Some(kind));
        for op in OPS {
            assert_eq!(Op::of(op as u8), Some(op));
            let bytes = vec![1; 3 * kind.bytes()];
            let mut value = data(How::Elements(kind, op), &bytes);
            value.merge(&data(How::Elements(kind, op), &bytes));
            let fits = matches!(value.how, How::Elements(..));
            assert_eq!(fits, kind.has(op), "{kind:?} {op:?}");
            assert_eq!(value.bytes.len(), if fits { bytes.len() } else { 0 });
        }
    }
}

#[test]
fn what_does_not_fit_says_so_to_all() {
    let sum = |bytes: &[u8]| data(How::Elements(Kind::U8, Op::Sum), bytes);
    for other in
        [sum(&[1, 2]), data(How::Elements(Kind::I8, Op::Sum), &[1]), data(How::Opaque, &[1])]
    {
        let mut value = sum(&[1]);
        value.merge(&other);
        assert!(matches!(value.how, How::Mismatch));
        value.merge(&sum(&[1]));
        assert!(matches!(value.how, How::Mismatch));
        let mut value = sum(&[1]);
        value.merge(&data(How::Mismatch, &[]));
        assert!(matches!(value.how, How::Mismatch));
    }
}

#[test]
fn the_programs_own_keeps_its_order() {
    let slot = Slot::default();
    let function: Arc<Function> = Arc::new(|ahead, behind| {
        for (a, b) in ahead.iter().zip(behind) {
            *b = a.wrapping_mul(10).wrapping_add(*b);
        }
    });
    slot.set(Some(UserOp { element: 1, commutes: false, function }));
    let mut value = data(How::User(1, slot.clone()), &[1, 2]);
    value.merge(&data(How::User(1, slot.clone()), &[3, 4]));
    assert_eq!(**value.bytes, [13, 24]);
    slot.set(None);
    value.merge(&data(How::User(1, slot), &[3, 4]));
    assert!(matches!(value.how, How::Mismatch));
}
