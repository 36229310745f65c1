// SPDX-License-Identifier: Apache-2.0
//! When a program is to save itself.
//!
//! By number of calls, by time, by overhead, as the user has set it; any of them suffices. If none
//! is set and it is known how often what the job runs on fails, by Daly's interval of the mean of
//! the costs so far. Where a cost has to be known, the first checkpoint is taken at once and
//! measures it.

use fermata_plan::simple::daly;
use fermata_plan::system::System;

/// What the user has set; 0: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Every so many calls.
    pub interval: u32,
    /// So many seconds after the last one has ended.
    pub seconds: u64,
    /// Up to so many percent of the time.
    pub overhead: f64,
    /// Mean time to a failure of anything that the job runs on, seconds.
    pub mtbf_s: Option<f64>,
}

/// Why one is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The job is to end.
    Halt,
    /// So many calls.
    Interval,
    /// So much time.
    Seconds,
    /// It costs no more than is allowed.
    Overhead,
    /// By the plan.
    Plan,
}

/// Says when. Times are in seconds, from any beginning.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    wanted: Wanted,
    calls: u64,
    begun_s: f64,
    ended_s: f64,
    costs: u32,
    cost_s: f64,
}

impl Need {
    /// From the beginning of a run.
    #[must_use]
    pub fn new(wanted: Wanted, now_s: f64) -> Self {
        Self { wanted, calls: 0, begun_s: now_s, ended_s: now_s, costs: 0, cost_s: 0.0 }
    }

    /// An output has begun.
    pub fn begun(&mut self, now_s: f64) {
        self.begun_s = now_s;
    }

    /// It is complete; the job continues.
    pub fn ended(&mut self, now_s: f64, is_checkpoint: bool) {
        if is_checkpoint {
            self.costs += 1;
            self.cost_s += (now_s - self.begun_s).max(0.0);
            self.ended_s = now_s;
        }
    }

    /// The mean cost of a checkpoint; `None`: there was none.
    #[must_use]
    pub fn mean_s(&self) -> Option<f64> {
        (self.costs > 0).then(|| self.cost_s / f64::from(self.costs))
    }

    /// A call of `SCR_Need_checkpoint`: whether one is needed, and why.
    pub fn call(&mut self, now_s: f64, is_halted: bool) -> Option<Why> {
        self.calls += 1;
        let elapsed_s = (now_s - self.ended_s).max(0.0);
        let Wanted { interval, seconds, overhead, mtbf_s } = self.wanted;
        if is_halted {
            return Some(Why::Halt);
        }
        if interval > 0 && self.calls % u64::from(interval) == 0 {
            return Some(Why::Interval);
        }
        if seconds > 0 && elapsed_s >= seconds as f64 {
            return Some(Why::Seconds);
        }
        let mean_s = self.mean_s();
        if overhead > 0.0
            && mean_s.is_none_or(|mean| mean / (elapsed_s + mean).max(1e-9) * 100.0 < overhead)
        {
            return Some(Why::Overhead);
        }
        if interval > 0 || seconds > 0 || overhead > 0.0 {
            return None;
        }
        let mtbf_s = mtbf_s?;
        mean_s.is_none_or(|mean| elapsed_s >= daly(mean, mtbf_s)).then_some(Why::Plan)
    }
}

/// The mean time to a failure of anything that so many hosts have, by the description of a machine.
/// `None`: nothing fails.
#[must_use]
pub fn mtbf_s(mut machine: System, hosts: u32) -> Option<f64> {
    machine.nodes = hosts.max(1);
    let (topology, classes) = machine.failures();
    let rate = topology.total_rate(&classes);
    (rate > 0.0).then(|| 1.0 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn need(wanted: Wanted) -> Need {
        Need::new(wanted, 100.0)
    }

    #[test]
    fn nothing_is_needed_where_nothing_is_set() {
        let mut need = need(Wanted::default());
        assert_eq!(need.call(1e9, false), None);
        assert_eq!(need.call(1e9, true), Some(Why::Halt));
    }

    #[test]
    fn every_so_many_calls() {
        let mut need = need(Wanted { interval: 3, ..Wanted::default() });
        let said: Vec<bool> = (0..6).map(|_| need.call(100.0, false).is_some()).collect();
        assert_eq!(said, [false, false, true, false, false, true]);
    }

    #[test]
    fn so_long_after_the_last_one() {
        let mut need = need(Wanted { seconds: 10, ..Wanted::default() });
        assert_eq!(need.call(109.0, false), None);
        assert_eq!(need.call(110.0, false), Some(Why::Seconds));
        need.begun(110.0);
        need.ended(115.0, true);
        assert_eq!((need.call(124.0, false), need.call(125.0, false)), (None, Some(Why::Seconds)));
        need.begun(125.0);
        need.ended(130.0, false);
        assert_eq!(need.call(130.0, false), Some(Why::Seconds), "an output is no checkpoint");
    }

    #[test]
    fn as_long_as_it_costs_no_more() {
        let mut need = need(Wanted { overhead: 10.0, ..Wanted::default() });
        assert_eq!(need.call(100.0, false), Some(Why::Overhead), "the first one measures");
        need.begun(100.0);
        need.ended(102.0, true);
        assert_eq!(need.call(120.0, false), None, "2 of 20 s are 10 percent");
        assert_eq!(need.call(120.1, false), Some(Why::Overhead));
    }

    #[test]
    fn by_the_plan_of_a_machine() {
        let mut need = need(Wanted { mtbf_s: Some(100.0), ..Wanted::default() });
        assert_eq!(need.call(100.0, false), Some(Why::Plan), "the first one measures");
        need.begun(100.0);
        need.ended(102.0, true);
        let interval = daly(2.0, 100.0);
        assert_eq!(need.call(102.0 + interval - 0.1, false), None);
        assert_eq!(need.call(102.0 + interval + 0.1, false), Some(Why::Plan));
    }

    #[test]
    fn more_hosts_fail_more_often() {
        let text = "nodes = 1\nbytes-per-node = \"1GB\"\n\
            bandwidth = { local = \"2GB\", network = \"10GB\" }\n\
            failure = [{ name = \"node\", mttf = \"100d\" }]\n\
            level = [{ kind = \"local\" }]\n";
        let machine: System = toml::from_str(text).unwrap();
        assert_eq!(mtbf_s(machine.clone(), 1), Some(100.0 * 86_400.0));
        assert_eq!(mtbf_s(machine.clone(), 4), Some(25.0 * 86_400.0));
        let nothing = System { failure: Vec::new(), ..machine };
        assert_eq!(mtbf_s(nothing, 4), None);
    }

    proptest! {
        /// What is needed at some time is needed later too.
        #[test]
        fn need_grows_with_time(
            seconds in 0_u64..50,
            overhead in 0.0..100.0_f64,
            cost in 0.0..30.0_f64,
            at in 0.0..500.0_f64,
        ) {
            let mut need = need(Wanted { seconds, overhead, ..Wanted::default() });
            need.begun(100.0);
            need.ended(100.0 + cost, true);
            if need.call(100.0 + at, false).is_some() {
                prop_assert!(need.call(101.0 + at, false).is_some());
            }
        }
    }
}
