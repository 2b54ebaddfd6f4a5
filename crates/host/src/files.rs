//! Files of this host and of remote hosts: requests about files ([`MachineFiles`]) and copies from one machine to
//! another ([`MachineFiles::copy`]).
//!
//! A copy is sent in pieces, each with a repeatable request. So a copy survives a lost connection and holds only one
//! piece in memory. The target machine compares the digest of the whole file before it moves the file to its target.

mod copy;
mod unfinished;

use std::path::PathBuf;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_files::{
    DirectoryEntry, FileDigest, FileError, FileFacts, FileIdentity, FilePiece, FileRequest, FileWritten, WriteTarget,
    disk,
};

pub use self::copy::{Copied, CopyOptions};
pub(crate) use self::unfinished::UnfinishedFiles;
use crate::blocking::blocking;
use crate::client::AskError;
use crate::remote::{RemoteHost, Reply};
use crate::terminal::Keeper;
use crate::wire::{HostRequest, Refusal};

/// Error of a request about a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The machine or its system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The version of the remote terminal host has no file requests.
    #[error(
        "the terminal host there is older than file transfers; 'steplatch hosts add … --install' installs this version, which starts once the terminals there are closed"
    )]
    TooOld,
    /// The machine did not answer.
    #[error(transparent)]
    HostRequest(AskError),
}

impl From<AskError> for TransferError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(Refusal::NotUnderstood) => Self::TooOld,
            error => Self::HostRequest(error),
        }
    }
}

/// The files of one machine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MachineFiles {
    access: Access,
    /// The step that writes a file.
    step: Option<String>,
    /// True if the step has sent no request before, so that the host cannot have written the file.
    is_first: bool,
}

#[derive(Debug, Clone)]
enum Access {
    Direct,
    /// The terminal host, and the time limit of a request.
    ThroughHost(Keeper, Duration),
}

impl MachineFiles {
    pub(crate) fn local() -> Self {
        Self { access: Access::Direct, step: None, is_first: true }
    }

    pub(crate) fn remote(host: RemoteHost, timeout: Duration, step: Option<String>, is_first: bool) -> Self {
        Self { access: Access::ThroughHost(Keeper::Remote(host), timeout), step, is_first }
    }

    /// Returns the files of this computer for a step. Its terminal host writes the step's file, at most once.
    pub(crate) fn written_once(host: Keeper, timeout: Duration, step: String) -> Self {
        Self { access: Access::ThroughHost(host, timeout), step: Some(step), is_first: false }
    }

    /// Returns the file that the step has already written, if any.
    ///
    /// # Errors
    /// The machine does not answer.
    #[boxed]
    pub async fn written_before(&self) -> Result<Option<Copied>, TransferError> {
        let (Access::ThroughHost(keeper, timeout), Some(step), false) = (&self.access, &self.step, self.is_first)
        else {
            return Ok(None);
        };
        let request = HostRequest::File(FileRequest::Written(step.clone()));
        let written: Result<Option<FileWritten>, FileError> = match keeper.ask(&request, *timeout).await {
            // A host of an older version writes the file again.
            Err(AskError::Refused(Refusal::NotUnderstood)) => return Ok(None),
            written => written?,
        };
        let copied = |file: FileWritten| file.content.map(|(length, digest)| Copied { file, length, digest });
        Ok(written?.and_then(copied))
    }

    /// Describes a file or directory.
    ///
    /// # Errors
    /// If the file does not exist, or the machine does not answer.
    #[boxed]
    pub async fn describe(&self, path: PathBuf) -> Result<FileFacts, TransferError> {
        self.ask(FileRequest::Describe(path.clone()), move || disk::describe(&path)).await
    }

    /// Lists a directory, sorted by name.
    ///
    /// # Errors
    /// If the path is not a directory, or the machine does not answer.
    #[boxed]
    pub async fn list(&self, path: PathBuf) -> Result<Vec<DirectoryEntry>, TransferError> {
        self.ask(FileRequest::List(path.clone()), move || disk::list(&path)).await
    }

    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// If the system refuses it, or the machine does not answer.
    #[boxed]
    pub async fn make_directory(&self, path: PathBuf) -> Result<(), TransferError> {
        self.ask(FileRequest::MakeDirectory(path.clone()), move || disk::make_directory(&path)).await
    }

    /// Computes the digest of the first `length` bytes of a file.
    ///
    /// # Errors
    /// If the read fails, or the machine does not answer.
    #[boxed]
    pub async fn digest(
        &self,
        path: PathBuf,
        identity: FileIdentity,
        length: u64,
    ) -> Result<FileDigest, TransferError> {
        let request = FileRequest::Digest { path: path.clone(), identity, length };
        self.ask(request, move || disk::digest(&path, identity, length)).await
    }

    async fn read(
        &self,
        path: PathBuf,
        identity: FileIdentity,
        offset: u64,
        limit: usize,
    ) -> Result<FilePiece, TransferError> {
        let request = FileRequest::Read { path: path.clone(), identity, offset, limit };
        let piece: FilePiece = self.ask(request, move || disk::read(&path, identity, offset, limit)).await?;
        match &self.access {
            Access::ThroughHost(keeper, _) if piece.bytes.len() > limit => {
                Err(TransferError::HostRequest(keeper.implausible("more of a file than was requested")))
            }
            Access::Direct | Access::ThroughHost(..) => Ok(piece),
        }
    }

    async fn write(&self, target: WriteTarget, offset: u64, bytes: Vec<u8>) -> Result<(), TransferError> {
        match &self.access {
            // Write locally without a request, because a request would need a copy of the piece.
            Access::Direct => Ok(blocking(move || disk::write(&target, offset, &bytes)).await?),
            Access::ThroughHost(..) => self.ask(FileRequest::Write { target, offset, bytes }, || Ok(())).await,
        }
    }

    async fn finish(
        &self,
        target: WriteTarget,
        length: u64,
        digest: FileDigest,
        mode: Option<u32>,
        replace: bool,
    ) -> Result<FileWritten, TransferError> {
        let request =
            FileRequest::Finish { target: target.clone(), length, digest, mode, replace, step: self.step.clone() };
        let written: FileWritten =
            self.ask(request, move || disk::finish(&target, length, digest, mode, replace)).await?;
        match &self.access {
            Access::ThroughHost(keeper, _) if written.content.is_some_and(|content| content != (length, digest)) => {
                Err(TransferError::HostRequest(
                    keeper.implausible("a written file whose content differs from what was sent"),
                ))
            }
            Access::Direct | Access::ThroughHost(..) => Ok(written),
        }
    }

    async fn abandon(&self, target: WriteTarget) {
        let local_target = target.clone();
        let result = self.ask(FileRequest::Abandon(target), move || {
            disk::abandon(&local_target);
            Ok(())
        });
        if let Err(error) = result.await {
            tracing::debug!(%error, "a partial file is left for the remote host to remove");
        }
    }

    /// Sends a request to the terminal host of the files, or calls `act_directly`.
    async fn ask<T>(
        &self,
        request: FileRequest,
        act_directly: impl FnOnce() -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, TransferError>
    where
        T: Reply + 'static,
    {
        match &self.access {
            Access::Direct => Ok(blocking(act_directly).await?),
            Access::ThroughHost(keeper, timeout) => {
                let answer: Result<T, FileError> = keeper.ask(&HostRequest::File(request), *timeout).await?;
                Ok(answer?)
            }
        }
    }
}
