// SPDX-License-Identifier: Apache-2.0
//! Random lives of a job: allocations that end, signals at any time, ranks and hosts that die,
//! checkpoints that fail or take longer than they used to, programs that always die at the same
//! place. The shell is played as it is in `fermata run`; time is a number.
//!
//! A history that breaks an invariant is named by its seed.

use fermata_policy::limit::{self, Advice, Limit, Settings};
use fermata_policy::recovery::{self, Cause, Ending, Recovery, Verdict};
use fermata_policy::signals::{self, SaveOn, Stopping};

const S: u64 = 1000;
const HISTORIES: u64 = 6000;
const TERM: i32 = 15;
/// What the ranks and mpirun take to end once they have been told to.
const EXIT_MS: u64 = 2 * S;
const TICK_MS: u64 = 500;

/// xorshift64*. Source: Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled" (2016).
struct Random(u64);

impl Random {
    fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What fate has in store.
struct World {
    random: Random,
    end_ms: Option<u64>,
    /// Until the end of the job, from its beginning.
    work_ms: u64,
    every_ms: u64,
    cost_ms: u64,
    /// Checkpoints cost at most so many times as much as at first.
    growth: u64,
    fails_percent: u64,
    /// A rank dies within so much time, on average.
    mttf_ms: u64,
    /// The program dies when it comes to this work, whatever one does.
    wall_ms: Option<u64>,
    signals_percent: u64,
    retries: u32,
}

impl World {
    fn of(seed: u64) -> Self {
        let mut random = Random::of(seed);
        let end_ms = random.chance(70).then(|| 600 * S + random.below(20_000 * S));
        let work_ms = 60 * S + random.below(12_000 * S);
        Self {
            end_ms,
            work_ms,
            every_ms: if random.chance(80) { 30 * S + random.below(1800 * S) } else { 0 },
            cost_ms: 100 + random.below(40 * S),
            growth: 1 + random.below(2),
            fails_percent: random.below(4) * 5,
            mttf_ms: if random.chance(60) { 200 * S + random.below(8000 * S) } else { u64::MAX },
            wall_ms: random.chance(15).then(|| random.below(work_ms)),
            signals_percent: if random.chance(40) { 100 } else { 0 },
            retries: u32::try_from(random.below(30)).unwrap_or(0),
            random,
        }
    }
}

/// A checkpoint under way.
#[derive(Clone, Copy)]
struct Checkpoint {
    begun_ms: u64,
    ends_ms: u64,
    work_ms: u64,
    stops: bool,
    fails: bool,
}

/// What a history was like.
#[derive(Debug, Default)]
struct Story {
    verdict: Option<Verdict>,
    /// How the last run ended; none: the allocation ended first.
    ending: Option<Ending>,
    runs: u32,
    /// Attempts to save and stop, of the run that has the most.
    stops_committed: u32,
    /// Work that was done and is in no snapshot, of what ended unsaved.
    lost_ms: u64,
    /// The longest time that work may wait for a snapshot.
    bound_ms: u64,
    killed_by_end: bool,
    /// The attempt to save before the end has failed.
    stop_failed: bool,
    retried_after_end: bool,
    /// A run was begun after a signal had asked for the end.
    begun_after_signal: bool,
    snapshots: u32,
    longest_cost_ms: u64,
}

/// A life.
struct Life {
    world: World,
    limit: Limit,
    stopping: Stopping,
    now: u64,
    work_ms: u64,
    /// Of the newest snapshot.
    saved_ms: u64,
    checkpoint: Option<Checkpoint>,
    /// A save-and-stop waits for the checkpoint under way.
    waits: bool,
    next_periodic_ms: u64,
    /// When the run dies of a rank, and when it is sent a signal.
    dies_ms: u64,
    signals: Vec<u64>,
    exits_ms: Option<u64>,
    story: Story,
}

impl Life {
    fn new(world: World) -> Self {
        let mut life = Self {
            limit: Limit::new(Settings::default(), 0),
            stopping: Stopping::new(SaveOn::of_batch_systems(false)),
            now: 0,
            work_ms: 0,
            saved_ms: 0,
            checkpoint: None,
            waits: false,
            next_periodic_ms: 0,
            dies_ms: 0,
            signals: vec![],
            exits_ms: None,
            story: Story::default(),
            world,
        };
        life.limit.step(limit::Event::End(life.world.end_ms), 0);
        if life.world.random.chance(life.world.signals_percent) {
            let at = life.world.random.below(10_000 * S);
            life.signals = vec![at, at + life.world.random.below(5 * S), at + 30 * S];
        }
        life
    }

