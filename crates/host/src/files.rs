//! Files of this machine and of other ones: requests about them ([`MachineFiles`]) and copies from one machine to
//! another ([`MachineFiles::copy`]).
//!
//! A copy consists of pieces, each with a repeatable request: it survives a lost connection as terminals do, and its
//! memory is one piece. The machine of the target compares the digest of the whole before it puts the file in its
//! place.

mod copy;
mod unfinished;

use std::path::PathBuf;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_files::{
    DirectoryEntry, FileAsk, FileDigest, FileError, FileFacts, FileIdentity, FilePiece, FileWritten, WriteTarget, disk,
};

pub use self::copy::{Copied, CopyOptions};
pub(crate) use self::unfinished::UnfinishedFiles;
use crate::blocking::blocking;
use crate::client::AskError;
use crate::remote::{RemoteHost, Reply};
use crate::terminal::Keeper;
use crate::wire::{Ask, Refusal};

/// Error of a request about a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The machine refused, or its system did.
    #[error(transparent)]
    File(#[from] FileError),
    /// The terminal host over there is of a version that has no files.
    #[error(
        "the terminal host there is older than file transfers; 'steplatch hosts add … --install' installs this version, which starts once the terminals there are closed"
    )]
    TooOld,
    /// The machine did not answer.
    #[error(transparent)]
    Ask(AskError),
}

impl From<AskError> for TransferError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(Refusal::NotUnderstood) => Self::TooOld,
            error => Self::Ask(error),
        }
    }
}

/// The files of one machine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MachineFiles {
    place: Place,
    /// The step that writes a file.
    step: Option<String>,
    /// True if the step has sent no request before: then another machine cannot have written the file.
    is_first: bool,
}

#[derive(Debug, Clone)]
enum Place {
    Here,
    There(Keeper, Duration),
}

impl MachineFiles {
    pub(crate) fn here() -> Self {
        Self { place: Place::Here, step: None, is_first: true }
    }

    pub(crate) fn there(host: RemoteHost, timeout: Duration, step: Option<String>, is_first: bool) -> Self {
        Self { place: Place::There(Keeper::There(host), timeout), step, is_first }
    }

    /// Returns the files of this machine for a step, whose file the terminal host of this machine writes.
    pub(crate) fn written_once(host: Keeper, timeout: Duration, step: String) -> Self {
        Self { place: Place::There(host, timeout), step: Some(step), is_first: false }
    }

    /// Returns the file that the step has already written, if any.
    ///
    /// # Errors
    /// The machine does not answer.
    #[boxed]
    pub async fn written_before(&self) -> Result<Option<Copied>, TransferError> {
        let (Place::There(keeper, timeout), Some(step), false) = (&self.place, &self.step, self.is_first) else {
            return Ok(None);
        };
        let ask = Ask::File(FileAsk::Written(step.clone()));
        let written: Result<Option<FileWritten>, FileError> = match keeper.ask(&ask, *timeout).await {
            // A host of an older version writes a file again.
            Err(AskError::Refused(Refusal::NotUnderstood)) => return Ok(None),
            written => written?,
        };
        let copied = |file: FileWritten| file.content.map(|(length, digest)| Copied { file, length, digest });
        Ok(written?.and_then(copied))
    }

    /// Describes a file or directory.
    ///
    /// # Errors
    /// If there is none, or the machine does not answer.
    #[boxed]
    pub async fn describe(&self, path: PathBuf) -> Result<FileFacts, TransferError> {
        self.ask(FileAsk::Describe(path.clone()), move || disk::describe(&path)).await
    }

    /// Lists a directory, sorted by name.
    ///
    /// # Errors
    /// If it is not a directory, or the machine does not answer.
    #[boxed]
    pub async fn list(&self, path: PathBuf) -> Result<Vec<DirectoryEntry>, TransferError> {
        self.ask(FileAsk::List(path.clone()), move || disk::list(&path)).await
    }

    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// If the system refuses it, or the machine does not answer.
    #[boxed]
    pub async fn make_directory(&self, path: PathBuf) -> Result<(), TransferError> {
        self.ask(FileAsk::MakeDirectory(path.clone()), move || disk::make_directory(&path)).await
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
        let ask = FileAsk::Digest { path: path.clone(), identity, length };
        self.ask(ask, move || disk::digest(&path, identity, length)).await
    }

    async fn read(
        &self,
        path: PathBuf,
        identity: FileIdentity,
        offset: u64,
        limit: usize,
    ) -> Result<FilePiece, TransferError> {
        let ask = FileAsk::Read { path: path.clone(), identity, offset, limit };
        let piece: FilePiece = self.ask(ask, move || disk::read(&path, identity, offset, limit)).await?;
        match &self.place {
            Place::There(keeper, _) if piece.bytes.len() > limit => {
                Err(TransferError::Ask(keeper.implausible("more of a file than was requested")))
            }
            Place::Here | Place::There(..) => Ok(piece),
        }
    }

    async fn write(&self, target: WriteTarget, offset: u64, bytes: Vec<u8>) -> Result<(), TransferError> {
        match &self.place {
            // Here there is no request, and no copy of the piece for one.
            Place::Here => Ok(blocking(move || disk::write(&target, offset, &bytes)).await?),
            Place::There(..) => self.ask(FileAsk::Write { target, offset, bytes }, || Ok(())).await,
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
        let ask = FileAsk::Finish { target: target.clone(), length, digest, mode, replace, step: self.step.clone() };
        let written: FileWritten = self.ask(ask, move || disk::finish(&target, length, digest, mode, replace)).await?;
        match &self.place {
            Place::There(keeper, _) if written.content.is_some_and(|content| content != (length, digest)) => {
                Err(TransferError::Ask(keeper.implausible("a written file with another content than was sent")))
            }
            Place::Here | Place::There(..) => Ok(written),
        }
    }

    async fn abandon(&self, target: WriteTarget) {
        let here = target.clone();
        let abandoned = self.ask(FileAsk::Abandon(target), move || {
            disk::abandon(&here);
            Ok(())
        });
        if let Err(error) = abandoned.await {
            tracing::debug!(%error, "an unfinished file is left to the host over there");
        }
    }

    /// Sends a request to the machine of the files, or does it here.
    async fn ask<T>(
        &self,
        ask: FileAsk,
        here: impl FnOnce() -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, TransferError>
    where
        T: Reply + 'static,
    {
        match &self.place {
            Place::Here => Ok(blocking(here).await?),
            Place::There(keeper, timeout) => {
                let answer: Result<T, FileError> = keeper.ask(&Ask::File(ask), *timeout).await?;
                Ok(answer?)
            }
        }
    }
}
