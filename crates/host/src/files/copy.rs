//! Copies of one file from one machine to another.

use std::path::Path;
use std::time::Instant;

use async_recursion::async_recursion as boxed;
use steplatch_files::{DigestBuilder, FileDigest, FileError, FileFacts, FileKind, FileWritten, PieceSize, WriteTarget};
use steplatch_ids::random_name;

use super::{MachineFiles, TransferError};

/// The way to write a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyOptions {
    /// The permissions of the written file. None for those of the file that it replaces, or else those of its source.
    pub mode: Option<u32>,
    /// True if it may replace a file with another content.
    pub replace: bool,
    /// Maximum length of the file, in bytes.
    pub limit: u64,
}

/// Maximum length of a file that reports none, such as those of `/proc`, in bytes. Only a read shows its end.
const MAX_UNSIZED_BYTES: u64 = 256 << 20;

/// A copied file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The file in its place.
    pub file: FileWritten,
    /// Its length in bytes.
    pub length: u64,
    /// Its digest.
    pub digest: FileDigest,
}

/// A file in the course of its copy. A drop before its end is requested removes the unfinished copy. Afterwards the
/// machine of the target does: it may be putting the file in its place at that moment.
struct Writing<'a> {
    files: &'a MachineFiles,
    target: WriteTarget,
    digest: DigestBuilder,
    length: u64,
    end_is_requested: bool,
}

impl<'a> Writing<'a> {
    fn new(files: &'a MachineFiles, path: &Path) -> Self {
        let target = WriteTarget { path: path.to_owned(), transfer: random_name() };
        Self { files, target, digest: DigestBuilder::default(), length: 0, end_is_requested: false }
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), TransferError> {
        self.digest.add(&bytes);
        let offset = self.length;
        self.length += bytes.len() as u64;
        self.files.write(self.target.clone(), offset, bytes).await
    }

    async fn finish(
        mut self,
        expected: Option<FileDigest>,
        mode: Option<u32>,
        replace: bool,
    ) -> Result<Copied, TransferError> {
        let (length, digest) = (self.length, std::mem::take(&mut self.digest).finish());
        if expected.is_some_and(|expected| expected != digest) {
            return Err(FileError::Damaged(self.target.path.display().to_string()).into());
        }
        self.end_is_requested = true;
        let file = self.files.finish(self.target.clone(), length, digest, mode, replace).await?;
        Ok(Copied { file, length, digest })
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if self.end_is_requested {
            return;
        }
        let (files, target) = (self.files.clone(), self.target.clone());
        // Without a runtime the process ends; the host over there removes what it has later.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { files.abandon(target).await });
        }
    }
}

