//! Remote workflow services: what they offer, and how their workflows are run.
//!
//! Owns the small REST dialect (discovery, start, status, cancel), what is made of
//! what a service says (names, descriptions, schemas), and when it is asked again.
//! It knows no daemon and no journal: whoever runs a workflow durably asks through
//! this.

mod config;

pub use config::{Config, Token};
