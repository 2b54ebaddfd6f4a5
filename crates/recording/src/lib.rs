//! Recordings of terminals: their format, their catalog and their replay.
//!
//! A recording is an asciicast file, which stays where its owner wanted it (`asciicast.rs`); the catalog is a directory
//! of links to such files (`catalog.rs`). A replay draws one with the emulator of a live terminal (`player.rs`), from
//! the beginning or from a keyframe, and reads the file as it goes: its memory does not grow with the file. `events.rs`
//! reads all events at once, with the typed input, for an import.
//!
//! Nothing here masks secrets: the daemon masks screens where they leave it, as the screens of live terminals.

mod asciicast;
mod catalog;
mod events;
mod player;
mod reader;

pub use asciicast::{Events, Header};
pub use catalog::{Catalog, CatalogEntry, InvalidRecordingId, RecordingId};
pub use events::{RecordedEvent, RecordedEvents, recorded_events};
pub use player::{Marker, OpenError, Player};
pub use reader::Damage;
