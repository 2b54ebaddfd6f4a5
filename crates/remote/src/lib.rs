//! Remote workflow services: what they offer, and how their workflows are run.
//!
//! Owns the small REST dialect (discovery, start, status, cancel), what is made of
//! what a service says (names, descriptions, schemas), and when it is asked again.
//! It knows no daemon and no journal: whoever runs a workflow durably asks through
//! this.
//!
//! What decides is pure; [`Client`] asks, and keeps nothing of what it hears.

mod client;
mod config;
mod diff;
mod entry;
mod filter;
mod listing;
mod metadata;
pub mod names;
pub mod pace;
pub mod schema;
mod status;
mod text;

pub use client::{AskError, Cancelled, Client, Limits, SetUpError, StartError, jitter};
pub use config::{Config, Given, Invalid, KEYS, Key, Secret, Token, TokenError};
pub use diff::{Changes, diff};
pub use entry::{Execution, RemoteWorkflow};
pub use filter::Filter;
pub use listing::{Listing, MOST_BYTES, MOST_PAGES, MOST_WORKFLOWS, Page};
pub use pace::{Looked, Pace};
pub use status::{Ids, LocalEnd, Started, State, Status, failure_words, result};
pub use text::clean as clean_text;
