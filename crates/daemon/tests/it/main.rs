//! A daemon in this process, over the same lines as over its socket.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod agent_programs;
mod approved;
mod asking;
mod calls;
mod captured_screens;
mod captures;
mod commands;
mod contract;
mod contract_runs;
mod deleted_runs;
mod dialogues;
mod document_000;
mod document_examples;
mod durable_runs;
mod events;
mod files;
mod gates;
mod inputs;
mod library;
mod locked;
mod named_secrets;
mod nodes;
mod notifications;
mod once;
mod parallel;
mod pauses;
mod recordings;
mod remote_runs;
mod runs;
mod schedules;
mod screens;
mod tools;
mod trials;
mod values;
