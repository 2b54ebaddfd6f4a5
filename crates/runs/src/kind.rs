//! The kinds of runs.

/// The kinds of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Machine,
    Function,
    Remote,
}
