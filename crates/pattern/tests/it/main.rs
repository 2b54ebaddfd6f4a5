//! Patterns beside the dialect of Python, and their bounds.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod bounds;
mod fuzz;
mod python_dialect;
