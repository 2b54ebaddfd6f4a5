//! The decisions of graphs, without performing them.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "graphs/decisions.rs"]
mod decisions;
#[path = "graphs/documents.rs"]
mod documents;
#[path = "graphs/laws.rs"]
mod laws;
#[path = "graphs/story.rs"]
mod story;
