// SPDX-License-Identifier: Apache-2.0
//! What a plan costs: the expected time of a job under it, over the time of its work alone.
//!
//! A plan is a chain of stages, one per level, freshest first. `every` checkpoints of a stage make
//! one of the next. A *block* of stage l is the time between two of its checkpoints becoming valid.
//! Failures that stage l is the first to survive come at rate `rate` and throw the job back to the
//! beginning of the block, after a recovery.
//!
//! Let L(s) be the Laplace transform of the time that a block takes while only failures of this
//! stage and of those before it come. Failures of later stages are independent of that time, so
//! exp(-r X) is the probability that none of rate r comes within X, and its mean is L(r). With
//! M(s), the transform of the block while only failures of stages before it come, which is a
//! product of blocks of the stage before, and with r the rate of this stage's own failures,
//!
//! ```text
//! L(s) = M(s + r) + r / (s + r) * (1 - M(s + r)) * rho(s) * L(s),
//! ```
//!
//! where rho is the transform of its recovery. So L of the last stage follows from one L of each
//! stage, and the expected time of its block is (1 / M(r) - 1) / (r * Mr(r)), Mr being what rho is
//! made of. For one stage this is the exact formula of Daly (2006) for exponential failures.
//!
//! What is made behind the job becomes valid late, by the *lag*: after a failure that much has to
//! be computed again before the block begins, by blocks of the stage before it; they count by real
//! powers. It also slows the job down, which counts as work.
//!
//! Approximate in three places, which `./x sim plan` bounds: powers that are no integers; a level
//! that is being made when nodes are lost is not delayed; of two failures close to each other only
//! the second's own class decides, beside what `optimise` adds for broken sets.

/// One level of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// The job stands while it is made, seconds.
    pub pause_s: f64,
    /// It is made behind the running job for so long, seconds.
    pub behind_s: f64,
    /// The share of its speed that the job loses meanwhile.
    pub slowdown: f64,
    /// From a failure to the job running again from this level, seconds.
    pub restart_s: f64,
    /// Failures per second that this level is the first to survive.
    pub rate: f64,
}

/// A block of each stage, without failures.
#[derive(Clone, Copy, Debug)]
struct Block {
    stage: Stage,
    /// How many blocks of the stage before it are in it, with the time that it slows the job down.
    parts: f64,
    /// Seconds.
    length_s: f64,
    /// The lag in blocks of the stage before it; of the first stage, in seconds.
    lag: f64,
}

/// Most stages that a chain has.
pub const MOST_STAGES: usize = 8;

/// The expected time over the time of the work, less one: 0.1 is ten per cent of overhead. Infinite
/// if a level is not made before it is due again. `interval_s` is the work between checkpoints;
/// `every[l]` checkpoints of stage l-1 make one of stage l, and `every[0]` is 1.
///
/// Allocates nothing.
pub fn overhead(stages: &[Stage], every: &[f64], interval_s: f64) -> f64 {
    let Some(blocks) = blocks(stages, every, interval_s) else { return f64::INFINITY };
    let blocks = &blocks[..stages.len()];
    let Some((last, before)) = blocks.split_last() else { return f64::INFINITY };
    let work_s = interval_s * every.iter().product::<f64>();
    // A level that nothing needs fails once in 30 billion years.
    let rate = last.stage.rate.max(1e-18);
    let part = ln_block(before, rate);
    let block = if before.is_empty() { -rate * last.length_s } else { part * last.parts };
    let block = block + ln_pause(before, rate, last.stage.pause_of_later(before));
    let redo = if before.is_empty() { -rate * last.lag } else { part * last.lag };
    let recovery = ln_restart(before, rate, last.stage.restart_s) + redo;
    (-block).exp_m1() / rate * (-recovery).exp() / work_s - 1.0
}

