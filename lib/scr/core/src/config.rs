// SPDX-License-Identifier: Apache-2.0
//! Keys and values, and which of several sources wins.
//!
//! A line is `KEY=VALUE`, or a parent with children: `CKPT=0 INTERVAL=1 TYPE=XOR`. A `#` begins a
//! comment, a value in double quotes may hold blanks, and `$NAME` and `${NAME}` in a value are
//! variables of the environment. Parents of the same key and another value stand beside each other;
//! of any other key the last value of a source holds.

use std::collections::BTreeMap;

/// Keys of which there may be several, by their values.
pub const PARENTS: [&str; 3] = ["CKPT", "GROUPS", "STORE"];

/// Where a value is from; the first one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A variable of the environment.
    Environment,
    /// The user's file.
    User,
    /// `SCR_Config`.
    Program,
    /// The system's file.
    System,
}

const FILES: [Source; 3] = [Source::User, Source::Program, Source::System];

/// Why a line says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A word without `=` where it has no meaning.
    #[error("'{0}' is no KEY=VALUE")]
    NoValue(String),
    /// Nothing stands before `=`.
    #[error("'{0}' has no key")]
    NoKey(String),
    /// A quote is not closed.
    #[error("a quote is not closed: {0}")]
    Quote(String),
    /// A value is missing that names its children's parent.
    #[error("'{0}=' names no {0}")]
    NoParent(String),
    /// Where it stands.
    #[error("line {line}: {why}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        why: Box<ConfigError>,
    },
}

/// A word of a line: a key, and what follows `=`, if there is one.
type Word = (String, Option<String>);

/// Children of one parent, by their keys.
pub type Children = BTreeMap<String, String>;

/// What one source says.
#[derive(Clone, Debug, Default)]
struct Layer {
    simple: BTreeMap<String, String>,
    parents: BTreeMap<String, BTreeMap<String, Children>>,
}

/// All sources.
#[derive(Clone, Debug, Default)]
pub struct Config {
    environment: BTreeMap<String, String>,
    layers: BTreeMap<Source, Layer>,
}

/// What a line of `SCR_Config` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A value is set.
    Set,
    /// What was set by `SCR_Config` is no more.
    Unset,
    /// This is the value.
    Value(Option<String>),
}

impl Config {
    /// With the variables of a process; those that are keys win over all else.
    #[must_use]
    pub fn new(environment: BTreeMap<String, String>) -> Self {
        Self { environment, layers: BTreeMap::new() }
    }

    /// The same with other variables.
    #[must_use]
    pub fn with_environment(self, environment: BTreeMap<String, String>) -> Self {
        Self { environment, ..self }
    }

    /// Takes a file; what its source said before is forgotten.
    ///
    /// # Errors
    /// A line makes no sense. What stands before it holds.
    pub fn read(&mut self, source: Source, text: &str) -> Result<(), ConfigError> {
        self.layers.insert(source, Layer::default());
        for (number, line) in (1..).zip(text.lines()) {
            let at = |why: ConfigError| ConfigError::Line { line: number, why: Box::new(why) };
            let words = words(line).map_err(at)?;
            if !words.is_empty() {
                self.take(source, words).map_err(at)?;
            }
        }
        Ok(())
    }

