//! Remote workflow services: their workflows, and the requests that run them.
//!
//! Owns the REST requests (discovery, start, status, cancel), the cleaning of a service's names, descriptions and
//! schemas, and the delays between requests. Knows no daemon and no journal: the daemon runs workflows durably and
//! sends its requests through this crate.
//!
//! Decisions are pure. [`Client`] sends requests and stores no answers.

mod answer_error;
pub mod backoff;
mod blocking;
mod client;
mod config;
mod diff;
mod entry;
mod filter;
mod listing;
mod metadata;
pub mod names;
pub mod schema;
mod status;
mod text;

pub use answer_error::{AnswerError, EntryError};
pub use backoff::{PollBackoff, PollResult};
pub use client::{Cancelled, Client, ClientError, Limits, RequestError, StartError, install_tls, jitter};
pub use config::{Config, ConfigError, KEYS, Key, RawValue, Secret, SettingError, Token, TokenError, is_loopback};
pub use diff::{Changes, diff};
pub use entry::{Execution, RemoteWorkflow};
pub use filter::Filter;
pub use listing::{Listing, MAX_ANSWER_BYTES, MAX_PAGES, MAX_WORKFLOWS, Page};
pub use status::{Ids, LocalEnd, StartedRun, State, Status, error_message, result};
pub use text::clean as clean_text;
