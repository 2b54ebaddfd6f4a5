//! Execution of file requests on this computer. Every function blocks, and keeps no file open.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::digest::{DigestBuilder, FileDigest};
use crate::request::{
    DirectoryEntry, FileError, FileFacts, FileIdentity, FileKind, FilePiece, FileWritten, MAX_DIRECTORY_ENTRIES,
    MAX_PIECE_BYTES, WriteTarget,
};

/// Permissions of a new file if the request has none.
const DEFAULT_MODE: u32 = 0o644;

/// The bits of `st_mode` that a written file may have: neither set-user-ID nor set-group-ID.
const PERMISSION_BITS: u32 = 0o777;

/// Returns the absolute path: a relative path, or one with `~`, begins at the home directory.
#[must_use]
pub fn absolute(path: &Path) -> PathBuf {
    let relative = path.strip_prefix("~").unwrap_or(path);
    if relative.is_absolute() {
        return relative.to_owned();
    }
    let home = std::env::home_dir().unwrap_or_else(|| PathBuf::from("/"));
    // Joining an empty path would add a slash.
    if relative.as_os_str().is_empty() { home } else { home.join(relative) }
}

/// Describes a file or directory.
///
/// # Errors
/// If the path does not exist, or access to it fails.
pub fn describe(path: &Path) -> Result<FileFacts, FileError> {
    let path = absolute(path);
    let metadata = fs::metadata(&path).map_err(|error| read_error(&path, &error))?;
    Ok(file_facts(&path, &metadata))
}

fn file_facts(path: &Path, metadata: &fs::Metadata) -> FileFacts {
    FileFacts {
        path: display_path(path),
        kind: file_kind(metadata),
        size: metadata.len(),
        mode: metadata.mode() & 0o7777,
        modified: metadata.modified().ok(),
        identity: FileIdentity { device: metadata.dev(), inode: metadata.ino() },
    }
}

fn file_kind(metadata: &fs::Metadata) -> FileKind {
    match metadata.file_type() {
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_dir() => FileKind::Directory,
        _ => FileKind::Other,
    }
}

/// Returns a path as text, for people and for replies.
fn display_path(path: &Path) -> String {
    path.display().to_string()
}

/// Lists a directory, sorted by name.
///
/// # Errors
/// If the path is not a readable directory, or has more than 100,000 entries.
pub fn list(path: &Path) -> Result<Vec<DirectoryEntry>, FileError> {
    let path = absolute(path);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotADirectory => FileError::NotDirectory(display_path(&path)),
        _ => read_error(&path, &error),
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // The entry has just disappeared.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        let name = entry.file_name();
        let is_plain = !metadata.is_symlink() && name.to_str().is_some();
        entries.push(DirectoryEntry {
            name: name.to_string_lossy().into_owned(),
            kind: is_plain.then(|| file_kind(&metadata)),
            size: metadata.len(),
        });
        if entries.len() > MAX_DIRECTORY_ENTRIES {
            return Err(FileError::Invalid(format!(
                "'{}' has more than {MAX_DIRECTORY_ENTRIES} entries",
                path.display()
            )));
        }
    }
    entries.sort_by(|first, second| first.name.cmp(&second.name));
    Ok(entries)
}

/// Creates a directory and its missing ancestors. Does nothing if the directory exists.
///
/// # Errors
/// If the system refuses it, or the path exists and is not a directory.
pub fn make_directory(path: &Path) -> Result<(), FileError> {
    let path = absolute(path);
    fs::create_dir_all(&path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => FileError::NotDirectory(display_path(&path)),
        _ => system_error(&path, &error),
    })
}

/// Opens the described regular file.
fn open(path: &Path, identity: FileIdentity) -> Result<(PathBuf, File), FileError> {
    let path = absolute(path);
    // A pipe may have replaced the file, and opening a pipe would wait for a writer.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(&path);
    let file = file.map_err(|error| read_error(&path, &error))?;
    let metadata = file.metadata().map_err(|error| read_error(&path, &error))?;
    let facts = file_facts(&path, &metadata);
    match facts.kind {
        FileKind::Directory => Err(FileError::IsDirectory(facts.path)),
        FileKind::Other => Err(FileError::NotRegular(facts.path)),
        FileKind::File if facts.identity != identity => Err(FileError::Changed(facts.path)),
        FileKind::File => Ok((path, file)),
    }
}

