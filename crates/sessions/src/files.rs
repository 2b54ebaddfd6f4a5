//! Files of this host and of remote hosts, for clients that read, write and copy.

mod copying;

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steplatch_access::Caller;
use steplatch_clock as clock;
use steplatch_files::{FileDigest, FileError, FileFacts, FileKind};
use steplatch_host::{Copied, CopyOptions, HostsError, MachineFiles, TransferError};
use steplatch_protocol::{GetFile, GetFileReply, PutFile, PutFileReply, WrittenFile};

pub use self::copying::CopyEvents;
use crate::pinned_hosts::{PinnedHostError, is_this_machine};
use crate::sessions::{MAX_VALUE_BYTES, Sessions, THIS_MACHINE, connect_timeout, expand_home, too_long_text};

/// Maximum bytes of content in a request or a reply.
const MAX_INLINE_BYTES: usize = MAX_VALUE_BYTES;

/// Bytes of content in a reply to a client that specifies no limit.
const DEFAULT_INLINE_BYTES: usize = 32 << 10;

/// Maximum size in bytes of a file that a tool copies, so that a call ends before the timeouts of clients.
const MAX_COPY_BYTES: u64 = 256 << 20;

/// Error from reading or writing a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileRequestError {
    /// The remote host is unreachable, or has no terminal host.
    #[error(transparent)]
    Machine(#[from] HostsError),
    /// The request about the file failed, on this computer or on the named one.
    #[error("{error}{}{}", host_suffix(.host.as_deref()), error_advice(.error))]
    Transfer {
        /// The remote host, if any.
        host: Option<String>,
        /// The error.
        error: TransferError,
    },
    /// The path is in a private directory of steplatch.
    #[error("'{}' is in a private directory of steplatch, which file requests may not access", .0.display())]
    Private(PathBuf),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The remote host differs from that at the start of the run, or is unreachable.
    #[error(transparent)]
    Pinned(#[from] PinnedHostError),
    /// An earlier daemon may have written the file, and no request was sent to the terminal host.
    #[error(transparent)]
    InDoubt(Box<Self>),
}

impl FileRequestError {
    /// Returns `Some(true)` if the outcome is unknown.
    fn outcome_unknown(&self) -> Option<bool> {
        let unknown = match self {
            Self::Machine(HostsError::HostRequest(error))
            | Self::Transfer { error: TransferError::HostRequest(error), .. } => error.is_outcome_unknown(),
            Self::InDoubt(_) => true,
            _ => false,
        };
        unknown.then_some(true)
    }

    /// Converts the error to an unknown outcome if an earlier daemon may have written the file and the terminal host
    /// has not answered.
    fn in_doubt_if(self, is_repeated: bool) -> Self {
        let is_answered = match &self {
            Self::Machine(HostsError::HostRequest(error))
            | Self::Transfer { error: TransferError::HostRequest(error), .. } => error.is_answer(),
            Self::Machine(_) | Self::Pinned(_) => false,
            Self::Transfer { .. } | Self::Private(_) | Self::Invalid(_) | Self::InDoubt(_) => true,
        };
        if is_repeated && !is_answered { Self::InDoubt(Box::new(self)) } else { self }
    }
}

fn host_suffix(host: Option<&str>) -> String {
    host.map(|host| format!(" (on host '{host}')")).unwrap_or_default()
}

fn error_advice(error: &TransferError) -> &'static str {
    match error {
        TransferError::File(FileError::Exists(_)) => "; overwrite=true replaces it",
        TransferError::File(FileError::NoDirectory(_)) => "; create it first",
        TransferError::File(FileError::Changed(_)) => "; try again when no program writes to it",
        _ => "",
    }
}

/// One end of a copy: the files of one host, and a path there.
#[derive(Debug, Clone)]
pub(crate) struct FilePlace {
    host: Option<String>,
    files: MachineFiles,
    path: PathBuf,
}

