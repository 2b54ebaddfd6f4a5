//! Remote workflow services: what they offer, and how their workflows are run.
//!
//! what a service says (names, descriptions, schemas), and when it is asked again.
//! It knows no daemon and no journal: whoever runs a workflow durably asks through
//! this.

mod config;
mod diff;
mod entry;
mod filter;
mod listing;
pub mod names;
pub mod schema;
mod text;

pub use config::{Config, Given, Invalid, KEYS, Key, Secret, Token, TokenError};
pub use diff::{Changes, diff};
pub use entry::{Execution, RemoteWorkflow};
pub use filter::Filter;
pub use listing::{Listing, MOST_BYTES, MOST_PAGES, MOST_WORKFLOWS, Page};
pub use text::clean as clean_text;
