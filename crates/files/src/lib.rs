//! Files of one computer, as read and written by transfers: in pieces, atomically, and with a checksum of the file.
//!
//! Owns the requests ([`FileRequest`]) and their execution ([`disk`]) on the computer with the file. A new file grows
//! in its directory as `.steplatch-TRANSFER.part`, and is renamed into place once its length and its SHA-256 digest are
//! correct. Requests are idempotent, so a client may repeat them.

mod digest;
pub mod disk;
mod piece_size;
mod request;

pub use digest::{DigestBuilder, FileDigest, InvalidDigest};
pub use piece_size::PieceSize;
pub use request::{
    DirectoryEntry, FileError, FileFacts, FileIdentity, FileKind, FilePiece, FileRequest, FileWritten,
    MAX_DIRECTORY_ENTRIES, MAX_PIECE_BYTES, WriteTarget, is_entry_name,
};
