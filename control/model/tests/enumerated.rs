// SPDX-License-Identifier: Apache-2.0
//! Every program up to a size: the tables in docs/evidence/protocol.md are what this run finds.
use fermata_model::report::{bounds_table, comparisons, merged_table, named_table, standard};

const DOCUMENT: &str = include_str!("../../../docs/evidence/protocol.md");

fn must_be_in_the_document((table, holds): (String, bool)) {
    assert!(holds, "a program fails:\n{table}");
    assert!(
        DOCUMENT.contains(&table),
        "docs/evidence/protocol.md is stale, it should say:\n{table}"
    );
}

#[test]
fn all_programs_within_the_bounds_are_sound() {
    must_be_in_the_document(bounds_table(&standard()));
}

#[test]
fn all_programs_with_names_are_sound() {
    must_be_in_the_document(named_table());
}

/// What is merged in the model hides nothing: every step by itself gives the same verdicts.
#[test]
fn merged_steps_hide_nothing() {
    must_be_in_the_document(merged_table(comparisons(false)));
}