impl FilePlace {
    fn failed(&self, error: TransferError) -> FileRequestError {
        FileRequestError::Transfer { host: self.host.clone(), error }
    }

    async fn describe(&self) -> Result<FileFacts, FileRequestError> {
        self.files.describe(self.path.clone()).await.map_err(|error| self.failed(error))
    }

    /// Describes the file, if it exists.
    async fn describe_if_there(&self) -> Result<Option<FileFacts>, FileRequestError> {
        match self.files.describe(self.path.clone()).await {
            Ok(facts) => Ok(Some(facts)),
            Err(TransferError::File(FileError::NotFound(_))) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Returns a path in this directory.
    fn join(&self, name: impl AsRef<Path>) -> Self {
        Self { path: self.path.join(name), ..self.clone() }
    }

    /// Copies a file to a remote host or path.
    async fn copy_to(
        &self,
        facts: &FileFacts,
        target: &Self,
        options: CopyOptions,
        progress: impl FnMut(u64) + Send,
    ) -> Result<WrittenFile, FileRequestError> {
        let copied = self.files.copy((&self.path, facts), (&target.files, &target.path), options, progress).await;
        match copied {
            Ok(copied) => Ok(to_written_file(target.host.clone(), copied)),
            // The path of the file, or the name of the unreachable host, identifies the host that refused.
            Err(error) if concerns_source(&error, facts) => Err(self.failed(error)),
            Err(error) => Err(target.failed(error)),
        }
    }
}

/// Returns whether an error names the source of a copy.
fn concerns_source(error: &TransferError, facts: &FileFacts) -> bool {
    let path = match error {
        TransferError::File(
            FileError::NotFound(path)
            | FileError::Changed(path)
            | FileError::IsDirectory(path)
            | FileError::NotRegular(path),
        ) => path,
        TransferError::File(FileError::System { path, .. }) => path,
        TransferError::File(FileError::Invalid(_)) => return true,
        _ => return false,
    };
    *path == facts.path
}

fn to_written_file(host: Option<String>, Copied { file, length, digest }: Copied) -> WrittenFile {
    WrittenFile {
        host,
        path: file.path,
        size: length,
        sha256: digest.to_string(),
        mode: format_mode(file.mode),
        replaced: file.replaced,
        unchanged: file.unchanged,
    }
}

/// Formats permissions as for chmod(1).
fn format_mode(mode: u32) -> String {
    format!("{mode:04o}")
}

/// Parses permissions as for chmod(1).
fn parse_mode(text: &str) -> Result<u32, FileRequestError> {
    let mode = u32::from_str_radix(text.trim_start_matches("0o"), 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| {
        FileRequestError::Invalid(format!("mode is written as 0644, between 0000 and 0777, not '{text}'"))
    })
}

/// Resolves `.` and `..` in a path lexically.
fn resolve_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
        path
    })
}

impl Sessions {
    /// Writes a file, only once for the same `step`.
    #[boxed]
    pub async fn put_file(&self, caller: &Arc<Caller>, verb: PutFile, step: Option<String>) -> PutFileReply {
        match self.put(caller, verb, step).await {
            Ok(file) => PutFileReply { success: true, file: Some(file), ..PutFileReply::default() },
            Err(error) => PutFileReply {
                outcome_unknown: error.outcome_unknown(),
                error: Some(error.to_string()),
                ..PutFileReply::default()
            },
        }
    }

