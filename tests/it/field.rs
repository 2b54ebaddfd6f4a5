//! The field: real shells and programs, set up as people have them, times the ways in which a command reaches them.
//!
//! A report about a shell, a program or a way of typing becomes a row of a table: [`shells::SHELLS`],
//! [`cases::CASES`], [`menus::MENUS`], [`ways::MULTIPLEXERS`], or one of the two of [`programs`]. Each test takes one way
//! of typing through a whole table, and lists all rows that were wrong at once.

mod cases;
mod menus;
mod programs;
mod shells;
mod ways;
