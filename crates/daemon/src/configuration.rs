//! What can change about a daemon while it runs.

use steplatch_workflow::Proof;

/// Settings that are applied without a restart. Whoever starts the daemon sends a new one when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Whether proven workflows of the library are tools of their own.
    pub library_tools: bool,
    /// Services whose workflows are tools.
    pub remotes: Vec<steplatch_remote::Config>,
    /// The weakest proof of a person that gates for people take.
    pub gate_proof: Proof,
}