    /// A call of `SCR_Config`: `KEY=VALUE..` sets, `KEY=` unsets, `KEY` asks.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn request(&mut self, line: &str) -> Result<Request, ConfigError> {
        let mut words = words(line)?;
        let Some((key, last)) = words.pop() else { return Err(ConfigError::NoKey(line.into())) };
        let parent = match words.as_slice() {
            [] => None,
            [(parent, Some(value)), ..] if !value.is_empty() => {
                Some((parent.clone(), value.clone()))
            }
            [(parent, _), ..] => return Err(ConfigError::NoParent(parent.clone())),
        };
        match (last, parent) {
            (None, None) => Ok(Request::Value(self.get(&key))),
            (None, Some((parent, value))) => {
                let children = self.children(&parent, &value);
                Ok(Request::Value(children.and_then(|mut children| children.remove(&key))))
            }
            (Some(empty), None) if empty.is_empty() => {
                let layer = self.layers.entry(Source::Program).or_default();
                layer.simple.remove(&key);
                layer.parents.remove(&key);
                Ok(Request::Unset)
            }
            (Some(empty), Some((parent, value))) if empty.is_empty() => {
                let layer = self.layers.entry(Source::Program).or_default();
                if let Some(children) =
                    layer.parents.get_mut(&parent).and_then(|values| values.get_mut(&value))
                {
                    children.remove(&key);
                }
                Ok(Request::Unset)
            }
            (last, _) => {
                words.push((key, last));
                self.take(Source::Program, words)?;
                Ok(Request::Set)
            }
        }
    }

    fn take(&mut self, source: Source, words: Vec<Word>) -> Result<(), ConfigError> {
        let mut pairs = Vec::new();
        for (key, value) in words {
            let value = value.ok_or_else(|| ConfigError::NoValue(key.clone()))?;
            pairs.push((key, self.expanded(&value)));
        }
        let mut pairs = pairs.into_iter();
        let Some((key, value)) = pairs.next() else { return Ok(()) };
        let children: Children = pairs.collect();
        let layer = self.layers.entry(source).or_default();
        if children.is_empty() && !PARENTS.contains(&key.as_str()) {
            layer.simple.insert(key, value);
        } else if value.is_empty() {
            return Err(ConfigError::NoParent(key));
        } else {
            layer.parents.entry(key).or_default().entry(value).or_default().extend(children);
        }
        Ok(())
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<String> {
        if let Some(value) = self.environment.get(key).filter(|_| !PARENTS.contains(&key)) {
            return Some(value.clone());
        }
        let mut layers = FILES.iter().filter_map(|source| self.layers.get(source));
        layers.find_map(|layer| layer.simple.get(key).cloned())
    }

    /// The values of a parent.
    #[must_use]
    pub fn values(&self, parent: &str) -> Vec<String> {
        let layers = FILES.iter().filter_map(|source| self.layers.get(source));
        let mut values: Vec<String> = layers
            .filter_map(|layer| layer.parents.get(parent))
            .flat_map(|values| values.keys().cloned())
            .collect();
        values.sort();
        values.dedup();
        values
    }

    /// The children of one parent, each from the first source that has it. `None`: there is no such
    /// parent.
    #[must_use]
    pub fn children(&self, parent: &str, value: &str) -> Option<Children> {
        let layers = FILES.iter().rev().filter_map(|source| self.layers.get(source));
        let mut all = layers.filter_map(|layer| layer.parents.get(parent)?.get(value)).peekable();
        all.peek()?;
        Some(all.flat_map(|children| children.clone()).collect())
    }

    /// Keys without children that files and the program have set.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.layers.values().flat_map(|layer| layer.simple.keys().map(String::as_str))
    }

    /// A variable that is not set is empty.
    fn expanded(&self, value: &str) -> String {
        let mut out = String::new();
        let mut rest = value;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let (name, after) = variable(rest);
            if name.is_empty() {
                out.push('$');
            } else if let Some(value) = self.environment.get(name) {
                out.push_str(value);
            }
            rest = after;
        }
        out + rest
    }
}

/// The name that follows a `$`, and what follows it.
fn variable(rest: &str) -> (&str, &str) {
    if let Some((name, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        return (name, after);
    }
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    rest.split_at(end)
}

/// The words of a line. Quotes keep blanks and `#` together, and go.
fn words(line: &str) -> Result<Vec<Word>, ConfigError> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut equals = None;
    let mut is_quoted = false;
    let mut has_begun = false;
    for c in line.chars().chain(['\n']) {
        match c {
            '"' => (is_quoted, has_begun) = (!is_quoted, true),
            '\n' if is_quoted => return Err(ConfigError::Quote(line.into())),
            _ if is_quoted => word.push(c),
            '#' | '\n' | ' ' | '\t' | '\r' => {
                if has_begun {
                    words.push(split(std::mem::take(&mut word), equals.take())?);
                    has_begun = false;
                }
                if c == '#' {
                    break;
                }
            }
            _ => {
                if c == '=' && equals.is_none() {
                    equals = Some(word.len());
                }
                word.push(c);
                has_begun = true;
            }
        }
    }
    Ok(words)
}

fn split(word: String, equals: Option<usize>) -> Result<Word, ConfigError> {
    match equals {
        Some(0) => Err(ConfigError::NoKey(word)),
        Some(at) => Ok((word[..at].into(), Some(word[at + 1..].into()))),
        None => Ok((word, None)),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
