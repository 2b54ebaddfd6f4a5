//! Files that a tab of the page sends in pieces. A complete file is copied to its target with `put_file`.
//!
//! The pieces are in a temporary directory that only the user can enter. An upload that is not continued is discarded.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use steplatch_protocol::{PutFile, Verb as _};
use tempfile::TempDir;

use crate::admission::Caller;
use crate::app::App;
use crate::execute::parse_body;
use crate::refusal::Refusal;

/// Maximum number of unfinished uploads; a new one discards the least recently continued.
const MAX_UPLOADS: usize = 8;

/// Maximum size of a file, in bytes: the limit of `put_file`.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Maximum time between two pieces. The upload is discarded afterwards.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum upload id length, in characters. The page chooses ids at random.
const MAX_ID_CHARS: usize = 64;

/// The unfinished uploads, by id.
#[derive(Debug, Default)]
pub(crate) struct Uploads(Mutex<HashMap<String, Upload>>);

#[derive(Debug)]
struct Upload {
    directory: TempDir,
    file: Arc<File>,
    size: u64,
    continued_at: Instant,
}

/// Permissions of a new file. A replaced file keeps its permissions.
const FILE_MODE: u32 = 0o644;

impl Upload {
    fn begin(now: Instant) -> io::Result<Self> {
        // With a usual umask the mode would be 0755, and other users could read the file.
        let private = Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir()?;
        let options = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).clone();
        let file = Arc::new(options.open(directory.path().join(CONTENT))?);
        Ok(Self { directory, file, size: 0, continued_at: now })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(CONTENT)
    }
}

/// Removes unfinished uploads of servers that were killed.
pub(crate) fn remove_stale() {
    let Ok(user) = std::fs::metadata("/proc/self").map(|process| process.uid()) else { return };
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            continue;
        }
        let Ok(metadata) = entry.metadata() else { continue };
        let content = entry.path().join(CONTENT).metadata().and_then(|content| content.modified());
        let age = content.or_else(|_| metadata.modified()).ok().and_then(|time| time.elapsed().ok());
        if metadata.is_dir() && metadata.uid() == user && age.is_some_and(|age| age > STALE_TIME) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Prefix of the names of upload directories.
const PREFIX: &str = "steplatch-upload-";

/// Age of an upload that no running server has.
const STALE_TIME: Duration = Duration::from_secs(2 * 3600);

/// Name of the file in the directory of an upload.
const CONTENT: &str = "content";

