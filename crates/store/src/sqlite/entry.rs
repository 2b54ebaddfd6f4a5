//! Stored form of an entry, and its verification on read.
//!
//! Text of up to [`MAX_INLINE_BYTES`] bytes is in the row itself. Longer text, such as terminal output, is compressed
//! in a row of `blobs` under its SHA-256, so that ten entries with the same screen store it once. A row's checksum
//! covers the run, the numbers and the text or the blob's hash, so it detects a changed row and a moved row.

use lz4_flex::block;
use rusqlite::types::Null;
use rusqlite::{CachedStatement, OptionalExtension as _, Row, Transaction, params};
use sha2::{Digest as _, Sha256};
use steplatch_ids::RunId;
use xxhash_rust::xxh3::Xxh3;

use crate::{ReadError, Record};

/// Maximum length of text stored in its entry's row, in bytes.
pub(super) const MAX_INLINE_BYTES: usize = 16 * 1024;

/// The text is in the row.
const FORMAT_IN_ROW: i64 = 1;
/// The text is in a blob.
const FORMAT_IN_BLOB: i64 = 2;

/// Maximum compression ratio: each length byte in LZ4 adds at most 255. See
/// <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>.
const MAX_COMPRESSION_RATIO: usize = 255;

/// Query for the columns that [`read`] needs, from `records` joined with `blobs`.
pub(super) const SELECT: &str = "
    SELECT seq, format, version, checksum, text, blob, length, packed
    FROM records LEFT JOIN blobs ON blobs.hash = records.blob
    WHERE number = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3";

/// Writes the entries of one run.
pub(super) struct Entries<'t> {
    transaction: &'t Transaction<'t>,
    insert: CachedStatement<'t>,
    number: i64,
    run: &'t RunId,
}

impl<'t> Entries<'t> {
    /// Prepares to write entries of `run`, the run with this `number`.
    pub(super) fn prepare(transaction: &'t Transaction<'t>, number: i64, run: &'t RunId) -> rusqlite::Result<Self> {
        let insert = transaction.prepare_cached("INSERT INTO records VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
        Ok(Self { transaction, insert, number, run })
    }

    /// Writes the entry `seq`.
    pub(super) fn write(&mut self, seq: u64, version: u16, text: &str) -> rusqlite::Result<()> {
        let (number, seq) = (self.number, seq.cast_signed());
        if text.len() <= MAX_INLINE_BYTES {
            let checksum = checksum(self.run, seq, FORMAT_IN_ROW, version.into(), text.as_bytes());
            self.insert.execute(params![number, seq, FORMAT_IN_ROW, version, checksum, text, Null])?;
        } else {
            let hash = Sha256::digest(text.as_bytes());
            let checksum = checksum(self.run, seq, FORMAT_IN_BLOB, version.into(), &hash);
            store_blob(self.transaction, &hash, text.as_bytes())?;
            self.insert.execute(params![number, seq, FORMAT_IN_BLOB, version, checksum, Null, hash.as_slice()])?;
        }
        Ok(())
    }
}

impl Entries<'_> {
    /// Replaces the text of the entry `seq`, if it exists.
    pub(super) fn replace(&mut self, seq: u64, text: &str) -> rusqlite::Result<()> {
        let key = params![self.number, seq.cast_signed()];
        let mut find = self.transaction.prepare_cached(FIND_ENTRY)?;
        let Some((version, blob)) =
            find.query_row(key, |row| Ok((row.get(0)?, row.get::<_, Option<Vec<u8>>>(1)?))).optional()?
        else {
            return Ok(());
        };
        self.transaction.prepare_cached("DELETE FROM records WHERE number = ?1 AND seq = ?2")?.execute(key)?;
        if let Some(blob) = blob {
            self.transaction.prepare_cached(FORGET_BLOB)?.execute([blob])?;
        }
        self.write(seq, version, text)
    }
}

const FIND_ENTRY: &str = "SELECT version, blob FROM records WHERE number = ?1 AND seq = ?2";

/// Removes a blob that no entry uses.
pub(super) const FORGET_BLOB: &str =
    "DELETE FROM blobs WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM records WHERE blob = ?1)";

fn store_blob(transaction: &Transaction<'_>, hash: &[u8], text: &[u8]) -> rusqlite::Result<()> {
    let is_stored = transaction.prepare_cached("SELECT 1 FROM blobs WHERE hash = ?1")?.exists([hash])?;
    if is_stored {
        return Ok(());
    }
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let mut insert = transaction.prepare_cached("INSERT INTO blobs VALUES (?1, ?2, ?3)")?;
    insert.execute(params![hash, length, block::compress(text)]).map(|_| ())
}

/// Reads the entry that should be number `seq` and verifies its parts.
pub(super) fn read(row: &Row<'_>, run: &RunId, seq: u64, newest_version: u16) -> Result<Record, ReadError> {
    let damaged = |what| ReadError::Damaged { run: run.clone(), seq, what };
    let unknown = |version: i64, known: i64| ReadError::UnknownVersion {
        run: run.clone(),
        seq,
        version: version.cast_unsigned(),
        known: known.cast_unsigned(),
    };
    let number = |column: usize| row.get_ref(column)?.as_i64().map_err(|_| damaged("one of its numbers is missing"));
    let bytes = |column: usize| row.get_ref(column)?.as_bytes().map_err(|_| damaged("one of its parts is missing"));

    if number(0)? != seq.cast_signed() {
        return Err(damaged("it is missing, although a later one exists"));
    }
    let (format, version, expected) = (number(1)?, number(2)?, number(3)?);
    let checked_bytes = match format {
        FORMAT_IN_ROW => bytes(4)?,
        FORMAT_IN_BLOB => bytes(5)?,
        newer => return Err(unknown(newer, FORMAT_IN_BLOB)),
    };
    if checksum(run, seq.cast_signed(), format, version, checked_bytes) != expected {
        return Err(damaged("its checksum does not match"));
    }
    let Some(version) = u16::try_from(version).ok().filter(|version| *version <= newest_version) else {
        return Err(unknown(version, newest_version.into()));
    };
    let text = if format == FORMAT_IN_ROW {
        checked_bytes.to_vec()
    } else {
        let length = usize::try_from(number(6)?).map_err(|_| damaged("its length does not match"))?;
        let packed = bytes(7)?;
        if length > packed.len().saturating_mul(MAX_COMPRESSION_RATIO) {
            return Err(damaged("its length does not match"));
        }
        let text =
            block::decompress(packed, length).map_err(|_| damaged("its compressed text cannot be decompressed"))?;
        if Sha256::digest(&text).as_slice() != checked_bytes {
            return Err(damaged("the hash of its compressed text does not match"));
        }
        text
    };
    let text = String::from_utf8(text).map_err(|_| damaged("it is not text"))?;
    Ok(Record { seq, version, text })
}

fn checksum(run: &RunId, seq: i64, format: i64, version: i64, checked_bytes: &[u8]) -> i64 {
    let mut hash = Xxh3::new();
    hash.update(run.as_str().as_bytes());
    for number in [seq, format, version] {
        hash.update(&number.to_le_bytes());
    }
    hash.update(checked_bytes);
    hash.digest().cast_signed()
}
