// SPDX-License-Identifier: Apache-2.0
//! What is checked, how far, and what came of it, as the tables of `docs/evidence/protocol.md`.

use crate::endless::endless;
use crate::enumerate::{Alphabet, programs};
use crate::explore::{Verdict, check};
use crate::job::Job;
use crate::merged::compare;
use crate::named;
use crate::program::Program;
use crate::rule::Rule;
use crate::sim::{Figures, LogP, Setting, run};
use std::fmt::Write;

/// All programs of an alphabet up to a number of calls, under one rule.
#[derive(Clone, Debug)]
pub struct Bound {
    /// What is in the alphabet.
    pub name: &'static str,
    /// The calls to choose from.
    pub alphabet: Alphabet,
    /// Of all ranks together. Of two ranks an even number: each call has its counterpart.
    pub calls: usize,
    /// So many of the ranks have a second thread, which waits for the next rank.
    pub servers: usize,
    /// Whose protocol.
    pub rule: Rule,
}

const EVERYTHING: &str = "all kinds, one tag";
const NO_WAIT: &str = "all but waiting sends";
const WAITING: &str = "all sends, receives, barriers";
const PLAIN: &str = "eager sends, receives, barriers";
const TAGGED: &str = "the same, any source, two tags";
const ANY: &str = "the same, any source";

fn bound(name: &'static str, alphabet: Alphabet, calls: usize) -> Bound {
    Bound { name, alphabet, calls, servers: 0, rule: Rule::Ours }
}

/// The same beside second threads.
fn served(servers: usize, bound: Bound) -> Bound {
    Bound { servers, ..bound }
}

fn no_wait(ranks: u8) -> Alphabet {
    Alphabet { waiting_sends: false, ..Alphabet::full(ranks) }
}

fn waiting(ranks: u8) -> Alphabet {
    Alphabet { waiting_sends: true, ..Alphabet::plain(ranks) }
}

fn any(ranks: u8) -> Alphabet {
    Alphabet { wildcards: true, ..Alphabet::plain(ranks) }
}

fn tagged() -> Alphabet {
    Alphabet { tags: true, ..any(2) }
}

/// What the tests check every time: a minute on one core, with the programs that have names;
/// `comparisons` take another one and a half.
#[must_use]
pub fn standard() -> Vec<Bound> {
    vec![
        bound(EVERYTHING, Alphabet::full(2), 4),
        bound(PLAIN, Alphabet::plain(2), 6),
        bound(TAGGED, tagged(), 4),
        bound(NO_WAIT, no_wait(3), 4),
        bound(WAITING, waiting(3), 4),
        served(1, bound(PLAIN, Alphabet::plain(2), 4)),
        served(1, bound(PLAIN, Alphabet::plain(3), 4)),
        served(2, bound(EVERYTHING, Alphabet::full(2), 2)),
        served(3, bound(PLAIN, Alphabet::plain(3), 2)),
        Bound { rule: Rule::TwoPhase, ..bound(PLAIN, Alphabet::plain(2), 6) },
        Bound { rule: Rule::TwoPhase, ..bound(PLAIN, Alphabet::plain(3), 4) },
    ]
}

/// What `./x model --large` checks.
#[must_use]
pub fn large() -> Vec<Bound> {
    vec![
        bound(TAGGED, tagged(), 6),
        bound(EVERYTHING, Alphabet::full(3), 4),
        bound(NO_WAIT, no_wait(2), 6),
        bound(ANY, any(3), 6),
        bound(PLAIN, Alphabet::plain(4), 4),
        served(1, bound(PLAIN, Alphabet::plain(2), 6)),
        served(2, bound(PLAIN, Alphabet::plain(2), 4)),
        Bound { rule: Rule::TwoPhase, ..bound(PLAIN, Alphabet::plain(3), 6) },
    ]
}

