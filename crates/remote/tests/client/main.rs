//! The client with a misbehaving service.

mod discovery;
mod running;
mod support;
mod tokens;
