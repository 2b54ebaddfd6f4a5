//! The field: real shells and programs, set up as people have them, times the ways in which a command reaches them.
//!
//! A report about a shell, a program or a way of typing becomes a row of one of three tables: [`shells::SHELLS`],
//! [`cases::CASES`] and [`programs::PROGRAMS`]. Each test takes one way of typing through a whole table, and lists all
//! rows that were wrong at once.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod cases;
mod programs;
mod shells;
#[allow(dead_code, reason = "the stories of other crates log in with a password")]
#[path = "../../crates/terminal/tests/it/ssh_server.rs"]
mod ssh_server;
mod ways;
