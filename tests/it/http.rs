//! `steplatch serve` on the real binary, tested over plain sockets.

mod client;
mod crowd;
mod dialect;
mod events;
mod gates;
mod instances;
mod mcp;
mod refusals;
mod tools;
mod verbs;
