//! The contract over HTTP.
//!
//! Owns the API over a network socket: the admission of requests, the table of routes and its OpenAPI document, the
//! events of runs as server-sent events, the protocol of remote workflow services, health and metrics, and the page for
//! browsers. Every route is a verb that the daemon answers. This process has no state, so it may be killed at any time,
//! and clients do not notice a restart of the daemon.

mod admission;
mod api;
mod app;
mod carry_out;
mod connections;
mod dialect;
mod health;
mod live;
mod metrics;
mod openapi;
mod page;
mod projects;
mod refusal;
mod route;
mod server;
mod stream;
mod token;

pub use admission::InvalidName;
pub use openapi::document;
pub use route::{BASE, FailureStatus, Method, ROUTES, ResourceKind, Route, WITHOUT_ROUTE};
pub use server::{MAX_BODY, Options, ServeError, Server};
pub use token::{Token, TokenError, token_file};
