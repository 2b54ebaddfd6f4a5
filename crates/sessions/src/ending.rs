//! End of a daemon.

/// Treatment of the terminals when a daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownMode {
    /// The terminals close.
    CloseTerminals,
    /// The terminals keep running, and the next daemon finds them.
    KeepTerminals,
    /// The terminals keep running, because another daemon serves this state and owns the journal and the socket.
    GiveWay,
}

impl ShutdownMode {
    /// Returns whether terminals keep running.
    pub fn keeps_terminals(self) -> bool {
        self != Self::CloseTerminals
    }
}