    async fn put(
        &self,
        caller: &Arc<Caller>,
        verb: PutFile,
        step: Option<String>,
    ) -> Result<WrittenFile, FileRequestError> {
        let PutFile { path, content, content_base64, from, mode, overwrite, host } = verb;
        let mode = mode.as_deref().map(parse_mode).transpose()?;
        let bytes = match (content, content_base64, &from) {
            (Some(text), None, None) => text.into_bytes(),
            (None, Some(text), None) => STANDARD
                .decode(text.trim())
                .map_err(|error| FileRequestError::Invalid(format!("content_base64 is not Base64: {error}")))?,
            (None, None, Some(_)) => Vec::new(),
            _ => {
                let message = "give exactly one of content, content_base64 and from";
                return Err(FileRequestError::Invalid(message.to_owned()));
            }
        };
        if bytes.len() > MAX_INLINE_BYTES {
            let message = format!(
                "the content has {} bytes, and a request has at most {MAX_INLINE_BYTES}; write it to a local file and \
                 give its path in from",
                bytes.len()
            );
            return Err(FileRequestError::Invalid(message));
        }
        let is_repeated = self.is_repeated(step.as_deref());
        let target = self.place(caller, host, &path, step).await.map_err(|error| error.in_doubt_if(is_repeated))?;
        let failed = |error| target.failed(error).in_doubt_if(is_repeated);
        let Some(from) = from else {
            let copied = target.files.put(&target.path, &bytes, mode, overwrite).await;
            return copied.map(|copied| to_written_file(target.host.clone(), copied)).map_err(failed);
        };
        // The source may have been removed since.
        if let Some(copied) = target.files.written_before().await.map_err(failed)? {
            return Ok(to_written_file(target.host.clone(), copied));
        }
        let source = self.place(caller, None, &from, None).await?;
        let facts = source.describe().await?;
        let options = CopyOptions { mode, replace: overwrite, limit: MAX_COPY_BYTES };
        source.copy_to(&facts, &target, options, |_| {}).await
    }

    /// Reads a file, or copies it to this computer, only once for the same `step`.
    #[boxed]
    pub async fn get_file(&self, caller: &Arc<Caller>, verb: GetFile, step: Option<String>) -> GetFileReply {
        match self.get(caller, verb, step).await {
            Ok(reply) => reply,
            Err(error) => GetFileReply {
                outcome_unknown: error.outcome_unknown(),
                error: Some(error.to_string()),
                ..GetFileReply::default()
            },
        }
    }