impl Stage {
    /// The pause of the first stage is in its block; others' come after blocks of those before.
    fn pause_of_later(&self, before: &[Block]) -> f64 {
        if before.is_empty() { 0.0 } else { self.pause_s }
    }
}

/// The share of time that levels are being made, and the blocks; `None` if that is not possible.
fn blocks(stages: &[Stage], every: &[f64], interval_s: f64) -> Option<[Block; MOST_STAGES]> {
    let first = *stages.first()?;
    let mut blocks = [Block { stage: first, parts: 1.0, length_s: 0.0, lag: 0.0 }; MOST_STAGES];
    let (mut busy, mut lag_s, mut length_s) = (0.0, 0.0, 0.0);
    for (at, stage) in stages.iter().enumerate() {
        let slowed_s = stage.slowdown * stage.behind_s;
        let before_s = length_s;
        let inside_s =
            if at == 0 { interval_s + stage.pause_s } else { before_s * every[at] } + slowed_s;
        length_s = inside_s + if at == 0 { 0.0 } else { stage.pause_s };
        // Cheaper levels go first, and stretch what is made meanwhile.
        lag_s += stage.behind_s / (1.0 - busy);
        busy += stage.behind_s / length_s;
        if busy >= 0.95 || lag_s > length_s {
            return None;
        }
        let parts = if at == 0 { 1.0 } else { inside_s / before_s };
        let lag = if at == 0 { lag_s } else { lag_s / before_s };
        blocks[at] = Block { stage: *stage, parts, length_s, lag };
    }
    Some(blocks)
}

/// ln of the transform of a block of the last of these stages at `s`.
fn ln_block(blocks: &[Block], s: f64) -> f64 {
    let Some((last, before)) = blocks.split_last() else { return 0.0 };
    let rate = last.stage.rate;
    let shifted = s + rate;
    let part = ln_block(before, shifted);
    let undisturbed = if before.is_empty() {
        -shifted * last.length_s
    } else {
        part * last.parts + ln_pause(before, shifted, last.stage.pause_s)
    };
    let recovery = rho_of(last, before, part, s);
    undisturbed - (1.0 - rate / shifted * -undisturbed.exp_m1() * recovery).ln()
}

/// The transform of a recovery of `last` at `s`. `part` is the ln of that of a block before it at
/// `s` plus its rate.
fn rho_of(last: &Block, before: &[Block], part: f64, s: f64) -> f64 {
    let rate = last.stage.rate;
    let shifted = s + rate;
    let redo = if before.is_empty() { -shifted * last.lag } else { part * last.lag };
    let once = ln_restart(before, shifted, last.stage.restart_s) + redo;
    once.exp() / (1.0 - rate / shifted * -once.exp_m1())
}

fn rate_of(blocks: &[Block]) -> f64 {
    blocks.iter().map(|block| block.stage.rate).sum()
}

/// ln of the transform at `s` of a restart of that length, begun anew by each failure of the stages
/// before.
fn ln_restart(before: &[Block], s: f64, length_s: f64) -> f64 {
    let rate = rate_of(before);
    let once = -(s + rate) * length_s;
    once - (1.0 - rate / (s + rate) * -once.exp_m1()).ln()
}

/// ln of the transform at `s` of standing still for so long after a checkpoint of the stages
/// before, each of which throws the job back to the beginning of the pause, after its recovery.
fn ln_pause(before: &[Block], s: f64, length_s: f64) -> f64 {
    let Some((last, earlier)) = before.split_last() else { return -s * length_s };
    if length_s <= 0.0 {
        return 0.0;
    }
    let rate = last.stage.rate;
    let shifted = s + rate;
    let undisturbed = ln_pause(earlier, shifted, length_s);
    let recovery = rho_of(last, earlier, ln_block(earlier, shifted), s);
    undisturbed - (1.0 - rate / shifted * -undisturbed.exp_m1() * recovery).ln()
}

#[cfg(test)]
#[path = "overhead_tests.rs"]
mod tests;
