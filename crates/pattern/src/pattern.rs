//! A compiled pattern and its two engines.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::backtrack::{self, BudgetExceeded};
use crate::error::{PatternError, TooMuchWork};
use crate::program::{self, Program};
use crate::syntax::Syntax;
use crate::{syntax, translate};

/// Maximum length of a pattern. A longer pattern is a mistake, and its compilation is slow.
const MAX_SOURCE_BYTES: usize = 10_000;

/// Maximum memory of a compiled pattern. `\w{200}` must fit, although the set of all letters is large.
const MAX_COMPILED_BYTES: usize = 10 << 20;

/// Maximum memory of the compiled sieve. A sieve saves work of the backtracking engine; a larger sieve is omitted.
const MAX_SIEVE_BYTES: usize = 1 << 20;

/// Maximum memory of the state tables of one search.
const MAX_TABLE_BYTES: usize = 2 << 20;

/// A compiled pattern, ready to search.
///
/// Clones share the compiled form.
#[derive(Clone)]
pub struct Pattern(Arc<Compiled>);

struct Compiled {
    source: String,
    engine: Engine,
    names: Vec<Option<String>>,
}

/// The engine that runs a pattern.
enum Engine {
    /// Takes time in proportion to the text.
    Linear(regex::Regex),
    /// For look-around, back-references and atomic groups. The linear engine does not support them.
    Backtracking {
        program: Program,
        /// Finds a position at or before the first match; without one, the text has no match.
        sieve: Option<regex::Regex>,
    },
}

/// The ranges of a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The bytes of the text that the whole pattern matched.
    pub range: Range<usize>,
    /// The range of each group, group 1 first; `None` for a group without a match.
    ///
    /// Has an entry for each of [`Pattern::group_names`].
    pub groups: Vec<Option<Range<usize>>>,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// ```
    /// use steplatch_pattern::Pattern;
    ///
    /// let text = "step 1: undone\nstep 2: done";
    /// let pattern = Pattern::new(r"^step (?P<number>\d+): (?<!un)done$")?;
    /// let found = pattern.find_at(text, 0)?.expect("the second step is done");
    /// assert_eq!(&text[found.range], "step 2: done");
    /// assert_eq!(found.groups, [Some(20..21)]);
    /// assert_eq!(Pattern::new("(a").unwrap_err().to_string(),
    ///     "pattern '(a' does not compile: unclosed group at position 0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the pattern breaks a rule of Python's dialect, exceeds a bound on size, or no engine supports it.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let Syntax { root, names, .. } = parse(source)?;
        let root = &root;
        let engine = if translate::needs_backtracking(root) {
            let sieve = build_linear(&translate::translate(&translate::loosen(root)), MAX_SIEVE_BYTES);
            let program = program::compile(root, names.len());
            Engine::Backtracking { program, sieve: sieve.ok() }
        } else {
            let regex = build_linear(&translate::translate(root), MAX_COMPILED_BYTES);
            Engine::Linear(regex.map_err(|error| to_pattern_error(source, &error))?)
        };
        Ok(Self(Arc::new(Compiled { source: source.to_owned(), engine, names })))
    }

    /// Returns the source of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.source
    }

    /// Returns the name of each group, group 1 first; `None` for an unnamed group.
    #[must_use]
    pub fn group_names(&self) -> &[Option<String>] {
        &self.0.names
    }

    /// Finds the first match that begins at byte `from` of `text` or later.
    ///
    /// The text before `from` is not searched, but `^`, `\b` and look-behind see it. If `from` is inside a character,
    /// the search begins at the next character. After the end of the text, the search finds nothing.
    ///
    /// # Errors
    /// If the search exceeded the bound on its work.
    pub fn find_at(&self, text: &str, from: usize) -> Result<Option<Match>, TooMuchWork> {
        let Some(from) = (from..=text.len()).find(|&index| text.is_char_boundary(index)) else { return Ok(None) };
        match &self.0.engine {
            Engine::Linear(regex) if self.0.names.is_empty() => {
                Ok(regex.find_at(text, from).map(|found| Match { range: found.range(), groups: Vec::new() }))
            }
            Engine::Linear(regex) => Ok(regex.captures_at(text, from).and_then(|captures| {
                let groups = captures.iter().skip(1).map(|group| group.map(|group| group.range())).collect();
                captures.get(0).map(|whole_match| Match { range: whole_match.range(), groups })
            })),
            Engine::Backtracking { program, sieve } => {
                let from = match sieve {
                    Some(sieve) => match sieve.find_at(text, from) {
                        Some(candidate) => candidate.start(),
                        None => return Ok(None),
                    },
                    None => from,
                };
                let slots = backtrack::search(program, text, from).map_err(|BudgetExceeded| self.too_much_work())?;
                let range =
                    |slots: &[usize]| (slots[0] <= slots[1] && slots[1] <= text.len()).then(|| slots[0]..slots[1]);
                Ok(slots.and_then(|slots| {
                    let mut groups = slots[..2 * (self.0.names.len() + 1)].chunks_exact(2).map(range);
                    let whole_match = groups.next()??;
                    Some(Match { range: whole_match, groups: groups.collect() })
                }))
            }
        }
    }

    /// Returns whether the pattern has a match in `text`.
    ///
    /// # Errors
    /// If the search exceeded the bound on its work.
    pub fn is_match(&self, text: &str) -> Result<bool, TooMuchWork> {
        match &self.0.engine {
            Engine::Linear(regex) => Ok(regex.is_match(text)),
            Engine::Backtracking { .. } => Ok(self.find_at(text, 0)?.is_some()),
        }
    }

    fn too_much_work(&self) -> TooMuchWork {
        TooMuchWork { pattern: self.0.source.clone() }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.0.source).finish()
    }
}

/// Parses a pattern within the maximum length.
pub(crate) fn parse(source: &str) -> Result<Syntax, PatternError> {
    if source.len() > MAX_SOURCE_BYTES {
        let reason = format!("{} bytes, the maximum is {MAX_SOURCE_BYTES}", source.len());
        return Err(PatternError::TooLarge { pattern: source.to_owned(), reason });
    }
    syntax::parse(source).map_err(|error| PatternError::Invalid {
        pattern: source.to_owned(),
        position: error.position,
        reason: error.reason,
    })
}

fn build_linear(translated: &str, size_limit: usize) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(translated).size_limit(size_limit).dfa_size_limit(MAX_TABLE_BYTES).build()
}

fn to_pattern_error(source: &str, error: &regex::Error) -> PatternError {
    let pattern = source.to_owned();
    match error {
        regex::Error::CompiledTooBig(limit) => {
            let reason = format!("its compiled form exceeds {} MiB", limit >> 20);
            PatternError::TooLarge { pattern, reason }
        }
        // The engine shows the translated pattern over several lines; the error is in the last.
        error => {
            let message = error.to_string();
            let reason = message.lines().next_back().unwrap_or_default().trim_start_matches("error: ").to_owned();
            PatternError::Unsupported { pattern, reason }
        }
    }
}
