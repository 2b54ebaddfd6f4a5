//! The contract over HTTP.
//!
//! Owns how programs and pages see steplatch over a network socket: who is let in, the table of routes with the document
//! that describes them, the events of runs as server-sent events, the dialect that remote workflow services speak,
//! health and metrics. It does nothing itself: every route is a verb that the daemon answers, so this process may be
//! killed without taking anything with it, and a daemon that is killed is seen by nobody.

mod admission;
mod api;
mod carry_out;
mod connections;
mod dialect;
mod health;
mod metrics;
mod openapi;
mod refusal;
mod route;
mod server;
mod stream;
mod token;

pub use admission::InvalidName;
pub use openapi::document;
pub use route::{BASE, Method, ROUTES, Route, Thing, Unsuccessful, WITHOUT_ROUTE};
pub use server::{MAX_BODY, Options, ServeError, Server};
pub use token::{Token, TokenError, token_file};
