//! Patterns in the dialect of Python's `re`, with a bound on their work.
//!
//! Owns the reading, translation and running of users' patterns. Callers hold a [`Pattern`]: compiled once, cheap to
//! clone, safe to share between threads.
//!
//! Two things differ from Python: `^` and `$` match at the lines of a text from the start (as with `(?m)`), because
//! people write patterns for single lines of a screen; and a search may end with [`TooMuchWork`] where Python would not
//! terminate in practice.

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