/// Reads a piece of the described file.
///
/// # Errors
/// If the path is no longer that file, the read fails, or the limit is too large.
pub fn read(path: &Path, identity: FileIdentity, offset: u64, limit: usize) -> Result<FilePiece, FileError> {
    if limit > MAX_PIECE_BYTES {
        return Err(FileError::Invalid(format!("a piece must have at most {MAX_PIECE_BYTES} bytes, not {limit}")));
    }
    let (path, file) = open(path, identity)?;
    let mut bytes = vec![0; limit];
    let mut read = 0;
    while read < limit {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(&path, &error)),
        }
    }
    bytes.truncate(read);
    Ok(FilePiece { bytes })
}

/// Computes the digest of the first `length` bytes of the described file.
///
/// # Errors
/// If the path is no longer that file, the file is shorter, or the read fails.
pub fn digest(path: &Path, identity: FileIdentity, length: u64) -> Result<FileDigest, FileError> {
    let (path, file) = open(path, identity)?;
    match digest_prefix(&file, length) {
        Ok((digest, read)) if read == length => Ok(digest),
        Ok(_) => Err(FileError::Changed(display_path(&path))),
        Err(error) => Err(read_error(&path, &error)),
    }
}

/// Returns the digest of at most the first `length` bytes of a file, and their number.
fn digest_prefix(file: &File, length: u64) -> io::Result<(FileDigest, u64)> {
    let mut digest = DigestBuilder::default();
    let mut piece = vec![0; 64 << 10];
    let mut read = 0;
    let mut file = file.take(length);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok((digest.finish(), read)),
            Ok(count) => {
                digest.add(&piece[..count]);
                read += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The paths of a written file, of its unfinished copy, and of their directory.
struct TargetPaths {
    target: PathBuf,
    part: PathBuf,
    directory: PathBuf,
}

/// Returns the paths for a write. Follows a symbolic link: the write replaces the target of the link.
fn resolve_target(target: &WriteTarget) -> Result<TargetPaths, FileError> {
    let WriteTarget { path, transfer } = target;
    if !(1..=64).contains(&transfer.len()) || !transfer.bytes().all(|character| character.is_ascii_alphanumeric()) {
        return Err(FileError::Invalid("the name of a transfer must have 1 to 64 letters and digits".to_owned()));
    }
    let path = absolute(path);
    let path = match fs::canonicalize(&path) {
        Ok(path) => path,
        // The file does not exist yet, or is a dangling link that the new file replaces. Resolve only its directory.
        Err(_) => match (path.parent().and_then(|directory| fs::canonicalize(directory).ok()), path.file_name()) {
            (Some(directory), Some(name)) => directory.join(name),
            _ => path,
        },
    };
    match (path.parent(), path.file_name()) {
        (Some(directory), Some(_)) => Ok(TargetPaths {
            part: directory.join(format!(".steplatch-{transfer}.part")),
            directory: directory.to_owned(),
            target: path,
        }),
        _ => Err(FileError::Invalid(format!("'{}' has no file name", path.display()))),
    }
}

/// Writes a piece of the unfinished copy. Only the owner can read the copy.
///
/// # Errors
/// If the path is a directory, its directory is missing, the piece is too long, or the system refuses the write.
pub fn write(target: &WriteTarget, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
    if bytes.len() > MAX_PIECE_BYTES {
        return Err(FileError::Invalid(format!(
            "a piece must have at most {MAX_PIECE_BYTES} bytes, not {}",
            bytes.len()
        )));
    }
    let TargetPaths { target, part, directory } = resolve_target(target)?;
    if offset == 0 {
        match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => return Err(FileError::IsDirectory(display_path(&target))),
            Ok(metadata) if !metadata.is_file() => return Err(FileError::NotRegular(display_path(&target))),
            _ => {}
        }
    }
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    // Only the first piece creates the copy. If a later piece finds no copy, another program has removed it.
    let result = OpenOptions::new()
        .write(true)
        .create(offset == 0)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nofollow)
        .open(&part);
    let file = result.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if offset > 0 => FileError::Lost(display_path(&target)),
        io::ErrorKind::NotFound => FileError::NoDirectory(display_path(&directory)),
        io::ErrorKind::NotADirectory => FileError::NotDirectory(display_path(&directory)),
        _ => system_error(&target, &error),
    })?;
    file.write_all_at(bytes, offset).map_err(|error| system_error(&target, &error))
}