impl MachineFiles {
    /// Copies a file of this machine to `path` on another one, or on the same. `progress` receives the number of copied
    /// bytes. The copy of a file that grows in the meantime has the length from the beginning.
    ///
    /// # Errors
    /// If the read of the source fails, it changes in the meantime or is longer than the limit, or the write of the
    /// target fails. Then this removes the unfinished copy.
    pub async fn copy(
        &self,
        source: (&Path, &FileFacts),
        target: (&MachineFiles, &Path),
        options: CopyOptions,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<Copied, TransferError> {
        let ((from, source), (other, path)) = (source, target);
        if let Some(copied) = other.written_before().await? {
            return Ok(copied);
        }
        match source.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(FileError::IsDirectory(source.path.clone()).into()),
            FileKind::Other => return Err(FileError::NotRegular(source.path.clone()).into()),
        }
        let limit = if source.size == 0 { options.limit.min(MAX_UNSIZED_BYTES) } else { options.limit };
        let too_long = |size: u64| too_long(&source.path, size, limit);
        if source.size > limit {
            return Err(too_long(source.size));
        }
        let mode = match (options.mode, other.describe(path.to_owned()).await) {
            (Some(mode), _) => Some(mode),
            (None, Ok(_)) => None,
            (None, Err(TransferError::File(_))) => Some(source.mode),
            (None, Err(error)) => return Err(error),
        };
        let mut writing = Writing::new(other, path);
        let mut size = PieceSize::default();
        loop {
            let began = Instant::now();
            // A file without a length, such as those of /proc, ends where a read returns nothing more.
            let rest = if source.size == 0 { u64::MAX } else { source.size - writing.length };
            let max_bytes = usize::try_from(rest).unwrap_or(usize::MAX).min(size.bytes());
            let piece = self.read(from.to_owned(), source.identity, writing.length, max_bytes).await?;
            let is_last = piece.bytes.is_empty() || piece.bytes.len() as u64 == rest;
            if piece.bytes.is_empty() && source.size != 0 {
                return Err(FileError::Changed(source.path.clone()).into());
            }
            if writing.length + piece.bytes.len() as u64 > limit {
                return Err(too_long(writing.length + piece.bytes.len() as u64));
            }
            if !piece.bytes.is_empty() || writing.length == 0 {
                writing.write(piece.bytes).await?;
                progress(writing.length);
            }
            if is_last {
                break;
            }
            size = size.next(began.elapsed());
        }
        // Compares the pieces with the file of the other machine. The content of a file without a length may differ
        // each time.
        let expected = match source.size {
            0 => None,
            length => Some(self.digest(from.to_owned(), source.identity, length).await?),
        };
        let copied = writing.finish(expected, mode, options.replace).await;
        match copied {
            Err(TransferError::File(FileError::Damaged(_))) if expected.is_some() => {
                Err(FileError::Changed(source.path.clone()).into())
            }
            copied => copied,
        }
    }

    /// Writes a file.
    ///
    /// # Errors
    /// If the write fails. Then this removes the unfinished copy.
    #[boxed]
    pub async fn put(
        &self,
        path: &Path,
        content: &[u8],
        mode: Option<u32>,
        replace: bool,
    ) -> Result<Copied, TransferError> {
        if let Some(copied) = self.written_before().await? {
            return Ok(copied);
        }
        let mut writing = Writing::new(self, path);
        let mut size = PieceSize::default();
        let mut rest = content;
        loop {
            let began = Instant::now();
            let (piece, behind) = rest.split_at(rest.len().min(size.bytes()));
            writing.write(piece.to_vec()).await?;
            rest = behind;
            if rest.is_empty() {
                break;
            }
            size = size.next(began.elapsed());
        }
        writing.finish(None, mode, replace).await
    }

    /// Reads a part of a file, at most `limit` bytes starting at `offset`.
    ///
    /// # Errors
    /// If the read fails.
    #[boxed]
    pub async fn get(
        &self,
        path: &Path,
        file: &FileFacts,
        offset: u64,
        limit: usize,
    ) -> Result<Vec<u8>, TransferError> {
        let mut content = Vec::new();
        let mut size = PieceSize::default();
        while content.len() < limit {
            let began = Instant::now();
            let piece = (limit - content.len()).min(size.bytes());
            let read = self.read(path.to_owned(), file.identity, offset + content.len() as u64, piece).await?;
            let is_end = read.bytes.len() < piece;
            content.extend(read.bytes);
            if is_end {
                break;
            }
            size = size.next(began.elapsed());
        }
        Ok(content)
    }
}

fn too_long(path: &str, size: u64, limit: u64) -> TransferError {
    FileError::Invalid(format!("'{path}' has {size} bytes or more, and at most {limit} are copied here")).into()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_copy_that_is_dropped_at_its_end_is_not_removed_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let files = MachineFiles::here();
            let mut writing = Writing::new(&files, &path);
            writing.write(b"content".to_vec()).await.unwrap();
            // The only thread for files is busy: the end waits in its queue.
            let (release, released) = channel::<()>();
            let busy = tokio::task::spawn_blocking(move || released.recv());
            let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
            assert!(writing.finish(None, None, true).now_or_never().is_none());
            assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), tasks, "a removal was spawned");
            release.send(()).unwrap();
            busy.await.unwrap().unwrap();
            // What was queued before this is over.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        });
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
