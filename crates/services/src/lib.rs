//! Remote workflow services: what they offer, kept up to date, and who is under way there.
//!
//! Each service that is configured has a task that asks for its list at the start, when
//! its time has come, and when somebody wants that. A list that was good once stays until
//! another good one comes: over a service that is down, and over daemons.

mod arguments;
mod catalog;
mod discovery;
mod line;
mod numbers;
mod service;
mod services;
mod verbs;

pub use arguments::{arguments, check};
pub use line::Permit;
pub use numbers::RunEnd;
pub use service::{Service, ServiceClient};
pub use services::{RemoteServices, ToolListener};
pub use verbs::RemoteIds;
