//! Every kind of node against real programs and servers of the tests.
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
