// SPDX-License-Identifier: Apache-2.0
//! Tables in Markdown.

use std::fmt;

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    columns: usize,
    text: String,
}

impl Table {
    /// With these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        let rule = "|---".repeat(headings.len());
        Self { columns: headings.len(), text: format!("| {} |\n{rule}|\n", headings.join(" | ")) }
    }

    /// One more row, with as many cells as there are headings.
    pub fn row(&mut self, cells: &[String]) {
        debug_assert_eq!(cells.len(), self.columns);
        self.text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
