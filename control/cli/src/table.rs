// SPDX-License-Identifier: Apache-2.0
//! Tables for people: as wide as what is in them, and no wider than a terminal of 80 columns.
//! Longer cells have more lines; nothing is cut off.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

const WIDTH: u16 = 80;
const GAP: u16 = 2;

/// One column.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// Numbers stand below each other by their last digit.
    pub is_number: bool,
}

/// A column of words.
pub const fn words(name: &'static str) -> Column {
    Column { name, is_number: false }
}

/// A column of numbers.
pub const fn number(name: &'static str) -> Column {
    Column { name, is_number: true }
}

/// A word of somebody else's in one line: control characters are spelled out, those of lines too.
pub fn in_a_line(text: &str) -> String {
    let spell = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(spell).collect()
}

/// The table, with a heading.
pub fn table<const N: usize>(columns: [Column; N], rows: &[[String; N]]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_width(WIDTH);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(columns.map(|column| column.name));
    for row in rows {
        table.add_row(row.iter().map(|cell| in_a_line(cell)));
    }
    for (column, how) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, if column.index + 1 == N { 0 } else { GAP }));
        column.set_cell_alignment(if how.is_number {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        });
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[[&str; 3]]) -> String {
        let rows: Vec<_> = rows.iter().map(|row| row.map(str::to_owned)).collect();
        table([words("JOB"), number("RANKS"), words("STATE")], &rows)
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let text = of(&[["ring", "2", "finished"], ["melt-1", "128", "failed (code 3)"]]);
        let wanted = "\
JOB     RANKS  STATE
ring        2  finished
melt-1    128  failed (code 3)
";
        assert_eq!(text, wanted);
    }

    #[test]
    fn no_line_is_wider_than_a_terminal_and_nothing_is_lost() {
        let (name, state) = ("n".repeat(63), "because ".repeat(20));
        let text = of(&[[&name, "2", &state]]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.matches('n').count(), 63, "{text}");
        assert_eq!(text.matches("because").count(), 20, "{text}");
    }

    #[test]
    fn a_row_is_not_made_two_by_what_is_in_it() {
        let text = of(&[["a\nb\u{1b}[2J\tc", "1", "x"]]);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains(r"a\nb\u{1b}[2J\tc"), "{text}");
    }
}