/// Reason for a refused piece.
#[derive(Debug, thiserror::Error)]
enum PieceError {
    #[error("The upload is unknown, or was discarded because nothing arrived for 10 minutes; begin it again")]
    Unknown,
    #[error("The piece begins at byte {offset}, but {received} bytes have arrived")]
    Gap { offset: u64, received: u64 },
    #[error("The file is larger than the limit of 256 MiB; copy it with scp")]
    TooLarge,
    #[error("Failed to store the file: {0}")]
    System(#[from] io::Error),
}

impl From<PieceError> for Refusal {
    fn from(error: PieceError) -> Self {
        let (status, code) = match error {
            PieceError::Unknown => (StatusCode::NOT_FOUND, "not_found"),
            PieceError::Gap { .. } => (StatusCode::CONFLICT, "conflict"),
            PieceError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large"),
            PieceError::System(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl Uploads {
    /// Adds a piece at `offset`; the piece at 0 begins the upload. A repeated piece changes nothing. Returns the number
    /// of bytes that have arrived.
    fn add(&self, id: &str, offset: u64, piece: &[u8], now: Instant) -> Result<u64, PieceError> {
        let Some(end) = offset.checked_add(piece.len() as u64).filter(|end| *end <= MAX_FILE_BYTES) else {
            self.0.lock().remove(id);
            return Err(PieceError::TooLarge);
        };
        let mut uploads = self.0.lock();
        remove_idle(&mut uploads, now);
        if offset == 0 && !uploads.contains_key(id) {
            make_room(&mut uploads);
            uploads.insert(id.to_owned(), Upload::begin(now)?);
        }
        let upload = uploads.get_mut(id).ok_or(PieceError::Unknown)?;
        upload.continued_at = now;
        if end <= upload.size {
            return Ok(upload.size);
        }
        if offset != upload.size {
            return Err(PieceError::Gap { offset, received: upload.size });
        }
        let file = upload.file.clone();
        // Other requests need the lock while the disk writes. An earlier attempt may have written a part of the piece.
        drop(uploads);
        file.write_all_at(piece, offset)?;
        let mut uploads = self.0.lock();
        let upload = uploads.get_mut(id).filter(|upload| Arc::ptr_eq(&upload.file, &file));
        let upload = upload.ok_or(PieceError::Unknown)?;
        upload.size = upload.size.max(end);
        Ok(upload.size)
    }

    fn take(&self, id: &str) -> Option<Upload> {
        self.0.lock().remove(id)
    }

    /// Discards idle uploads. Returns whether no upload is left.
    fn discard_idle(&self, now: Instant) -> bool {
        let mut uploads = self.0.lock();
        remove_idle(&mut uploads, now);
        uploads.is_empty()
    }
}

/// Discards idle uploads until no upload is left.
async fn discard_idle_uploads(app: Weak<App>) {
    loop {
        tokio::time::sleep(UPLOAD_TIMEOUT).await;
        match app.upgrade() {
            Some(app) if !app.uploads.discard_idle(Instant::now()) => {}
            _ => return,
        }
    }
}

fn remove_idle(uploads: &mut HashMap<String, Upload>, now: Instant) {
    uploads.retain(|_, upload| now.duration_since(upload.continued_at) < UPLOAD_TIMEOUT);
}

fn make_room(uploads: &mut HashMap<String, Upload>) {
    if uploads.len() < MAX_UPLOADS {
        return;
    }
    let oldest = uploads.iter().min_by_key(|(_, upload)| upload.continued_at).map(|(id, _)| id.clone());
    oldest.and_then(|id| uploads.remove(&id));
}

/// Position of a piece.
#[derive(Debug, Deserialize)]
pub(super) struct Piece {
    offset: u64,
}

/// Checks the id, and that the request is from a tab of the page.
fn check_request(caller: Caller, id: &str) -> Result<(), Refusal> {
    if caller != Caller::Page {
        let error = "Only a browser that is logged in to the page may send this request; use PUT /api/v1/files";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "page_only", error));
    }
    match !id.is_empty() && id.len() <= MAX_ID_CHARS && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(()),
        false => Err(Refusal::invalid("The upload id must consist of letters and digits")),
    }
}

/// Stores a piece of a file.
///
/// # Errors
/// If the piece does not follow the earlier ones, the file is too large, or the system reports an error.
pub(super) async fn put_piece(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(piece): Query<Piece>,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    check_request(caller, &id)?;
    if piece.offset == 0 {
        tokio::spawn(discard_idle_uploads(Arc::downgrade(&app)));
    }
    let add_piece = move || app.uploads.add(&id, piece.offset, &body, Instant::now());
    let received = tokio::task::spawn_blocking(add_piece).await.map_err(io::Error::other);
    Ok(Json(json!({"success": true, "received": received.map_err(PieceError::from)??})))
}

/// Copies a complete file to its target.
///
/// # Errors
/// If the upload is unknown or incomplete, or the daemon does not write the file. The upload is discarded in each case.
pub(super) async fn finish(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    check_request(caller, &id)?;
    let mut params = parse_body(&headers, &body)?;
    let size = params.remove("size").and_then(|size| size.as_u64());
    let upload = app.uploads.take(&id).ok_or(PieceError::Unknown)?;
    if size != Some(upload.size) {
        let error = format!("{} bytes have arrived, but the file has {}", upload.size, size.unwrap_or_default());
        return Err(Refusal::new(StatusCode::CONFLICT, "conflict", error));
    }
    // A piece that the disk had no room for may have left bytes past the end.
    let (file, length) = (upload.file.clone(), upload.size);
    let cut = tokio::task::spawn_blocking(move || file.set_len(length)).await.map_err(io::Error::other);
    cut.and_then(|cut| cut).map_err(PieceError::from)?;
    params.insert("from".to_owned(), upload.path().display().to_string().into());
    let reply = app.daemon.call_raw(PutFile::NAME, Value::Object(params)).await;
    let has_written = reply.as_ref().is_ok_and(|(reply, _)| reply["success"] == true);
    let status = if has_written { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok((status, Json(reply?.0)).into_response())
}

/// Discards an upload.
///
/// # Errors
/// If the request does not come from the page.
pub(super) async fn discard(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refusal> {
    check_request(caller, &id)?;
    app.uploads.take(&id);
    Ok(Json(json!({"success": true})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_stored_in_order_and_repeats_have_no_effect() {
        let (uploads, now) = (Uploads::default(), Instant::now());
        assert_eq!(uploads.add("a", 0, b"one ", now).unwrap(), 4);
        assert_eq!(uploads.add("a", 4, b"two", now).unwrap(), 7);
        assert_eq!(uploads.add("a", 4, b"two", now).unwrap(), 7);
        assert_eq!(uploads.add("a", 0, b"one ", now).unwrap(), 7);
        assert!(matches!(uploads.add("a", 8, b"x", now), Err(PieceError::Gap { offset: 8, received: 7 })));
        assert!(matches!(uploads.add("b", 1, b"x", now), Err(PieceError::Unknown)));
        let upload = uploads.take("a").unwrap();
        assert_eq!(
            upload.directory.path().metadata().unwrap().permissions().mode() & 0o077,
            0,
            "only the user can enter the directory"
        );
        assert_eq!(std::fs::read(upload.path()).unwrap(), b"one two");
        let path = upload.path();
        drop(upload);
        assert!(!path.exists());
    }

    #[test]
    fn uploads_are_limited_in_size_number_and_time() {
        let (uploads, now) = (Uploads::default(), Instant::now());
        uploads.add("big", 0, b"x", now).unwrap();
        assert!(matches!(uploads.add("big", MAX_FILE_BYTES, b"x", now), Err(PieceError::TooLarge)));
        assert!(uploads.take("big").is_none());
        assert!(matches!(uploads.add("big", u64::MAX, b"x", now), Err(PieceError::TooLarge)));
        for number in 0..=MAX_UPLOADS {
            let begin = now + Duration::from_secs(number as u64);
            uploads.add(&number.to_string(), 0, b"x", begin).unwrap();
        }
        assert!(uploads.take("0").is_none() && uploads.take("1").is_some());
        let after_timeout = now + Duration::from_secs(MAX_UPLOADS as u64) + UPLOAD_TIMEOUT;
        assert!(matches!(uploads.add("8", 1, b"y", after_timeout), Err(PieceError::Unknown)));
    }
}
