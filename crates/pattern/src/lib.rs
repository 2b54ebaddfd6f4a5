//! Patterns in the dialect of Python's `re`, with a bound on the work of a search.
//!
//! Owns the parsing, translation and execution of users' patterns. Callers hold a [`Pattern`]: compiled once, cheap to
//! clone, safe to share between threads.
//!
//! Two things differ from Python. `^` and `$` match at each line of a text (as with `(?m)`), because people write
//! patterns for single lines of a screen. A search may end with [`TooMuchWork`] where Python would run for hours.

mod alternatives;
mod backtrack;
mod error;
mod escape;
mod pattern;
mod program;
mod set;
mod syntax;
mod translate;

pub use alternatives::{Alternative, Alternatives};
pub use error::{PatternError, TooMuchWork};
pub use escape::escape;
pub use pattern::{Match, Pattern};
