//! How a daemon ends.

/// What becomes of the terminals when a daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownMode {
    /// They are closed.
    CloseTerminals,
    /// They go on, and the next daemon finds them.
    KeepTerminals,
    /// The same, and another daemon serves this state already: the journal and the socket are its own.
    GiveWay,
}

impl ShutdownMode {
    /// Whether terminals go on.
    pub fn keeps_terminals(self) -> bool {
        self != Self::CloseTerminals
    }
}
