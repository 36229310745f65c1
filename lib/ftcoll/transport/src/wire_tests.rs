// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn value() -> impl Strategy<Value = Option<Data>> {
    let how = prop_oneof![
        Just(How::Opaque),
        Just(How::Mismatch),
        (1..=17u8, 1..=12u8)
            .prop_map(|(kind, op)| How::Elements(Kind::of(kind).unwrap(), Op::of(op).unwrap())),
        (1..9u32).prop_map(|element| How::User(element, Slot::default())),
    ];
    let data = (how, prop::collection::vec(any::<u8>(), 0..40));
    prop::option::of(
        data.prop_map(|(how, bytes)| Data { bytes: Arc::new(Buffer::copy_of(&bytes)), how }),
    )
}

fn ranks() -> impl Strategy<Value = Vec<Rank>> {
    prop::collection::vec(0..9u32, 0..9)
}

fn body() -> impl Strategy<Value = Body<Data>> {
    let endings = [Ending::Complete, Ending::RootFailed, Ending::Forgotten];
    let wanted = [
        Wanted::Verdict,
        Wanted::Contribution { as_root: true },
        Wanted::Contribution { as_root: false },
        Wanted::Life,
    ];
    prop_oneof![
        (value(), ranks())
            .prop_map(|(value, missing)| Body::Contribution(Contribution { value, missing })),
        (any::<u32>(), 0..3usize, value(), ranks()).prop_map(move |(root, at, value, missing)| {
            Body::Verdict { root, verdict: Verdict { value, missing, ending: endings[at] } }
        }),
        (0..4usize).prop_map(move |at| Body::KeepAlive(wanted[at])),
        Just(Body::Ack),
    ]
}

proptest! {
    /// What is written is read again, and no shorter or longer body is taken.
    #[test]
    fn messages_come_back(group: u64, root in 0..9u32, is_large: bool, epoch: u32, body in body()) {
        let to = Address { group, lane: LaneKey { root, is_large } };
        let message = Message { epoch, body };
        let mut frame = Vec::new();
        write(to, &message, &mut frame);
        let bytes = &frame[PREFIX_BYTES..];
        prop_assert_eq!(body_length(&frame), Ok(Some(bytes.len())));
        prop_assert_eq!(address(bytes), Ok(to));
        let slot = Slot::default();
        prop_assert_eq!(&read(bytes, 9, &slot), &Ok(message));
        for end in 0..bytes.len() {
            prop_assert_eq!(read(&bytes[..end], 9, &slot), Err(Malformed));
        }
        let longer = [bytes, &[0]].concat();
        prop_assert_eq!(read(&longer, 9, &slot), Err(Malformed));
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = read(&bytes, 9, &Slot::default());
        let _ = body_length(&bytes);
        let _ = ack_of(&bytes);
    }
}

#[test]
fn a_rank_outside_the_group_is_malformed() {
    let to = Address { group: 1, lane: LaneKey { root: 0, is_large: false } };
    let body = Body::Contribution(Contribution { value: None, missing: vec![9] });
    let mut frame = Vec::new();
    write(to, &Message { epoch: 1, body }, &mut frame);
    assert_eq!(read(&frame[PREFIX_BYTES..], 9, &Slot::default()), Err(Malformed));
    assert!(read(&frame[PREFIX_BYTES..], 10, &Slot::default()).is_ok());
}

#[test]
fn only_a_keepalive_is_answered_for_a_group_to_come() {
    let to = Address { group: 7, lane: LaneKey { root: 2, is_large: true } };
    let frame = |body| {
        let mut frame = Vec::new();
        write(to, &Message { epoch: 5, body }, &mut frame);
        frame
    };
    let asks = frame(Body::KeepAlive(Wanted::Life));
    let ack = ack_of(&asks[PREFIX_BYTES..]).unwrap();
    assert_eq!(ack, frame(Body::Ack));
    assert!(ack_of(&ack[PREFIX_BYTES..]).is_none());
}
