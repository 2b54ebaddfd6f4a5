//! The history of runs.
//!
//! Owns the memory of a run: numbered records, which a writer appends and which never change, and a summary beside them
//! that does change. A record is the text that its writer gave, with a version; the writer defines its meaning. Only
//! this crate writes histories, and a new [`Journal`] has to pass [`conformance!`].

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
