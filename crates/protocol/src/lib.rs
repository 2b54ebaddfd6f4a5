//! The contract between the daemon and its front-ends.