    /// A run, from the newest snapshot to its end. `None`: the allocation has ended first.
    fn run(&mut self) -> Option<Ending> {
        self.story.runs += 1;
        self.work_ms = self.saved_ms;
        (self.checkpoint, self.waits, self.exits_ms) = (None, false, None);
        self.stopping = Stopping::new(SaveOn::of_batch_systems(false));
        self.next_periodic_ms = self.now + self.world.every_ms;
        let mttf = self.world.mttf_ms;
        let life_ms = if mttf == u64::MAX { mttf } else { self.world.random.below(2 * mttf) };
        self.dies_ms = self.now.saturating_add(life_ms);
        loop {
            if self.world.end_ms.is_some_and(|end| self.now >= end) {
                self.story.killed_by_end = true;
                return None;
            }
            if let Some(ending) = self.tick() {
                return Some(ending);
            }
            self.now += TICK_MS;
        }
    }

    fn tick(&mut self) -> Option<Ending> {
        if let Some(exits) = self.exits_ms {
            return (self.now >= exits).then_some(Ending::Stopped);
        }
        if self.now >= self.dies_ms {
            self.end_others();
            let rank = Some(u32::try_from(self.world.random.below(8)).unwrap_or(0));
            return Some(Ending::Lost(Cause::Rank { rank, signal: Some(9) }));
        }
        self.work_ms += TICK_MS;
        if self.world.wall_ms.is_some_and(|wall| self.work_ms >= wall) {
            return Some(Ending::Lost(Cause::Rank { rank: Some(1), signal: Some(11) }));
        }
        if self.work_ms >= self.world.work_ms {
            return Some(Ending::Done);
        }
        self.end_checkpoint();
        while self.signals.first().is_some_and(|at| *at <= self.now) {
            self.signals.remove(0);
            self.stop_by(signals::Event::Signal(TERM));
        }
        if matches!(self.limit.step(limit::Event::Tick, self.now), Advice::Save | Advice::Late) {
            self.stop_by(signals::Event::Limit);
        }
        self.stop_by(signals::Event::Tick);
        let is_due = self.world.every_ms > 0 && self.now >= self.next_periodic_ms;
        if self.checkpoint.is_none() && self.exits_ms.is_none() && (self.waits || is_due) {
            self.begin(self.waits);
        }
        None
    }

    /// mpirun does, by signals; that a rank is lost is known before or a little later.
    fn end_others(&mut self) {
        let mut events = [signals::Event::OfRank(TERM), signals::Event::RankLost];
        if self.world.random.chance(50) {
            events.reverse();
        }
        let before = self.stopping.why();
        for event in events {
            self.stop_by(event);
        }
        self.stop_by(signals::Event::RankLost);
        assert_eq!(self.stopping.why(), before, "mpirun's own signal is nobody's wish");
    }

    fn stop_by(&mut self, event: signals::Event) {
        match self.stopping.step(event, self.now) {
            Some(signals::Action::Save(_)) => {
                assert!(!self.waits, "two attempts at a time");
                assert!(!self.checkpoint.is_some_and(|c| c.stops), "two attempts at a time");
                assert!(self.exits_ms.is_none(), "an attempt after a commit");
                self.waits = true;
            }
            Some(signals::Action::Pass(_)) => self.dies_ms = self.now,
            None => {}
        }
    }

    fn begin(&mut self, stops: bool) {
        let times = 100 + self.world.random.below(100 * (self.world.growth - 1) + 1);
        let cost = self.world.cost_ms * times / 100;
        self.story.longest_cost_ms = self.story.longest_cost_ms.max(cost);
        self.waits &= !stops;
        self.checkpoint = Some(Checkpoint {
            begun_ms: self.now,
            ends_ms: self.now + cost,
            work_ms: self.work_ms,
            stops,
            fails: self.world.random.chance(self.world.fails_percent),
        });
    }

    fn end_checkpoint(&mut self) {
        let Some(checkpoint) = self.checkpoint.filter(|c| self.now >= c.ends_ms) else { return };
        self.checkpoint = None;
        self.next_periodic_ms = self.now + self.world.every_ms;
        if checkpoint.fails {
            self.story.stop_failed |= checkpoint.stops;
            if checkpoint.stops {
                self.stop_by(signals::Event::Failed);
            }
            return;
        }
        self.story.snapshots += 1;
        self.saved_ms = checkpoint.work_ms;
        let cost_ms = self.now - checkpoint.begun_ms;
        self.limit.step(limit::Event::Committed { cost_ms }, self.now);
        if checkpoint.stops {
            self.stop_by(signals::Event::Committed);
            self.story.stops_committed += 1;
            self.exits_ms = Some(self.now + EXIT_MS);
        }
    }

