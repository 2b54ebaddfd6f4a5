//! The process that owns terminals and runs, and serves the contract.
