//! The settings of sessions, read at each use.

/// Settings of single commands and of services beside the daemon.
pub trait CommandPolicy: std::fmt::Debug + Send + Sync {
    /// Returns whether pagers and editors open in a shell started for one command, although no client sees them.
    fn opens_pagers(&self) -> bool;

    /// Returns the default for integrating inner shells with their first command, for callers that do not specify it.
    fn integrates(&self) -> bool;

    /// Returns the address of the page, while the daemon serves it.
    fn page(&self) -> Option<String> {
        None
    }
}
