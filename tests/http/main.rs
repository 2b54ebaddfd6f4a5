//! `steplatch serve` on the real binary, tested over plain sockets.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod client;
mod crowd;
mod dialect;
mod events;
mod gates;
mod instances;
mod mcp;
mod refused;
mod tools;
mod verbs;
