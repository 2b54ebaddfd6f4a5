//! Terminals with real shells and programs.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod approved;
mod asking;
mod inner_shells;
mod leftovers;
mod margins;
mod past;
mod piped;
mod plain_commands;
mod programs;
mod settings;
mod shadowed;
mod shells;
mod ssh;
mod ssh_server;
mod starting;
mod typing;
