//! The decisions of graphs, without performing them.

mod decisions;
mod documents;
mod execution;
mod laws;