/// Checks and returns the table, and whether ours was without a fault everywhere.
#[must_use]
pub fn bounds_table(bounds: &[Bound]) -> (String, bool) {
    let mut text = String::from(
        "| rule | calls | ranks | second threads | calls in all, at most | programs | states | \
         deepest run | result |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let mut good = true;
    for bound in bounds {
        let list = programs(&bound.alphabet, bound.calls).into_iter();
        let list: Vec<Program> = list.map(|program| program.with_servers(bound.servers)).collect();
        let count = list.len();
        let job = Job::new(list, bound.rule);
        let is_endless = endless(&job).is_some();
        let verdict = check(&job);
        let mut broken: Vec<String> = verdict.faults().into_iter().collect();
        broken.extend(is_endless.then(|| "endless".to_owned()));
        for (property, program, run) in &verdict.violations {
            eprintln!("{property}: {program}\n{run:?}");
        }
        for (property, program) in &verdict.missing {
            eprintln!("never {property}: {program}");
        }
        good &= broken.is_empty();
        let result = if broken.is_empty() { "holds".into() } else { broken.join(", ") };
        let row = format!(
            "| {} | {} | {} | {} | {} | {count} | {} | {} | {result} |",
            rule_name(bound.rule),
            bound.name,
            bound.alphabet.ranks,
            bound.servers,
            bound.calls,
            verdict.states,
            verdict.depth
        );
        eprintln!("{row}");
        let _ = writeln!(text, "{row}");
    }
    (text, good)
}

/// The programs with names, each by itself.
#[must_use]
pub fn named_table() -> (String, bool) {
    let mut text =
        String::from("| program | calls | states | ours | published |\n|---|---|---|---|---|\n");
    let mut good = true;
    for (name, program) in named::all() {
        let job = Job::new([program.clone()], Rule::Ours);
        good &= endless(&job).is_none();
        let ours = check(&job);
        let theirs = check(&Job::new([program.clone()], Rule::Published));
        good &= ours.faults().is_empty();
        let _ = writeln!(
            text,
            "| {name}: `{program}` | {} | {} | {} | {} |",
            program.calls(),
            ours.states,
            word(&ours),
            word(&theirs)
        );
    }
    (text, good)
}

/// Programs whose steps are looked at one by one, too: what they are, and the most states that they
/// may have.
#[must_use]
pub fn comparisons(is_large: bool) -> Vec<(&'static str, Vec<Program>, usize)> {
    if is_large {
        return vec![
            ("2 ranks, any source, two tags, 6 calls at most", programs(&tagged(), 6), 100_000),
            ("3 ranks, all kinds, 3 calls at most", programs(&Alphabet::full(3), 3), 100_000),
        ];
    }
    let both_tags = Alphabet { tags: true, ..Alphabet::full(2) };
    let of_name = named::all().into_iter().map(|(_, program)| program);
    let of_name = of_name.filter(|program| program.calls() <= 6).collect();
    vec![
        ("with a name, 6 calls at most", of_name, 40_000),
        ("2 ranks, all kinds, two tags, 4 calls at most", programs(&both_tags, 4), 40_000),
    ]
}

/// Checks with merged steps and with every step by itself. Returns the table, and whether the two
/// agreed everywhere.
#[must_use]
pub fn merged_table(comparisons: Vec<(&'static str, Vec<Program>, usize)>) -> (String, bool) {
    let mut text = String::from(
        "| programs | states under ours, at most | compared | jobs | with a fault | \
         states, merged | states, every step by itself | verdicts |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut good = true;
    for (name, programs, most) in comparisons {
        let count = programs.len();
        let found = compare(programs, most);
        good &= found.differences.is_empty();
        for difference in &found.differences {
            eprintln!("merged steps hide something: {difference}");
        }
        let row = format!(
            "| {name} | {most} | {} of {count} | {} | {} | {} | {} | {} |",
            found.programs,
            found.programs * (Rule::ALL.len() + 1),
            found.faulty,
            found.merged,
            found.apart,
            if found.differences.is_empty() { "the same" } else { "**differ**" }
        );
        eprintln!("{row}");
        let _ = writeln!(text, "{row}");
    }
    (text, good)
}

/// Sides of the grids of `sizes_table`. The tests do without the largest, which takes a minute.
pub const SIDES: [u32; 4] = [2, 10, 32, 100];

/// Random programs on grids of ranks: medians over seeds, and in brackets the most.
#[must_use]
pub fn sizes_table(sides: &[u32], seeds: u64) -> String {
    let mut text = String::from(
        "| ranks | programs | collectives | rounds | messages per rank | edges | raises | \
         time to the safe state, ms | published: stuck |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for &side in sides {
        for (collectives, uneven) in [(10, false), (50, false), (50, true)] {
            let setting =
                Setting { side, steps: 40, compute_ns: 100_000, collectives, uneven, seed: 0 };
            let _ = writeln!(text, "{}", sizes_row(setting, seeds));
        }
    }
    text
}

fn sizes_row(setting: Setting, seeds: u64) -> String {
    let logp = LogP { latency: 5_000, overhead: 500, gap: 500 };
    let all_under = |rule: Rule| {
        let figures = (1..=seeds).map(|seed| run(Setting { seed, ..setting }, logp, rule));
        figures.collect::<Vec<_>>()
    };
    let mut all = all_under(Rule::Ours);
    for figures in &all {
        assert!(figures.safe, "ours, {setting:?}: {:?}", figures.fault);
    }
    let published = all_under(Rule::Published);
    assert!(published.iter().all(|figures| figures.fault.is_none()), "published, {setting:?}");
    let stuck = published.iter().filter(|figures| !figures.safe).count();
    all.sort_by_key(|figures| figures.time_ns);
    let middle = all[all.len() / 2];
    let most = |figure: fn(&Figures) -> u64| all.iter().map(figure).max().unwrap_or(0);
    let both = |figure: fn(&Figures) -> u64| format!("{} ({})", figure(&middle), most(figure));
    let ranks = u64::from(setting.side * setting.side);
    let each = |messages: u64| messages as f64 / ranks as f64;
    let ms = |time_ns: u64| time_ns as f64 / 1e6;
    format!(
        "| {ranks} | {} | {} % | {} | {:.1} ({:.1}) | {} | {} | {:.2} ({:.2}) | \
         {stuck} of {seeds} |",
        if setting.uneven { "uneven" } else { "even" },
        setting.collectives,
        both(|figures| figures.rounds),
        each(middle.messages),
        each(most(|figures| figures.messages)),
        both(|figures| figures.waits),
        both(|figures| figures.raises),
        ms(middle.time_ns),
        ms(most(|figures| figures.time_ns))
    )
}

fn word(verdict: &Verdict) -> String {
    let faults: Vec<String> = verdict.faults().into_iter().collect();
    match &faults[..] {
        [] => "holds".to_owned(),
        [only] if only == "termination" => "**stuck**".to_owned(),
        several => format!("**{}**", several.join(", ")),
    }
}

fn rule_name(rule: Rule) -> &'static str {
    match rule {
        Rule::Ours => "ours",
        Rule::Published => "published",
        Rule::TwoPhase => "two-phase",
        Rule::StopsEarly => "damaged: stops early",
        Rule::RaisesInSilence => "damaged: raises in silence",
        Rule::OldWordCounts => "damaged: an old word counts",
        Rule::ReadsFirst => "damaged: reads first",
        Rule::EveryEdgeCounts => "damaged: every edge counts",
        Rule::Receives => "damaged: receives what it is to hold",
        Rule::ResumesAlone => "damaged: continues alone",
    }
}
