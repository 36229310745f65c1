// SPDX-License-Identifier: Apache-2.0
//! A process of a job: it meets the others, waits in calls, and answers between them.
//!
//! A thread that waits in a call drives the connections itself, so a call costs no switch of
//! threads. Between calls the library's own thread does it: who is asked whether it lives has to
//! answer while its program computes. One thread drives at a time, under one lock.

use crate::attend;
use crate::carrier::Carrier;
use crate::comm::Comm;
use crate::engine::{Engine, Rules};
use crate::error::{CallError, JoinError};
use crate::key::Key;
use crate::net::{self, Net};
use crate::parting::Seeker;
use crate::progress::Progress;
use fermata_ftcoll::Rank;
use fermata_ftcoll::ftco::Timeouts;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread that does not drive waits until it looks again, at most.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);
/// Between two looks while others are awaited at the beginning.
const MEETING_STEP: Duration = Duration::from_millis(50);
/// For what waits to be sent when the process leaves.
const FAREWELL: Duration = Duration::from_secs(2);

/// What carries the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The sockets by which the processes have found each other.
    #[default]
    Tcp,
    /// UCX, between hosts that it connects; between others, within a host, and where connections
    /// may be made again, the sockets.
    Ucx,
}

/// How a process takes part.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where to listen; port 0: one of the system's choice. Unless told otherwise, this host alone
    /// can connect.
    pub address: SocketAddr,
    /// How long others may take until they have connected; who has not is taken for dead.
    pub meeting: Duration,
    /// A process that is asked and says nothing for this long is dead.
    pub timeout: Duration,
    /// More of it for each level of the tree above the leaves.
    pub timeout_step: Duration,
    /// When a call gives up on living processes that do not enter it.
    pub deadline: Duration,
    /// Whether a connection that breaks is a death; else only silence is.
    pub heeds_closing: bool,
    /// Whether connections may be made again (`parting.rs`). All processes say the same.
    pub may_part: bool,
    /// The longest sleep, whatever is due. Between calls and in them nothing needs it; strangers,
    /// and members that are not found again after a parting, are given up so much later.
    pub sleep: Duration,
    /// What carries the messages, where both ends have it.
    pub transport: Transport,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            meeting: Duration::from_secs(60),
            timeout: Duration::from_secs(2),
            timeout_step: Duration::from_millis(2),
            deadline: Duration::from_secs(600),
            heeds_closing: true,
            may_part: false,
            sleep: Duration::from_secs(1),
            transport: Transport::default(),
        }
    }
}

/// A process that listens and has not met the others yet.
pub struct Door {
    net: Net,
    options: Options,
    address: SocketAddr,
}

impl Door {
    /// Listens for those who know the key.
    ///
    /// # Errors
    /// What the system says, or UCX, if it is to be used.
    pub fn open(key: Key, options: Options) -> Result<Self, JoinError> {
        let is_carried = options.transport == Transport::Ucx && !options.may_part;
        let carrier = is_carried.then(Carrier::open).transpose();
        let carrier = carrier.map_err(|why| JoinError::Carrier { why })?;
        let net = Net::listen(key, options.address, options.may_part, carrier);
        let (net, address) = net.map_err(JoinError::at("listening"))?;
        Ok(Self { net, options, address })
    }

    /// Where it listens: what the others have to be told.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Meets the others, whose addresses are in the order of their ranks, and closes the door.
    /// Blocks until all have come or the time is over; then who has not come counts as dead.
    ///
    /// # Errors
    /// There is no such rank, the system says no, or nobody has come.
    pub fn meet(self, me: Rank, addresses: &[SocketAddr]) -> Result<World, JoinError> {
        let ways: Vec<_> = addresses.iter().map(|&address| vec![address]).collect();
        self.meet_at(me, &ways)
    }

    /// The same if each process may be found at one of several addresses: those of its interfaces.
    /// They are tried one after the other until the process answers.
    ///
    /// # Errors
    /// As of [`Door::meet`].
    pub fn meet_at(mut self, me: Rank, ways: &[Vec<SocketAddr>]) -> Result<World, JoinError> {
        let size = Rank::try_from(ways.len()).unwrap_or(0);
        if me >= size {
            return Err(JoinError::Rank { rank: me, size });
        }
        let until = Instant::now() + self.options.meeting;
        self.net.meet(me, ways, until);
        let epoll = self.net.epoll();
        let mut arrivals = Vec::new();
        while !self.net.is_complete() && Instant::now() < until {
            self.net.turn(&mut arrivals).map_err(JoinError::at("meeting the others"))?;
            if !self.net.is_complete() {
                net::wait(&epoll, MEETING_STEP);
            }
        }
        self.net.close_door();
        if size > 1 && self.net.lost().count() + 1 == size as usize {
            return Err(JoinError::Alone { seconds: self.options.meeting.as_secs() });
        }
        World::begin(self.net, arrivals, self.options, me, size)
    }
}

