// SPDX-License-Identifier: Apache-2.0
//! The crate `foca`, SWIM with suspicions, as the other protocol to compare with (decision 0092).
//! It carries no loads and knows no announced standstill, so it is compared without.

use super::process::{Input, Output, Process};
use foca::{AccumulatingRuntime, Codec, Foca, Header, Identity, Member, Message, State, Timer};
use foca::{NoCustomBroadcast, OwnedNotification, PeriodicParams};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::num::{NonZeroU8, NonZeroU32, NonZeroUsize};
use std::time::Duration;

/// Which settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    /// Its own for a local network: those of memberlist.
    Lan,
    /// A third of the times, as far as standstills of 2 s allow, and everything said more often.
    Quick,
}

fn config(settings: Settings, nodes: u16) -> foca::Config {
    let count = NonZeroU32::new(u32::from(nodes)).unwrap_or(NonZeroU32::MIN);
    let lan = foca::Config::new_lan(count);
    let periodic = |ms, count| {
        let num_members = NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        Some(PeriodicParams { frequency: Duration::from_millis(ms), num_members })
    };
    match settings {
        Settings::Lan => lan,
        Settings::Quick => foca::Config {
            probe_period: Duration::from_millis(400),
            probe_rtt: Duration::from_millis(130),
            max_transmissions: NonZeroU8::MAX,
            suspect_to_down_after: Duration::from_millis(2500),
            periodic_announce: periodic(5000, 1),
            periodic_announce_to_down_members: periodic(2000, 2),
            periodic_gossip: periodic(100, 3),
            ..lan
        },
    }
}

/// A node in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Id {
    node: u16,
    life: u16,
}

impl Identity for Id {
    type Addr = u16;

    fn renew(&self) -> Option<Self> {
        Some(Self { life: self.life + 1, ..*self })
    }

    fn addr(&self) -> u16 {
        self.node
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.life > adversary.life
    }
}

/// What a datagram of foca is made of: as short as it can be.
struct Plain;

