//! The decisions of graphs, without performing them.

mod decisions;
mod documents;
mod laws;
mod story;
