//! Remote workflow services: their catalogs, kept up to date, and their runs in progress.
//!
//! Each configured service has a task that fetches its list at the start, at intervals, and on request. A valid list
//! stays until another valid one arrives, even while the service is down and across restarts of the daemon.

mod admission_queue;
mod arguments;
mod catalog;
mod discovery;
mod error;
mod metrics;
mod service;
mod services;
mod verbs;

pub use admission_queue::Permit;
pub use arguments::{arguments, check};
pub use error::InvalidArguments;
pub use metrics::RunEnd;
pub use service::{Service, ServiceClient};
pub use services::{RemoteServices, ToolListener};
pub use verbs::RemoteIds;
