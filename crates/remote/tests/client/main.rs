//! The client against a service that misbehaves.

mod discovery;
mod running;
mod support;
mod tokens;
