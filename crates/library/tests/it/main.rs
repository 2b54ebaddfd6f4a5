//! The library on a real file system, shared by threads and processes.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod functions;
mod library;
mod processes;
mod versions;
