//! Patterns compared with the Python dialect, and their limits.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod bounds;
mod fuzz;
mod python_dialect;
