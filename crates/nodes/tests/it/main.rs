//! Every kind of node with real programs and the tests' servers.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod bash;
mod declarations;
mod graphs;
mod http;
mod https;
mod llm;
mod mcp;
mod panes;
mod support;
