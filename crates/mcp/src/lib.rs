//! The contract as an MCP server.
//!
//! Owns the agents' view of steplatch: its tools, their schemas and annotations, its resources and prompts, and the
//! protocol in both of its eras (with `initialize`, and stateless since 2026-07-28,
//! <https://modelcontextprotocol.io/specification>), over standard input and output and over HTTP. Every tool is a verb
//! of the daemon.

mod contract;
mod guard;
mod http;
mod lines;
mod listeners;
pub mod offer;
mod progress;
mod questions;
mod seal;
mod server;
mod skills;
mod stdio;

pub use contract::Contract;
pub use http::{HttpOptions, HttpService, Sessions, http_service, http_service_of};
pub use offer::ServerBackend;
pub use progress::Progress;
pub use server::Server;
pub use skills::SkillPackage;
pub use stdio::serve_stdio;