pub(crate) struct State {
    pub engine: Engine,
    /// Threads in calls.
    pub callers: usize,
    pub is_driven: bool,
    pub is_closing: bool,
}

/// What the threads of a process share.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub turn: Condvar,
    pub epoll: Arc<OwnedFd>,
    pub door: attend::Door,
    /// Who is asked and lives has answered by then.
    pub timeout: Duration,
    pub sleep: Duration,
    pub deadline: Duration,
    pub meeting: Duration,
    /// What looks for the others while all connections are gone.
    pub seeker: Mutex<Option<Seeker>>,
    /// What else is to make progress while a call waits.
    pub progress: Mutex<Option<Progress>>,
    pub me: Rank,
    pub size: Rank,
    /// Communicators made so far, by their members: the next one's number.
    pub made: Mutex<std::collections::BTreeMap<Vec<Rank>, u64>>,
}

/// A process of a job, with all its connections. They close when it is dropped.
pub struct World {
    pub(crate) shared: Arc<Shared>,
    helper: Option<JoinHandle<()>>,
}

impl World {
    fn begin(
        net: Net,
        arrivals: Vec<net::Arrival>,
        options: Options,
        me: Rank,
        size: Rank,
    ) -> Result<Self, JoinError> {
        let system = JoinError::at("starting");
        let epoll = net.epoll();
        let door = attend::Door::new(&epoll).map_err(&system)?;
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let timeouts = Timeouts {
            base: nanoseconds(options.timeout),
            step: nanoseconds(options.timeout_step),
        };
        let mut engine = Engine::new(net, Rules { timeouts, heeds_closing: options.heeds_closing });
        engine.take_in(arrivals);
        let state = State { engine, callers: 0, is_driven: false, is_closing: false };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            turn: Condvar::new(),
            epoll,
            door,
            timeout: options.timeout,
            sleep: options.sleep,
            deadline: options.deadline,
            meeting: options.meeting,
            seeker: Mutex::default(),
            progress: Mutex::default(),
            me,
            size,
            made: Mutex::default(),
        });
        let theirs = Arc::clone(&shared);
        let helper = std::thread::Builder::new().name("ftcoll".into());
        let helper = helper.spawn(move || theirs.attend()).map_err(&system)?;
        Ok(Self { shared, helper: Some(helper) })
    }

    /// This process's rank.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.shared.me
    }

    /// Processes in the job, dead ones included.
    #[must_use]
    pub fn size(&self) -> Rank {
        self.shared.size
    }

    /// How many processes it has found to be reached by UCX.
    #[must_use]
    pub fn carried(&self) -> usize {
        self.shared.lock().engine.carried()
    }

    /// A communicator of all processes. All have to make theirs in the same order.
    #[must_use]
    pub fn comm(&self) -> Comm {
        let everybody: Vec<_> = (0..self.shared.size).collect();
        Comm::make(&self.shared, everybody, self.shared.me)
    }

    /// A communicator of some processes, this one among them; `None` if it is not, or if a rank
    /// occurs twice or is none. Members make those of the same members in the same order; nobody
    /// waits.
    #[must_use]
    pub fn comm_of(&self, members: &[Rank]) -> Option<Comm> {
        let me = members.iter().position(|&member| member == self.shared.me)?;
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        let is_odd = sorted.windows(2).any(|pair| pair[0] == pair[1])
            || sorted.last().is_some_and(|&last| last >= self.shared.size);
        let me = Rank::try_from(me).ok()?;
        (!is_odd).then(|| Comm::make(&self.shared, members.to_vec(), me))
    }

    /// Leaves the job: waits until all living processes do, or the deadline, and closes.
    ///
    /// # Errors
    /// Somebody did not come; all is closed nevertheless.
    pub fn leave(self) -> Result<(), CallError> {
        self.comm().barrier().map(|_| ())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shared.say_all(FAREWELL);
        self.shared.lock().is_closing = true;
        self.shared.door.ring();
        if let Some(helper) = self.helper.take() {
            // It ends now; a panic in it has been printed.
            let _ = helper.join();
        }
        self.shared.lock().engine.close();
    }
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has what was sent come to all who are connected, if that can be known, or at least leave.
    /// Blocks, at most so long. False: it has not.
    pub fn say_all(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            let mut state = self.lock();
            state.engine.ask();
            let is_said = !state.engine.is_sending() && !state.engine.is_owing();
            // What has come is for who drives, if somebody does.
            let is_working = state.is_driven || state.engine.progress().is_ok();
            if is_said || Instant::now() >= until || !is_working {
                return is_said;
            }
            drop(state);
            net::wait(&self.epoll, Duration::from_millis(1));
        }
    }
}
