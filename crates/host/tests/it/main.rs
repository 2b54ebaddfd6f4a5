//! Terminal hosts on this computer and on others.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod hosts;
mod lies;
mod remote;
mod transfers;
