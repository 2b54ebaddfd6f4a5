//! The directory of saved workflows.
//!
//! Owns a file `NAME.json` for each workflow: the definition as its author wrote it, and the statistics of its runs.
//! People and git may change the files: the name of the file is the name of the workflow, and an edited definition is a
//! draft again.
//!
//! Functions have their own files: `NAME.py` as its author wrote it, with one or several workflows, and
//! `NAME.meta.json` with the statistics of their runs.
//!
//! Every write replaces a whole file, under a lock that all processes share; readers need no lock. `index.json` is a
//! cache, because it is derived from the files, and rebuilt when it does not match them.
//!
//! The previous versions of a changed machine are in `.versions`, with their authors.
//!
//! All calls block. This crate does not judge whether a definition is valid.

mod directory;
mod document;
mod error;
mod function_file;
mod functions;
mod index;
mod library;
mod signature;
mod versions;

pub use directory::Stamp;
pub use document::{Metadata, Status, Stored};
pub use error::{CreateError, DirectoryError, FileError, LookupError, ReplaceError};
pub use function_file::{Counts, Declares, FoundFunctions, FunctionFile, FunctionMetadata, Origin};
pub use index::{Broken, Entry, Listing};
pub use library::{Library, SaveOutcome};
pub use signature::Signature;
pub use versions::{Author, MAX_VERSIONS, SavedVersion, VersionError};