/// Why it is none.
#[derive(Debug)]
struct Short(&'static str);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Short {}

fn get<const N: usize>(from: &mut impl bytes::Buf) -> Result<[u8; N], Short> {
    let mut taken = [0; N];
    from.try_copy_to_slice(&mut taken).map_err(|_| Short("too short")).map(|()| taken)
}

fn put(into: &mut impl bytes::BufMut, bytes: &[u8]) -> Result<(), Short> {
    if into.remaining_mut() < bytes.len() {
        return Err(Short("no room"));
    }
    into.put_slice(bytes);
    Ok(())
}

fn id_bytes(id: Id) -> [u8; 4] {
    let ([a, b], [c, d]) = (id.node.to_le_bytes(), id.life.to_le_bytes());
    [a, b, c, d]
}

fn get_id(from: &mut impl bytes::Buf) -> Result<Id, Short> {
    let [a, b, c, d] = get(from)?;
    Ok(Id { node: u16::from_le_bytes([a, b]), life: u16::from_le_bytes([c, d]) })
}

impl Codec<Id> for Plain {
    type Error = Short;

    fn encode_header(
        &mut self,
        header: &Header<Id>,
        mut into: impl bytes::BufMut,
    ) -> Result<(), Short> {
        let (kind, number, whom) = match &header.message {
            Message::Ping(number) => (0, *number, None),
            Message::Ack(number) => (1, *number, None),
            Message::PingReq { target, probe_number } => (2, *probe_number, Some(*target)),
            Message::IndirectPing { origin, probe_number } => (3, *probe_number, Some(*origin)),
            Message::IndirectAck { target, probe_number } => (4, *probe_number, Some(*target)),
            Message::ForwardedAck { origin, probe_number } => (5, *probe_number, Some(*origin)),
            Message::Announce => (6, 0, None),
            Message::Feed => (7, 0, None),
            Message::Gossip => (8, 0, None),
            Message::Broadcast => (9, 0, None),
            Message::TurnUndead => (10, 0, None),
        };
        let mut bytes = Vec::with_capacity(16);
        bytes.extend_from_slice(&id_bytes(header.src));
        bytes.extend_from_slice(&header.src_incarnation.to_le_bytes());
        bytes.extend_from_slice(&id_bytes(header.dst));
        bytes.extend_from_slice(&[kind, number]);
        bytes.extend(whom.into_iter().flat_map(id_bytes));
        put(&mut into, &bytes)
    }

    fn decode_header(&mut self, mut from: impl bytes::Buf) -> Result<Header<Id>, Short> {
        let src = get_id(&mut from)?;
        let src_incarnation = u16::from_le_bytes(get(&mut from)?);
        let dst = get_id(&mut from)?;
        let [kind, probe_number] = get(&mut from)?;
        let message = match kind {
            0 => Message::Ping(probe_number),
            1 => Message::Ack(probe_number),
            2 => Message::PingReq { target: get_id(&mut from)?, probe_number },
            3 => Message::IndirectPing { origin: get_id(&mut from)?, probe_number },
            4 => Message::IndirectAck { target: get_id(&mut from)?, probe_number },
            5 => Message::ForwardedAck { origin: get_id(&mut from)?, probe_number },
            6 => Message::Announce,
            7 => Message::Feed,
            8 => Message::Gossip,
            9 => Message::Broadcast,
            10 => Message::TurnUndead,
            _ => return Err(Short("unknown message")),
        };
        Ok(Header { src, src_incarnation, dst, message })
    }

    fn encode_member(
        &mut self,
        member: &Member<Id>,
        mut into: impl bytes::BufMut,
    ) -> Result<(), Short> {
        let [a, b, c, d] = id_bytes(*member.id());
        let [e, f] = member.incarnation().to_le_bytes();
        put(&mut into, &[a, b, c, d, e, f, member.state() as u8])
    }

    fn decode_member(&mut self, mut from: impl bytes::Buf) -> Result<Member<Id>, Short> {
        let id = get_id(&mut from)?;
        let [e, f, state] = get(&mut from)?;
        let state = match state {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Down,
            _ => return Err(Short("unknown state")),
        };
        Ok(Member::new(id, u16::from_le_bytes([e, f]), state))
    }
}

/// A process that speaks foca.
pub struct Theirs {
    foca: Foca<Id, Plain, SmallRng, NoCustomBroadcast>,
    /// By when they are due, in the order in which they were wanted.
    /// None: it says again that it is there, as long as nobody has answered.
    timers: BTreeMap<(u64, u64), Option<Timer<Id>>>,
    serial: u64,
}

impl Theirs {
    pub fn new(settings: Settings, nodes: u16, me: u16, life: u16, seed: u64) -> Self {
        let random = SmallRng::seed_from_u64(seed);
        let foca = Foca::new(Id { node: me, life }, config(settings, nodes), random, Plain);
        Self { foca, timers: BTreeMap::new(), serial: 0 }
    }

    /// Says to node 0 that it is there, and again as long as it is alone: the datagram may be lost.
    fn announce(&mut self, runtime: &mut AccumulatingRuntime<Id>, now: u64) {
        if self.foca.identity().node != 0 && self.foca.num_members() == 0 {
            let _ = self.foca.announce(Id { node: 0, life: 0 }, runtime);
            self.serial += 1;
            self.timers.insert((now + 300, self.serial), None);
        }
    }

    fn drain(&mut self, runtime: &mut AccumulatingRuntime<Id>, now: u64) -> Vec<Output> {
        let mut outputs = Vec::new();
        while let Some((to, bytes)) = runtime.to_send() {
            outputs.push(Output::Send { to: to.node, bytes: bytes.to_vec() });
        }
        while let Some((after, timer)) = runtime.to_schedule() {
            let due = now + u64::try_from(after.as_millis()).unwrap_or(u64::MAX / 2);
            self.serial += 1;
            self.timers.insert((due, self.serial), Some(timer));
        }
        while let Some(notification) = runtime.to_notify() {
            if let OwnedNotification::MemberDown(id) = notification {
                outputs.push(Output::Down(id.node, id.life));
            }
        }
        if let Some((&(due, _), _)) = self.timers.first_key_value() {
            outputs.push(Output::Timer(due));
        }
        outputs
    }
}

impl Process for Theirs {
    fn begin(&mut self, now: u64) -> Vec<Output> {
        let mut runtime = AccumulatingRuntime::new();
        self.announce(&mut runtime, now);
        self.drain(&mut runtime, now)
    }

    fn step(&mut self, input: Input, now: u64) -> Vec<Output> {
        let mut runtime = AccumulatingRuntime::new();
        match input {
            Input::Datagram { bytes, .. } => {
                let _ = self.foca.handle_data(&bytes, &mut runtime);
            }
            Input::Timer => {
                while let Some(entry) = self.timers.first_entry() {
                    if entry.key().0 > now {
                        break;
                    }
                    match entry.remove() {
                        Some(timer) => {
                            let _ = self.foca.handle_timer(timer, &mut runtime);
                        }
                        None => self.announce(&mut runtime, now),
                    }
                }
            }
            Input::Frozen(_) => {}
        }
        self.drain(&mut runtime, now)
    }

    fn incarnation(&self) -> u16 {
        self.foca.identity().life
    }

    fn ages(&self, _now: u64) -> Vec<u64> {
        Vec::new()
    }
}
