//! The tables, their migrations, and the ownership of a database.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior};

use super::SqliteOptions;
use crate::{OpenError, StorageError};

/// Marks the file as a journal of this program: "Step". See <https://www.sqlite.org/fileformat.html#application_id>.
const APPLICATION: i64 = 0x5374_6570;

/// Steps that migrate a database from one format to the next; the first step creates the tables. `user_version` has the
/// format. Later versions add steps, and change no existing step.
const MIGRATIONS: &[&str] = &["
    -- One row: who may write.
    CREATE TABLE owner (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL);
    INSERT INTO owner VALUES (1, 0);

    -- A run, and what lists tell of it. A number is never given twice.
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run TEXT NOT NULL UNIQUE,
        state TEXT,
        finished_at INTEGER,
        summary TEXT,
        -- What its writer needs until it is finished, and nobody else.
        private TEXT
    );
    CREATE INDEX runs_by_state ON runs (state, number);
    CREATE INDEX runs_by_end ON runs (finished_at, number) WHERE finished_at IS NOT NULL;

    CREATE TABLE keys (key TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX keys_by_run ON keys (number);

    -- The histories. An entry has its text here, or the name of the blob that has it.
    CREATE TABLE records (
        number INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        format INTEGER NOT NULL,
        version INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        text TEXT,
        blob BLOB,
        PRIMARY KEY (number, seq)
    ) WITHOUT ROWID;
    CREATE INDEX records_by_blob ON records (blob) WHERE blob IS NOT NULL;

    -- Long texts, compressed, under the SHA-256 of what they say.
    CREATE TABLE blobs (hash BLOB PRIMARY KEY, length INTEGER NOT NULL, packed BLOB NOT NULL);
"];

/// Maximum time that a connection waits while another process uses the journal or takes it over.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of the log in bytes; SQLite truncates a longer log to it.
const MAX_LOG_BYTES: i64 = 16 << 20;

/// Maximum number of prepared statements per connection; higher than the number in this crate.
const MAX_PREPARED_STATEMENTS: usize = 32;

/// Opens the database for writing, brings it to the newest format and takes it over. Also returns the number of the new
/// owner.
pub(super) fn open(path: &Path, options: &SqliteOptions) -> Result<(Connection, u64), OpenError> {
    open_database(path, options).map_err(|error| match error {
        // With a full disk, SQLite often reports a failure to open or extend the log file.
        OpenError::Storage { path, cause: StorageError::Failed(cause) } if is_disk_full(&path) => {
            OpenError::Storage { path, cause: StorageError::Full(cause) }
        }
        error => error,
    })
}

/// Size of the trial write, in bytes: the space that SQLite needs for the files next to a database.
const TRIAL_BYTES: usize = 64 << 10;

/// Returns whether the disk or the user's quota is full, as determined by a trial write next to `path`.
fn is_disk_full(path: &Path) -> bool {
    let trial = path.with_extension(format!("room-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&trial).and_then(|mut file| {
        file.write_all(&[0; TRIAL_BYTES])?;
        // Some file systems allocate the space only now.
        file.sync_all()
    });
    let _ = fs::remove_file(&trial);
    written.is_err_and(|error| is_full_error(error.kind()))
}

fn is_full_error(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn open_database(path: &Path, options: &SqliteOptions) -> Result<(Connection, u64), OpenError> {
    create(path).map_err(|cause| OpenError::File { path: path.to_owned(), cause })?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let storage = |cause: rusqlite::Error| OpenError::Storage { path: path.to_owned(), cause: cause.into() };
    // Check before any change, so that a foreign database stays unchanged.
    check_format(&connection, path)?;
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .and_then(|()| connection.pragma_update(None, "synchronous", "FULL"))
        .and_then(|()| connection.pragma_update(None, "journal_size_limit", MAX_LOG_BYTES))
        // Overwrite deleted private data.
        .and_then(|()| connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())))
        .map_err(storage)?;
    limit_size(&connection, options.max_bytes).map_err(storage)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(storage)?;
    // Check again under the lock, since another process may have created the tables in the meantime.
    let format = check_format(&transaction, path)?;
    migrate(&transaction, format).map_err(storage)?;
    let epoch = take_over(&transaction).map_err(storage)?;
    transaction.commit().map_err(storage)?;
    // The log of a killed owner may contain private data. The log remains for now if another process reads it.
    let _ = empty_log(&connection);
    Ok((connection, epoch))
}

