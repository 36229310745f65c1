// SPDX-License-Identifier: Apache-2.0
//! Random programs on square grids of ranks, for the simulator.
//!
//! All ranks do the same sequence of steps, each of which is computing, a message to a random
//! partner, or a collective call on the rows, the columns or the world; ranks are at different
//! steps when the request comes. Such programs come to their end, for the sequence is one order of
//! all calls that every rank keeps. In an uneven program half of them have no part in a step.

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Side of the grid; its square is the number of ranks.
    pub side: u32,
    /// Steps of each rank's program.
    pub steps: u32,
    /// Length of a computing step, on average.
    pub compute_ns: u64,
    /// Of a hundred steps these are collective calls; half of the rest are messages.
    pub collectives: u64,
    /// In each step every second row, column or sender has no part, at random; so ranks get apart.
    pub uneven: bool,
    /// Makes the program and the times.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Compute(u64),
    Send(u32),
    Recv(u32),
    Collective(u64),
}

/// Small, seeded, good enough: splitmix64 (Steele, Lea and Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

pub(crate) const WORLD: u64 = 1;

pub(crate) fn row(rank: u32, side: u32) -> u64 {
    2 + u64::from(rank / side)
}

pub(crate) fn column(rank: u32, side: u32) -> u64 {
    2 + u64::from(side) + u64::from(rank % side)
}

pub(crate) fn programs(setting: &Setting, random: &mut Random) -> Vec<Vec<Step>> {
    let ranks = setting.side * setting.side;
    let mut all = vec![Vec::new(); ranks as usize];
    for _ in 0..setting.steps {
        for rank in 0..ranks {
            let time = random.below(2 * setting.compute_ns);
            all[rank as usize].push(Step::Compute(time));
        }
        let kind = random.below(100);
        let is_whole = !setting.uneven;
        if kind < setting.collectives {
            // One in eight over the world, the others over rows or columns.
            let which = random.below(8);
            let lines = (0..setting.side).map(|_| is_whole || random.below(2) == 0);
            let takes_part: Vec<bool> = lines.collect();
            for rank in 0..ranks {
                let (group, line) = match which {
                    0 => (WORLD, None),
                    1..=4 => (row(rank, setting.side), Some(rank / setting.side)),
                    _ => (column(rank, setting.side), Some(rank % setting.side)),
                };
                if line.is_none_or(|line| takes_part[line as usize]) {
                    all[rank as usize].push(Step::Collective(group));
                }
            }
        } else if kind < setting.collectives + (100 - setting.collectives) / 2 {
            for from in 0..ranks {
                let to = (u64::from(from) + 1 + random.below(u64::from(ranks) - 1)) as u32 % ranks;
                if is_whole || random.below(2) == 0 {
                    all[from as usize].push(Step::Send(to));
                    all[to as usize].push(Step::Recv(from));
                }
            }
        }
    }
    all
}
