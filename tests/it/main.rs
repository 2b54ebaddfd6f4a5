//! Stories on the real binary, its front-ends, and real programs.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod agents;
mod attacks;
mod calls;
mod clients;
mod command_line;
mod commander;
mod completions;
mod contract_runs;
mod desk;
mod doctor;
mod durable;
mod events;
mod functions;
mod gates;
mod http;
mod library;
mod loading;
mod mcp_clients;
mod mcp_http;
mod mcp_tools;
mod nodes;
mod older_journal;
mod page;
mod passkeys;
mod pauses;
mod people;
mod settings;
mod setup;
mod stories;
mod survival;
mod trials;
mod ui;
mod waking;
mod watching;
mod workers;
