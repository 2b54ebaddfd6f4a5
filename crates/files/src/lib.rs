//! Files of one machine, as transfers read and write them: in pieces, atomically, and with a checksum of the whole.
//!
//! Owns the requests ([`FileAsk`]), which travel to the machine of a file, and their execution there ([`disk`]). A new
//! file grows beside its place as `.steplatch-TRANSFER.part`, and takes its place by a rename once its length and its
//! SHA-256 digest are right. A client may repeat every request: it has the same effect and the same answer again.

mod digest;
pub mod disk;
mod piece_size;
mod request;

pub use digest::{DigestBuilder, FileDigest, InvalidDigest};
pub use piece_size::PieceSize;
pub use request::{
    DirectoryEntry, FileAsk, FileError, FileFacts, FileIdentity, FileKind, FilePiece, FileWritten,
    MAX_DIRECTORY_ENTRIES, MAX_PIECE_BYTES, WriteTarget, is_entry_name,
};