/// Checks the unfinished copy and moves it into place, durably. A repeated call finds the file in place.
///
/// # Errors
/// If the copy differs from the sent file, another file exists and the request does not replace it, or the system
/// refuses the change. The unfinished copy is removed then.
pub fn finish(
    target: &WriteTarget,
    length: u64,
    expected: FileDigest,
    mode: Option<u32>,
    replace: bool,
) -> Result<FileWritten, FileError> {
    let paths = resolve_target(target)?;
    let result = move_into_place(&paths, length, expected, mode, replace);
    if result.is_err() {
        // Ignore the error, because the caller gets the first error.
        let _ = fs::remove_file(&paths.part);
    }
    result
}

fn move_into_place(
    TargetPaths { target, part, directory }: &TargetPaths,
    length: u64,
    expected: FileDigest,
    mode: Option<u32>,
    replace: bool,
) -> Result<FileWritten, FileError> {
    let failed = |error: io::Error| system_error(target, &error);
    let existing = fs::metadata(target).ok();
    let has_content = |path: &Path| File::open(path).is_ok_and(|file| has_digest(&file, length, expected));
    let written = |metadata: &fs::Metadata, replaced, unchanged| FileWritten {
        path: display_path(target),
        mode: metadata.mode() & PERMISSION_BITS,
        replaced,
        unchanged,
        content: Some((length, expected)),
    };
    let file = match File::open(part) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match existing {
                Some(existing) if existing.is_file() && has_content(target) => Ok(written(&existing, false, true)),
                _ => Err(FileError::Lost(display_path(target))),
            };
        }
        Err(error) => return Err(failed(error)),
    };
    if !has_digest(&file, length, expected) {
        return Err(FileError::Damaged(display_path(target)));
    }
    let mode = mode.or_else(|| existing.as_ref().map(fs::Metadata::mode)).unwrap_or(DEFAULT_MODE) & PERMISSION_BITS;
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    if replace {
        fs::rename(part, target).map_err(failed)?;
    } else {
        match renameat_with(CWD, part, CWD, target, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                return match fs::metadata(target) {
                    Ok(existing) if existing.is_file() && has_content(target) => {
                        // The file has this content already, so the copy is not needed.
                        let _ = fs::remove_file(part);
                        Ok(written(&existing, false, true))
                    }
                    _ => Err(FileError::Exists(display_path(target))),
                };
            }
            // Use a link on a file system without support for the flag.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::hard_link(part, target).map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => FileError::Exists(display_path(target)),
                    _ => failed(error),
                })?;
                fs::remove_file(part).map_err(failed)?;
            }
            Err(error) => return Err(failed(error.into())),
        }
    }
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    Ok(written(&metadata, existing.is_some(), false))
}

/// Returns whether a file has this content.
fn has_digest(file: &File, length: u64, expected: FileDigest) -> bool {
    let has_length = file.metadata().is_ok_and(|metadata| metadata.len() == length);
    has_length && digest_prefix(file, length).is_ok_and(|(digest, read)| read == length && digest == expected)
}

/// Removes the unfinished copy of a file.
pub fn abandon(target: &WriteTarget) {
    if let Ok(paths) = resolve_target(target) {
        // Ignore the error: usually the file is in place, or no piece was written.
        let _ = fs::remove_file(paths.part);
    }
}

fn read_error(path: &Path, error: &io::Error) -> FileError {
    match error.kind() {
        io::ErrorKind::NotFound => FileError::NotFound(display_path(path)),
        io::ErrorKind::IsADirectory => FileError::IsDirectory(display_path(path)),
        _ => system_error(path, error),
    }
}

fn system_error(path: &Path, error: &io::Error) -> FileError {
    let message = error.to_string();
    let reason = message.split_once(" (os error").map_or(message.as_str(), |(reason, _)| reason).to_owned();
    FileError::System { path: display_path(path), reason }
}

#[cfg(test)]
mod tests;
