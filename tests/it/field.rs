//! The field: real shells and programs in common configurations, combined with the ways of sending them a command.
//!
//! A report about a shell, a program or a way of typing becomes a row of a table: [`shells::SHELLS`], [`cases::CASES`],
//! [`menus::MENUS`], [`ways::MULTIPLEXERS`], or one of the two tables of [`programs`]. Each test applies one way of
//! typing to a whole table, and lists all failed rows at once.

mod cases;
mod menus;
mod programs;
mod shells;
mod ways;
