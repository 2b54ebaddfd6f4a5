//! Copies of files and directories from one host to another, with their progress.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use steplatch_access::{Caller, Redactor};
use steplatch_files::{FileError, FileFacts, FileIdentity, FileKind};
use steplatch_host::CopyOptions;
use steplatch_protocol::{CopyEvent, CopyFile, CopyFileReply};
use tokio::sync::watch;

use super::{FilePlace, FileRequestError};
use crate::event_sink::{Disconnected, EventSink};
use crate::sessions::Sessions;

/// Maximum number of files of one copy.
const MAX_FILES: usize = 100_000;

/// Maximum length of a path (`PATH_MAX`).
const MAX_PATH_BYTES: usize = 4096;

/// Maximum length of all paths of a copy. A remote host may list directories without end.
const MAX_PLAN_BYTES: usize = 64 << 20;

/// Time between two reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// Step of a copy.
#[derive(Debug, Clone)]
enum CopyStep {
    /// Make a directory.
    Directory(FilePlace),
    /// Copy a file. `facts` is its description, if already known.
    File { source: FilePlace, target: FilePlace, facts: Option<FileFacts> },
    /// Report an omitted file.
    Skip(String),
}

/// A planned copy. Its events report its progress.
#[derive(Debug)]
pub struct CopyEvents {
    steps: Vec<CopyStep>,
    replace: bool,
    secrets: Arc<Redactor>,
}

impl Sessions {
    /// Plans a copy. Writing begins with the request for its events.
    #[boxed]
    pub async fn copy_file(&self, caller: &Arc<Caller>, verb: CopyFile) -> (CopyFileReply, Option<CopyEvents>) {
        let replace = verb.overwrite;
        match self.plan(caller, verb).await {
            Ok((steps, files, size)) => {
                let reply = CopyFileReply { success: true, files, size, error: None };
                (reply, Some(CopyEvents { steps, replace, secrets: self.secrets.clone() }))
            }
            Err(error) => (CopyFileReply { error: Some(error.to_string()), ..CopyFileReply::default() }, None),
        }
    }

    async fn plan(&self, caller: &Arc<Caller>, verb: CopyFile) -> Result<(Vec<CopyStep>, u64, u64), FileRequestError> {
        let source = self.place(caller, verb.from_host, &verb.from, None).await?;
        let mut target = self.place(caller, verb.to_host, &verb.to, None).await?;
        let facts = source.describe().await?;
        let existing = target.describe_if_there().await?;
        let is_directory = existing.as_ref().is_some_and(|existing| existing.kind == FileKind::Directory);
        if is_directory {
            target = target.join(copy_name(&source, &verb.from, &facts)?);
        } else if verb.to.ends_with('/') {
            return Err(target.failed(FileError::NoDirectory(verb.to).into()));
        }
        match (facts.kind, verb.recursive) {
            (FileKind::Directory, false) => {
                let message = format!("'{}' is a directory; a directory is copied with -r", facts.path);
                Err(FileRequestError::Invalid(message))
            }
            (FileKind::Directory, true) => self.walk(source, target, facts.identity).await,
            (FileKind::File | FileKind::Other, _) => {
                let size = facts.size;
                Ok((vec![CopyStep::File { source, target, facts: Some(facts) }], 1, size))
            }
        }
    }
}

/// Returns the name of a copy in a directory: the requested name, never a name from a remote host.
fn copy_name(source: &FilePlace, requested: &str, facts: &FileFacts) -> Result<String, FileRequestError> {
    let path = match (&source.host, requested) {
        (Some(_), "~") => "",
        (Some(_), requested) => requested,
        (None, _) => &facts.path,
    };
    let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    name.ok_or_else(|| {
        FileRequestError::Invalid(format!("'{requested}' has no name for the copy; give the name in the target"))
    })
}

