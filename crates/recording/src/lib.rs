//! Recordings of terminals: their format, their catalog and their replay.
//!
//! A recording is an asciicast file at a path that its owner selects (`asciicast.rs`); the catalog is a directory of
//! links to these files (`catalog.rs`). A replay draws a recording with the emulator of a live terminal (`player.rs`),
//! from the beginning or from a keyframe. The replay reads the file step by step, so its memory does not grow with the
//! file. `frames.rs` returns the screens of the recent output of a terminal. `events.rs` reads all events at once, with the typed input, for an import.
//!
//! This crate does not mask secrets: the daemon masks the screens that it sends, as for live terminals.

mod asciicast;
mod catalog;
mod events;
mod frames;
mod player;
mod reader;

pub use asciicast::{Events, Header};
pub use catalog::{Catalog, CatalogEntry, InvalidRecordingId, RecordingId};
pub use events::{RecordedEvent, RecordedEvents, recorded_events};
pub use frames::{Frame, NoFrames, frames};
pub use player::{Marker, OpenError, Player};
pub use reader::Damage;
