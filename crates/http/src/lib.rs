//! HTTP server of the contract.
//!
//! Owns the API over a network socket: the admission of requests, the table of routes and its OpenAPI document, the
//! events of runs as server-sent events, the protocol of remote workflow services, health and metrics, and the page for
//! browsers. The daemon executes the verb of every route. This process has no state and may be killed at any time.
//! Clients do not notice a restart of the daemon.

mod admission;
mod api;
mod app;
mod connections;
mod dialect;
mod execute;
mod health;
mod hooks;
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
pub use server::{MAX_BODY_BYTES, Options, ServeError, Server};
pub use token::{Token, TokenError, token_file};