    /// All runs of the chain.
    fn live(mut self) -> (World, Story) {
        let mut recovery = Recovery::new(self.world.retries);
        loop {
            let ending = self.run();
            let is_done = matches!(ending, Some(Ending::Done | Ending::Stopped));
            if !is_done {
                let lost = self.work_ms - self.saved_ms;
                self.story.lost_ms = self.story.lost_ms.max(lost);
            }
            self.story.ending.clone_from(&ending);
            let Some(ending) = ending else { break };
            let newest_epoch = self.story.snapshots;
            let mut event = recovery::Event::Ended { ending, newest_epoch };
            loop {
                match recovery.step(event, self.now) {
                    Some(recovery::Action::Wait { until_ms }) => self.now = until_ms,
                    Some(recovery::Action::Restart { .. }) => break,
                    Some(recovery::Action::End(verdict)) => {
                        self.story.verdict = Some(verdict);
                        self.story.bound_ms = self.bound_ms();
                        return (self.world, self.story);
                    }
                    None => panic!("a chain that neither ends nor runs"),
                }
                event = match self.limit.step(limit::Event::Tick, self.now) {
                    _ if self.stopping.why().is_some() => recovery::Event::StopAsked,
                    Advice::Save | Advice::Late => recovery::Event::StopAsked,
                    Advice::NoEnd | Advice::Sleep { .. } => recovery::Event::Tick,
                };
            }
            self.story.begun_after_signal |= self.stopping.why().is_some();
            self.story.retried_after_end |= is_done;
        }
        self.story.bound_ms = self.bound_ms();
        (self.world, self.story)
    }

    /// An interval, the checkpoint that ends it, and once more of both where one may fail.
    fn bound_ms(&self) -> u64 {
        self.world.every_ms + 2 * self.story.longest_cost_ms + 2 * TICK_MS
    }
}

/// What holds of every history.
fn check(seed: u64) -> Story {
    let (world, story) = Life::new(World::of(seed)).live();
    assert!(story.stops_committed <= 1, "seed {seed}: {story:?}");
    assert!(!story.retried_after_end, "seed {seed}: {story:?}");
    assert!(!story.begun_after_signal, "seed {seed}: {story:?}");
    assert!(story.runs <= world.retries + 1, "seed {seed}: {story:?}");
    if story.stops_committed > 0 {
        let may_be = [Some(Ending::Stopped), None];
        assert!(may_be.contains(&story.ending), "seed {seed}: {story:?}");
    }
    let is_saved_often = world.every_ms > 0 && world.fails_percent == 0;
    if is_saved_often {
        assert!(story.lost_ms <= story.bound_ms, "seed {seed}: {story:?}");
    }
    if world.fails_percent == 0 && world.growth == 1 {
        assert!(!story.killed_by_end, "seed {seed}: saved too late: {story:?}");
    }
    story
}

#[test]
fn whatever_happens_the_invariants_hold() {
    let (mut stopped, mut done, mut loops, mut broken) = (0, 0, 0, 0);
    for seed in 1..=HISTORIES {
        let story = check(seed);
        match (&story.ending, &story.verdict) {
            (Some(Ending::Stopped), _) => stopped += 1,
            (Some(Ending::Done), _) => done += 1,
            (_, Some(Verdict::CrashLoop(..))) => loops += 1,
            _ => broken += 1,
        }
    }
    // Of each kind there are many, or the histories show little.
    for count in [stopped, done, loops, broken] {
        assert!(count > HISTORIES / 100, "{stopped} {done} {loops} {broken}");
    }
}

#[test]
fn a_program_that_dies_at_one_place_ends_its_chain() {
    for seed in 1..=2000 {
        let mut world = World::of(seed);
        (world.mttf_ms, world.end_ms, world.signals_percent) = (u64::MAX, None, 0);
        (world.wall_ms, world.retries, world.fails_percent) = (Some(world.work_ms / 2), 1000, 0);
        let (_, story) = Life::new(world).live();
        let is_loop = matches!(story.verdict, Some(Verdict::CrashLoop(_, recovery::LOOP_LENGTH)));
        assert!(is_loop, "seed {seed}: {story:?}");
    }
}
