//! Stories on the real binary, its front-ends, and real programs.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod agents;
mod attacks;
mod calls;
mod captures;
mod clients;
mod command_line;
mod commander;
mod completions;
mod contract_runs;
mod desk;
mod doctor;
mod durable;
mod engines;
mod events;
mod field;
mod functions;
mod gates;
mod hosts;
mod http;
mod library;
mod loading;
mod lying_hosts;
mod mcp_clients;
mod mcp_http;
mod mcp_tools;
mod nodes;
mod older_daemon;
mod older_host;
mod older_journal;
mod page;
mod passkeys;
mod pauses;
mod people;
mod settings;
mod setup;
#[path = "../../crates/terminal/tests/it/ssh_server.rs"]
mod ssh_server;
mod stories;
mod survival;
mod transfers;
mod trials;
mod ui;
mod waking;
mod watching;
mod workers;
