//! Settings of sessions, read at each use.

/// Settings of single commands, and the address of the page.
pub trait CommandPolicy: std::fmt::Debug + Send + Sync {
    /// Returns whether pagers and editors may open in a shell for one command, although no client sees them.
    fn opens_pagers(&self) -> bool;

    /// Returns whether inner shells are integrated with their first command if the caller does not specify it.
    fn integrates(&self) -> bool;

    /// Returns the address of the page, while the daemon serves it.
    fn page(&self) -> Option<String> {
        None
    }
}
