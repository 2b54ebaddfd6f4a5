//! Copies of files and directories from one machine to another, with their progress.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steplatch_access::{Caller, Redactor};
use steplatch_files::{FileError, FileFacts, FileIdentity, FileKind};
use steplatch_host::CopyOptions;
use steplatch_protocol::{CopyEvent, CopyFile, CopyFileReply};
use tokio::sync::watch;

use super::{FilePlace, FileTrouble};
use crate::event_sink::{Disconnected, EventSink};
use crate::sessions::Sessions;

/// The most files of one copy.
const MOST_FILES: usize = 100_000;

/// The time between two reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// What a copy does, in order.
#[derive(Debug, Clone)]
enum CopyStep {
    /// Make a directory.
    Directory(FilePlace),
    /// Copy a file. Its description is that of the plan, if it was made for it.
    File { source: FilePlace, target: FilePlace, facts: Option<FileFacts> },
    /// Report that something is not copied.
    Skip(String),
}

/// A copy that was planned. Its events report how it is carried out.
#[derive(Debug)]
pub struct CopyEvents {
    steps: Vec<CopyStep>,
    replace: bool,
    secrets: Arc<Redactor>,
}

impl Sessions {
    /// Plans a copy. Nothing is written before its events are asked for.
    pub async fn copy_file(&self, caller: &Arc<Caller>, verb: CopyFile) -> (CopyFileReply, Option<CopyEvents>) {
        let replace = verb.overwrite;
        match self.plan(caller, verb).await {
            Ok((steps, files, size)) => {
                let reply = CopyFileReply { success: true, files, size, error: None };
                (reply, Some(CopyEvents { steps, replace, secrets: self.secrets.clone() }))
            }
            Err(trouble) => (CopyFileReply { error: Some(trouble.to_string()), ..CopyFileReply::default() }, None),
        }
    }

    async fn plan(&self, caller: &Arc<Caller>, verb: CopyFile) -> Result<(Vec<CopyStep>, u64, u64), FileTrouble> {
        let source = self.place(caller, verb.from_host, &verb.from, None).await?;
        let mut target = self.place(caller, verb.to_host, &verb.to, None).await?;
        let facts = source.describe().await?;
        let there = target.describe_if_there().await?;
        let is_directory = there.as_ref().is_some_and(|there| there.kind == FileKind::Directory);
        if is_directory {
            let name = Path::new(&facts.path).file_name().map(ToOwned::to_owned).unwrap_or_default();
            target = target.join(name);
        } else if verb.to.ends_with('/') {
            return Err(target.failed(FileError::NoDirectory(verb.to).into()));
        }
        match (facts.kind, verb.recursive) {
            (FileKind::Directory, false) => {
                let words = format!("'{}' is a directory; a directory is copied with -r", facts.path);
                Err(FileTrouble::Invalid(words))
            }
            (FileKind::Directory, true) => walk(source, target, facts.identity).await,
            (FileKind::File | FileKind::Other, _) => {
                let size = facts.size;
                Ok((vec![CopyStep::File { source, target, facts: Some(facts) }], 1, size))
            }
        }
    }
}

/// Plans the copy of a directory: each directory before what is in it.
async fn walk(
    source: FilePlace,
    target: FilePlace,
    identity: FileIdentity,
) -> Result<(Vec<CopyStep>, u64, u64), FileTrouble> {
    // A directory that is copied into itself would grow without an end.
    let mut above = Some(target.path.as_path());
    while let Some(folder) = above.filter(|_| source.host == target.host) {
        let outer = FilePlace { path: folder.to_owned(), ..target.clone() };
        if outer.describe_if_there().await?.is_some_and(|facts| facts.identity == identity) {
            return Err(FileTrouble::Invalid("a directory is not copied into itself".to_owned()));
        }
        above = folder.parent();
    }
    let (mut steps, mut files, mut size) = (Vec::new(), 0, 0);
    let mut open = vec![(source, target)];
    while let Some((source, target)) = open.pop() {
        let entries = source.files.list(source.path.clone()).await.map_err(|error| source.failed(error))?;
        steps.push(CopyStep::Directory(target.clone()));
        for entry in entries {
            match entry.kind {
                Some(FileKind::Directory) => open.push((source.join(&entry.name), target.join(&entry.name))),
                Some(FileKind::File) => {
                    files += 1;
                    size += entry.size;
                    let (source, target) = (source.join(&entry.name), target.join(&entry.name));
                    steps.push(CopyStep::File { source, target, facts: None });
                }
                Some(FileKind::Other) | None => {
                    steps.push(CopyStep::Skip(source.path.join(&entry.name).display().to_string()));
                }
            }
        }
        if steps.len() + open.len() > MOST_FILES {
            return Err(FileTrouble::Invalid(format!(
                "the directory has more than {MOST_FILES} files; pack it first, as with tar"
            )));
        }
    }
    Ok((steps, files, size))
}

impl CopyEvents {
    /// Carries the copy out and reports it, until it has ended or the client is gone; then what was not finished is removed.
    ///
    /// # Errors
    /// When the client is gone.
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
                    let (progress, done) = watch::channel(copied);
                    let file = copy(&source, &target, facts, self.replace, copied, &progress);
                    tokio::pin!(file);
                    let reporting =
                        report(done, self.secrets.masked(source.path.display().to_string()), request_id, sink);
                    let file = tokio::select! {
                        file = &mut file => file,
                        gone = reporting => return gone,
                    };
                    match file {
                        Ok(file) => {
                            copied += file.size;
                            CopyEvent::FileCopied { file }
                        }
                        Err(trouble) => return fail(&self.secrets, &trouble, request_id, sink).await,
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
    before: u64,
    progress: &watch::Sender<u64>,
) -> Result<steplatch_protocol::WrittenFile, FileTrouble> {
    let facts = match facts {
        Some(facts) => facts,
        None => source.describe().await?,
    };
    let options = CopyOptions { mode: None, replace, limit: u64::MAX };
    source
        .copy_to(&facts, target, options, |copied| {
            progress.send_replace(before + copied);
        })
        .await
}

/// Reports the progress of one file, until the client is gone.
async fn report(
    mut done: watch::Receiver<u64>,
    path: String,
    request_id: &Value,
    sink: &EventSink,
) -> Result<(), Disconnected> {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        if done.changed().await.is_err() {
            return std::future::pending().await;
        }
        let copied = *done.borrow_and_update();
        sink.event(request_id, &CopyEvent::CopyProgress { copied, path: path.clone() }).await?;
    }
}

async fn fail(
    secrets: &Redactor,
    trouble: &FileTrouble,
    request_id: &Value,
    sink: &EventSink,
) -> Result<(), Disconnected> {
    sink.event(request_id, &CopyEvent::CopyFailed { error: secrets.masked(trouble.to_string()) }).await
}
