// SPDX-License-Identifier: Apache-2.0
//! Tables in Markdown.

use std::fmt;

const COLUMNS: usize = 100;

/// Breaks the lines of paragraphs that are too long; tables and headings stay as they are.
#[must_use]
pub fn fill(text: &str) -> String {
    let mut filled = String::new();
    for line in text.lines() {
        if line.starts_with(['|', '#']) {
            filled.push_str(line);
        } else {
            let mut column = 0;
            for word in line.split(' ') {
                let width = word.chars().count();
                let is_first = column == 0;
                if !is_first && column + 1 + width > COLUMNS {
                    filled.push('\n');
                    column = 0;
                } else if !is_first {
                    filled.push(' ');
                    column += 1;
                }
                filled.push_str(word);
                column += width;
            }
        }
        filled.push('\n');
    }
    filled
}

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

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn paragraphs_are_filled_and_tables_are_not() {
        let row = format!("| {} |", "a b ".repeat(60));
        let text = format!("{row}\n\n{}\n", "word ".repeat(30).trim_end());
        let filled = fill(&text);
        let lines: Vec<_> = filled.lines().collect();
        assert_eq!(lines[0], row);
        assert!(lines[1..].iter().all(|line| line.len() <= 100) && lines.len() == 4);
        assert_eq!(filled.replace('\n', " ").trim(), text.replace('\n', " ").trim());
    }
}