    async fn get(
        &self,
        caller: &Arc<Caller>,
        verb: GetFile,
        step: Option<String>,
    ) -> Result<GetFileReply, FileRequestError> {
        let GetFile { path, to, offset, limit, overwrite, host } = verb;
        let is_value = caller.run.is_some() && limit.is_none();
        let limit =
            limit.map_or(if is_value { MAX_INLINE_BYTES } else { DEFAULT_INLINE_BYTES }, |limit| limit as usize);
        if !(1..=MAX_INLINE_BYTES).contains(&limit) {
            return Err(FileRequestError::Invalid(format!(
                "limit must be between 1 and {MAX_INLINE_BYTES} bytes, not {limit}"
            )));
        }
        let is_repeated = self.is_repeated(step.as_deref());
        let in_doubt = |error: FileRequestError| error.in_doubt_if(is_repeated);
        let target = match &to {
            Some(to) => Some(self.place(caller, None, to, step).await.map_err(in_doubt)?),
            None => None,
        };
        if let Some(target) = &target
            && let Some(copied) = target.files.written_before().await.map_err(|error| in_doubt(target.failed(error)))?
        {
            // The source may have changed since, or be missing or unreachable.
            let saved = to_written_file(target.host.clone(), copied);
            return Ok(GetFileReply {
                success: true,
                path: on_machine(caller, host.as_deref(), &path).display().to_string(),
                size: saved.size,
                mode: saved.mode.clone(),
                sha256: Some(saved.sha256.clone()),
                saved: Some(saved),
                ..GetFileReply::default()
            });
        }
        let source = self.place(caller, host, &path, None).await?;
        let facts = source.describe().await?;
        let described = |sha256| GetFileReply {
            success: true,
            path: facts.path.clone(),
            size: facts.size,
            mode: format_mode(facts.mode),
            modified: facts.modified.map(clock::system_iso8601),
            sha256,
            ..GetFileReply::default()
        };
        if let Some(target) = target {
            let options = CopyOptions { mode: None, replace: overwrite, limit: MAX_COPY_BYTES };
            let saved = source.copy_to(&facts, &target, options, |_| {}).await?;
            return Ok(GetFileReply { size: saved.size, saved: Some(saved.clone()), ..described(Some(saved.sha256)) });
        }
        let failed = |error| source.failed(error);
        let changed = || failed(FileError::Changed(facts.path.clone()).into());
        // A part is read with its surroundings, so that a secret is recognized that the part cuts.
        let reach = self.secrets.reach();
        let lead = usize::try_from(offset).unwrap_or(usize::MAX).min(reach);
        let start = offset - lead as u64;
        let window = source.files.get(&source.path, &facts, start, lead + limit + reach).await.map_err(failed)?;
        let begin = lead.min(window.len());
        let mut bytes = window[begin..window.len().min(begin + limit)].to_vec();
        // A system file, such as in /proc, reports no size.
        if facts.kind == FileKind::File && facts.size > 0 {
            let rest = usize::try_from(facts.size.saturating_sub(offset)).unwrap_or(usize::MAX);
            bytes.truncate(rest);
            if bytes.len() < rest.min(limit) {
                return Err(changed());
            }
        }
        // The digest covers the whole file, so a request for a part of a large file would read all of it.
        let is_end_part = offset == 0 || offset + bytes.len() as u64 >= facts.size;
        let has_digest = is_end_part && facts.kind == FileKind::File && (1..=MAX_COPY_BYTES).contains(&facts.size);
        let sha256 = if has_digest {
            let digest = source.files.digest(source.path.clone(), facts.identity, facts.size).await;
            let digest = digest.map_err(failed)?;
            if bytes.len() as u64 == facts.size && FileDigest::from_content(&bytes) != digest {
                return Err(changed());
            }
            Some(digest.to_string())
        } else {
            None
        };
        let may_be_more = bytes.len() == limit || offset + (bytes.len() as u64) < facts.size;
        let reply = described(sha256);
        let (content, content_base64, read) = match as_text(&bytes, may_be_more) {
            Some(text) => {
                let (before, after) = (&window[..begin], &window[begin + text.len()..]);
                (Some(self.masked_within(before, text, after)), None, text.len())
            }
            None => {
                let text = String::from_utf8_lossy(&bytes);
                if self.masked_within(&window[..begin], &text, &window[begin + bytes.len()..]) != text {
                    let message = format!("'{}' contains a secret and is not returned; copy it with to", facts.path);
                    return Err(FileRequestError::Invalid(message));
                }
                (None, Some(STANDARD.encode(&bytes)), bytes.len())
            }
        };
        let next_offset =
            may_be_more.then_some(offset + read as u64).filter(|next| *next < facts.size || facts.size == 0);
        if is_value && next_offset.is_some() {
            let what = format!("'{}' has {} bytes, and its content", facts.path, facts.size);
            let advice = "copy it with to, or read it in parts with offset and limit";
            return Err(FileRequestError::Invalid(too_long_text(&what, advice)));
        }
        Ok(GetFileReply { content, content_base64, next_offset, ..reply })
    }

    /// Masks the parts of secrets in a part of a file with these surroundings.
    fn masked_within(&self, before: &[u8], part: &str, after: &[u8]) -> String {
        let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
        let portion = before.len()..before.len() + part.len();
        self.secrets.masked_portion(&[&before, part, &after].concat(), portion)
    }