/// Moves the contents of the log into the database. Returns false if a reader currently needs the log.
pub(super) fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    // The first column reports whether it was busy: https://www.sqlite.org/pragma.html#pragma_wal_checkpoint
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok(row.get::<_, i64>(0)? == 0))
}

/// Opens a second connection to a database that [`open`] has prepared.
pub(super) fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let result = connection.pragma_update(None, "query_only", true);
    result.map_err(|cause| OpenError::Storage { path: path.to_owned(), cause: cause.into() })?;
    Ok(connection)
}

/// Checks that `own_epoch` is the number of the current owner.
pub(super) fn check_owner(transaction: &Transaction<'_>, own_epoch: u64) -> Result<(), StorageError> {
    let owner: i64 =
        transaction.prepare_cached("SELECT epoch FROM owner WHERE one = 1")?.query_row([], |row| row.get(0))?;
    let owner = owner.cast_unsigned();
    if owner == own_epoch { Ok(()) } else { Err(StorageError::NotOwner { own: own_epoch, owner }) }
}

/// Creates the file, readable only by its user, because it contains the output of terminals. SQLite creates the log
/// with the same mode.
fn create(path: &Path) -> std::io::Result<()> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => File::open(directory)?.sync_all(),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => fs::metadata(path).map(|_| ()),
        Err(error) => Err(error),
    }
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, OpenError> {
    let result = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX).and_then(|connection| {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(MAX_PREPARED_STATEMENTS);
        Ok(connection)
    });
    result.map_err(|cause| OpenError::Storage { path: path.to_owned(), cause: cause.into() })
}

/// Returns the format of a steplatch database, or 0 for an empty one.
fn check_format(connection: &Connection, path: &Path) -> Result<usize, OpenError> {
    let read = || -> rusqlite::Result<(i64, i64, Option<String>)> {
        let application = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let format = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let table = connection.query_row("SELECT name FROM sqlite_schema LIMIT 1", [], |row| row.get(0)).optional()?;
        Ok((application, format, table))
    };
    let storage = |cause: rusqlite::Error| OpenError::Storage { path: path.to_owned(), cause: cause.into() };
    let (application, found, table) = read().map_err(storage)?;
    let known = MIGRATIONS.len();
    match (application, usize::try_from(found)) {
        (0, Ok(0)) if table.is_none() => Ok(0),
        (APPLICATION, Ok(format @ 1..)) if format <= known => Ok(format),
        (APPLICATION, Ok(1..)) => Err(OpenError::Newer { path: path.to_owned(), found, known: known as i64 }),
        _ => Err(OpenError::Foreign { path: path.to_owned() }),
    }
}

fn migrate(transaction: &Transaction<'_>, format: usize) -> rusqlite::Result<()> {
    if format == MIGRATIONS.len() {
        return Ok(());
    }
    for step in &MIGRATIONS[format..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)
}

fn take_over(transaction: &Transaction<'_>) -> rusqlite::Result<u64> {
    let epoch: i64 =
        transaction
            .query_row("UPDATE owner SET epoch = epoch + 1 WHERE one = 1 RETURNING epoch", [], |row| row.get(0))?;
    Ok(epoch.cast_unsigned())
}

fn limit_size(connection: &Connection, max_bytes: Option<u64>) -> rusqlite::Result<()> {
    let Some(bytes) = max_bytes else { return Ok(()) };
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1);
    connection.pragma_update_and_check(None, "max_page_count", pages.max(1), |_| Ok(()))
}
