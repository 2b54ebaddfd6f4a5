//! The history of runs.
//!
//! Owns the history of a run: numbered records, appended by a writer, and a changing summary next to them. A record is
//! text with a version; its writer defines the meaning. Only this crate writes histories, and a new [`Journal`] has to
//! pass [`conformance!`].

mod conformance;
mod error;
mod journal;
mod memory;
mod sqlite;

pub use conformance::JournalConformance;
pub use error::{AppendError, OpenError, ReadError, StorageError};
pub use journal::{Append, Appended, Journal, KnownRun, Record, Retention, RunFilter, Summary};
pub use memory::MemoryJournal;
pub use sqlite::{SqliteJournal, SqliteOptions};