    /// Returns a path on a host. A relative path begins at the caller's directory on this computer, and at the home
    /// directory on another. `step` is the step that writes a file there.
    async fn place(
        &self,
        caller: &Caller,
        host: Option<String>,
        path: &str,
        step: Option<String>,
    ) -> Result<FilePlace, FileRequestError> {
        if path.is_empty() || path.contains('\0') {
            return Err(FileRequestError::Invalid("a path is empty or contains a NUL character".to_owned()));
        }
        let host = host.filter(|host| host != THIS_MACHINE);
        if let Some(host) = &host {
            self.check_pinned(caller, host).await?;
        }
        // Only runs repeat requests at the next daemon.
        let step = step.filter(|_| caller.run.is_some());
        let files = self.hosts.files(host.as_deref(), connect_timeout(caller), step).await?;
        let path = on_machine(caller, host.as_deref(), path);
        if host.is_none() {
            self.check_private(&path)?;
        }
        Ok(FilePlace { host, files, path })
    }

    /// Refuses a path in the directories of this installation, because they contain its sockets, journal and proofs of
    /// people.
    pub(crate) fn check_private(&self, path: &Path) -> Result<(), FileRequestError> {
        // Resolves links in the existing part of the path.
        let existing = path
            .ancestors()
            .find_map(|ancestor| Some((std::fs::canonicalize(ancestor).ok()?, path.strip_prefix(ancestor).ok()?)));
        let real = existing.map_or_else(|| path.to_owned(), |(real, remainder)| real.join(remainder));
        let is_private = |path: &Path| self.private.iter().any(|private| path.starts_with(private));
        match is_private(&resolve_dots(&real)) || is_private(&resolve_dots(path)) {
            true => Err(FileRequestError::Private(path.to_owned())),
            false => Ok(()),
        }
    }
}

/// Resolves a path on this computer; a remote host resolves its paths itself.
fn on_machine(caller: &Caller, host: Option<&str>, path: &str) -> PathBuf {
    match host.filter(|host| !is_this_machine(host)) {
        Some(_) => PathBuf::from(path),
        None => caller.directory.join(expand_home(path, caller)),
    }
}

/// Returns bytes as text, if they are valid UTF-8 without NUL. Omits a character that the end divides, if more bytes
/// follow.
fn as_text(bytes: &[u8], may_be_more: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && may_be_more => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok().filter(|text| !text.is_empty())?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_differs_from_bytes_and_cut_characters_are_kept_back() {
        assert_eq!(as_text("häuser".as_bytes(), false), Some("häuser"));
        assert_eq!(as_text(&"hä".as_bytes()[..2], true), Some("h"));
        assert_eq!(as_text(&"hä".as_bytes()[..2], false), None);
        assert_eq!(as_text(b"\x7fELF\0", false), None);
        assert_eq!(as_text(b"\xff\xfe", true), None);
        assert_eq!(as_text(&"ä".as_bytes()[..1], true), None);
        assert_eq!(as_text(b"", false), Some(""));
    }

    #[test]
    fn permissions_are_read_as_by_chmod() {
        for (text, mode) in [("644", 0o644), ("0755", 0o755), ("0", 0), ("0o600", 0o600)] {
            assert_eq!(parse_mode(text).unwrap(), mode);
        }
        assert_eq!(format_mode(0o44), "0044");
        for text in ["", "u+x", "888", "4755", "-1"] {
            assert!(parse_mode(text).unwrap_err().to_string().contains("mode is written as 0644"), "{text}");
        }
    }

    #[test]
    fn path_is_resolved_by_its_text() {
        for (path, expected) in [("/a/../b", "/b"), ("/../a", "/a"), ("/a/./b/..", "/a")] {
            assert_eq!(resolve_dots(Path::new(path)), Path::new(expected));
        }
    }

    #[test]
    fn error_names_the_machine_and_the_next_step() {
        let message = |host: Option<&str>, error: FileError| {
            FileRequestError::Transfer { host: host.map(str::to_owned), error: error.into() }.to_string()
        };
        assert_eq!(
            message(Some("build"), FileError::Exists("/a".to_owned())),
            "'/a' already exists with different content (on host 'build'); overwrite=true replaces it"
        );
        assert_eq!(
            message(None, FileError::NoDirectory("/a".to_owned())),
            "directory '/a' does not exist; create it first"
        );
    }
}
