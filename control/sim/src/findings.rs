// SPDX-License-Identifier: Apache-2.0
//! What a simulation has found, and how it comes into its document: each table between its marks.
//!
//! ```text
//!     <!-- NAME -->
//!     (what a run with --write has put here)
//!     <!-- end -->
//! ```

use anyhow::{Context, Result};
use std::path::Path;

/// Tables, pictures, and what does not hold.
#[derive(Debug, Default)]
pub struct Findings {
    /// Markdown, by the name of its mark.
    pub tables: Vec<(&'static str, String)>,
    /// SVG, by the name of its file without `.svg`.
    pub pictures: Vec<(String, String)>,
    /// What is promised and was not seen, a sentence each.
    pub broken: Vec<String>,
}

impl Findings {
    /// Writes the tables into `evidence/DOCUMENT.md` and the pictures to `img/`, both of the
    /// directory `docs`. Blocks.
    ///
    /// # Errors
    /// The document cannot be read, lacks a mark, or something cannot be written.
    pub fn write(&self, docs: &Path, document: &str) -> Result<()> {
        let path = docs.join(format!("evidence/{document}.md"));
        let mut text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        for (name, table) in &self.tables {
            text = put(&text, name, table)
                .with_context(|| format!("cannot write a table into {}", path.display()))?;
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        for (name, picture) in &self.pictures {
            let path = docs.join(format!("img/{name}.svg"));
            std::fs::write(&path, picture)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// The text with the table between its marks, instead of what is there.
fn put(text: &str, name: &str, table: &str) -> Result<String> {
    let mark = format!("<!-- {name} -->\n");
    let (before, rest) =
        text.split_once(&mark).with_context(|| format!("it has no line '{}'", mark.trim_end()))?;
    let (_, behind) = rest
        .split_once("<!-- end -->\n")
        .with_context(|| format!("nothing ends what '{}' begins", mark.trim_end()))?;
    Ok(format!("{before}{mark}\n{}\n\n<!-- end -->\n{behind}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_between_its_marks_and_nothing_else_changes() {
        let filled = |name: &str, table: &str| format!("<!-- {name} -->\n{table}<!-- end -->\n");
        let text = |a: &str, b: &str| format!("# A\n\n{}words\n{}", filled("a", a), filled("b", b));
        let both = put(&put(&text("", "old\n"), "b", "| new |\n").unwrap(), "a", "| x |").unwrap();
        assert_eq!(both, text("\n| x |\n\n", "\n| new |\n\n"));
        assert_eq!(put(&both, "a", "| x |").unwrap(), both);
        let message = |name| put("<!-- a -->\n", name, "").unwrap_err().to_string();
        assert_eq!(message("c"), "it has no line '<!-- c -->'");
        assert_eq!(message("a"), "nothing ends what '<!-- a -->' begins");
    }
}
