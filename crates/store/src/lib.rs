//! The history of runs.
//!
//! Owns what is remembered of a run: numbered records, which are appended and never change, and a
//! summary beside them that does change. A record is the text that its writer gave, with a version;
//! its meaning is defined by the writer. Only this crate writes histories, and a new [`Journal`] is
//! finished when [`conformance!`] passes for it.

mod conformance;
mod error;
mod journal;
mod memory;
mod sqlite;

pub use conformance::Scripted;
pub use error::{AppendError, OpenError, ReadError, StorageError};
pub use journal::{Append, Appended, Journal, KnownRun, Record, Retention, RunFilter, Summary};
pub use memory::MemoryJournal;
pub use sqlite::{SqliteJournal, SqliteOptions};
