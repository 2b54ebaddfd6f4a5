//! The contract as an MCP server.
//!
//! Owns how agents see steplatch: its tools, their schemas and annotations, and
//! the manners of the protocol in both of its eras (with `initialize`, and
//! stateless since 2026-07-28, <https://modelcontextprotocol.io/specification>).
//! It does nothing itself: every tool is a verb that the daemon answers.

mod gates;
mod guard;
mod progress;
mod seal;
mod server;
mod stdio;
mod tasks;
mod tools;

pub use stdio::serve_stdio;
