//! Durable history of runs.
