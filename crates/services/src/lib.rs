//! Remote workflow services: their catalogs, kept up to date, and their runs in progress.
//!
//! Each configured service has a task that fetches its list at the start, when the list is due, and on request. A good
//! list stays until another good one arrives, also while the service is down and across restarts of the daemon.

mod admission_queue;
mod arguments;
mod catalog;
mod discovery;
mod error;
mod numbers;
mod service;
mod services;
mod verbs;

pub use admission_queue::Permit;
pub use arguments::{arguments, check};
pub use error::InvalidArguments;
pub use numbers::RunEnd;
pub use service::{Service, ServiceClient};
pub use services::{RemoteServices, ToolListener};
pub use verbs::RemoteIds;