impl Sessions {
    /// Plans the copy of a directory: each directory before its contents.
    async fn walk(
        &self,
        source: FilePlace,
        target: FilePlace,
        identity: FileIdentity,
    ) -> Result<(Vec<CopyStep>, u64, u64), FileRequestError> {
        // The copy of a directory into itself would grow without end.
        let mut ancestor = Some(target.path.as_path());
        while let Some(directory) = ancestor.filter(|_| source.host == target.host) {
            let outer = FilePlace { path: directory.to_owned(), ..target.clone() };
            if outer.describe_if_there().await?.is_some_and(|facts| facts.identity == identity) {
                return Err(FileRequestError::Invalid("a directory is not copied into itself".to_owned()));
            }
            ancestor = directory.parent();
        }
        let is_foreign = source.host.is_some() && target.host.is_none();
        let (mut steps, mut files, mut size, mut plan_bytes) = (Vec::new(), 0, 0_u64, 0);
        let mut pending = vec![(source, target)];
        while let Some((source, target)) = pending.pop() {
            if target.host.is_none() {
                self.check_private(&target.path)?;
            }
            if source.host.is_none() && self.check_private(&source.path).is_err() {
                steps.push(CopyStep::Skip(source.path.display().to_string()));
                continue;
            }
            let entries = source.files.list(source.path.clone()).await.map_err(|error| source.failed(error))?;
            steps.push(CopyStep::Directory(target.clone()));
            for entry in entries {
                let (source_entry, target_entry) = (source.join(&entry.name), target.join(&entry.name));
                let length = source_entry.path.as_os_str().len().max(target_entry.path.as_os_str().len());
                plan_bytes += 2 * length;
                if length > MAX_PATH_BYTES || plan_bytes > MAX_PLAN_BYTES {
                    return Err(FileRequestError::Invalid(
                        "the directory has paths that are too long to copy".to_owned(),
                    ));
                }
                if is_foreign && entry.kind.is_some() && target_entry.path.is_symlink() {
                    // The remote host chose the name, and the link would let it write elsewhere.
                    return Err(FileRequestError::Invalid(format!(
                        "'{}' is a symbolic link, which a copy does not follow",
                        target_entry.path.display()
                    )));
                }
                match entry.kind {
                    Some(FileKind::Directory) => pending.push((source_entry, target_entry)),
                    Some(FileKind::File) => {
                        files += 1;
                        size = size.saturating_add(entry.size);
                        steps.push(CopyStep::File { source: source_entry, target: target_entry, facts: None });
                    }
                    Some(FileKind::Other) | None => steps.push(CopyStep::Skip(source_entry.path.display().to_string())),
                }
            }
            if steps.len() + pending.len() > MAX_FILES {
                return Err(FileRequestError::Invalid(format!(
                    "the directory has more than {MAX_FILES} files; pack it first, as with tar"
                )));
            }
        }
        Ok((steps, files, size))
    }
}

impl CopyEvents {
    /// Executes the copy and reports its progress. If the client disconnects, the copy ends and its unfinished file is
    /// removed.
    ///
    /// # Errors
    /// If the client has disconnected.
    #[boxed]
    pub async fn forward(self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        let mut copied = 0;
        for step in self.steps {
            let event = match step {
                CopyStep::Skip(path) => CopyEvent::FileSkipped { path: self.secrets.masked(path) },
                CopyStep::Directory(place) => match place.files.make_directory(place.path.clone()).await {
                    Ok(()) => continue,
                    Err(error) => return fail(&self.secrets, &place.failed(error), request_id, sink).await,
                },
                CopyStep::File { source, target, facts } => {
                    let (progress, progress_receiver) = watch::channel(copied);
                    let file = copy(&source, &target, facts, self.replace, copied, &progress);
                    tokio::pin!(file);
                    let reporting = report(
                        progress_receiver,
                        self.secrets.masked(source.path.display().to_string()),
                        request_id,
                        sink,
                    );
                    let file = tokio::select! {
                        file = &mut file => file,
                        result = reporting => return result,
                    };
                    match file {
                        Ok(file) => {
                            copied += file.size;
                            CopyEvent::FileCopied { file }
                        }
                        Err(error) => return fail(&self.secrets, &error, request_id, sink).await,
                    }
                }
            };
            sink.event(request_id, &event).await?;
        }
        sink.event(request_id, &CopyEvent::CopyEnded).await
    }
}

async fn copy(
    source: &FilePlace,
    target: &FilePlace,
    facts: Option<FileFacts>,
    replace: bool,
    copied_before: u64,
    progress: &watch::Sender<u64>,
) -> Result<steplatch_protocol::WrittenFile, FileRequestError> {
    let facts = match facts {
        Some(facts) => facts,
        None => source.describe().await?,
    };
    let options = CopyOptions { mode: None, replace, limit: u64::MAX };
    source
        .copy_to(&facts, target, options, |copied| {
            progress.send_replace(copied_before + copied);
        })
        .await
}

/// Reports the progress of one file, until the client disconnects.
async fn report(
    mut progress_receiver: watch::Receiver<u64>,
    path: String,
    request_id: &Value,
    sink: &EventSink,
) -> Result<(), Disconnected> {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        if progress_receiver.changed().await.is_err() {
            return std::future::pending().await;
        }
        let copied = *progress_receiver.borrow_and_update();
        sink.event(request_id, &CopyEvent::CopyProgress { copied, path: path.clone() }).await?;
    }
}

async fn fail(
    secrets: &Redactor,
    error: &FileRequestError,
    request_id: &Value,
    sink: &EventSink,
) -> Result<(), Disconnected> {
    sink.event(request_id, &CopyEvent::CopyFailed { error: secrets.masked(error.to_string()) }).await
}
