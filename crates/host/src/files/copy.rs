//! Copies of one file from one machine to another.

use std::path::Path;
use std::time::Instant;

use async_recursion::async_recursion as boxed;
use steplatch_files::{DigestBuilder, FileDigest, FileError, FileFacts, FileKind, FileWritten, PieceSize, WriteTarget};
use steplatch_ids::random_name;

use super::{MachineFiles, TransferError};

/// Options of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyOptions {
    /// Permissions of the target. `None` for the permissions of the replaced file, or of the source if there is no such
    /// file.
    pub mode: Option<u32>,
    /// True if the copy may replace a file with other content.
    pub replace: bool,
    /// Maximum length of the file, in bytes.
    pub limit: u64,
}

/// Maximum length in bytes of a file that reports no length, such as a file of `/proc`. Only reading finds the end of
/// such a file.
const MAX_UNSIZED_BYTES: u64 = 256 << 20;

/// A copied file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The written file.
    pub file: FileWritten,
    /// The length in bytes.
    pub length: u64,
    /// The digest.
    pub digest: FileDigest,
}

/// Copy in progress. Dropping this value removes the unfinished file, unless its end was already requested: then the
/// target machine may be moving the file into place, and removes an unfinished file itself.
struct Writing<'a> {
    files: &'a MachineFiles,
    target: WriteTarget,
    digest: DigestBuilder,
    length: u64,
    is_end_requested: bool,
}

impl<'a> Writing<'a> {
    fn new(files: &'a MachineFiles, path: &Path) -> Self {
        let target = WriteTarget { path: path.to_owned(), transfer: random_name() };
        Self { files, target, digest: DigestBuilder::default(), length: 0, is_end_requested: false }
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
        self.is_end_requested = true;
        let file = self.files.finish(self.target.clone(), length, digest, mode, replace).await?;
        Ok(Copied { file, length, digest })
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if self.is_end_requested {
            return;
        }
        let (files, target) = (self.files.clone(), self.target.clone());
        // Without a runtime the process is ending; the remote host later removes the unfinished file.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { files.abandon(target).await });
        }
    }
}

impl MachineFiles {
    /// Copies a file of this computer to a path on a remote host, or on the same. `progress` receives the number of
    /// copied bytes. If the source grows meanwhile, the copy has its initial length.
    ///
    /// # Errors
    /// If reading or writing fails, or the source changes meanwhile or exceeds the limit. The unfinished copy is
    /// removed in these cases.
    pub async fn copy(
        &self,
        source: (&Path, &FileFacts),
        target: (&MachineFiles, &Path),
        options: CopyOptions,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<Copied, TransferError> {
        let ((source_path, source), (target_files, target_path)) = (source, target);
        if let Some(copied) = target_files.written_before().await? {
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
        let mode = match (options.mode, target_files.describe(target_path.to_owned()).await) {
            (Some(mode), _) => Some(mode),
            (None, Ok(_)) => None,
            (None, Err(TransferError::File(_))) => Some(source.mode),
            (None, Err(error)) => return Err(error),
        };
        let mut writing = Writing::new(target_files, target_path);
        let mut piece_size = PieceSize::default();
        loop {
            let began = Instant::now();
            // A file without a length, such as a file of /proc, ends at an empty read.
            let remaining_bytes = if source.size == 0 { u64::MAX } else { source.size - writing.length };
            let max_bytes = usize::try_from(remaining_bytes).unwrap_or(usize::MAX).min(piece_size.bytes());
            let piece = self.read(source_path.to_owned(), source.identity, writing.length, max_bytes).await?;
            let is_last = piece.bytes.is_empty() || piece.bytes.len() as u64 == remaining_bytes;
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
            piece_size = piece_size.next(began.elapsed());
        }
        // Compare the copied pieces with the source. The content of a file without a length may differ at each read.
        let expected = match source.size {
            0 => None,
            length => Some(self.digest(source_path.to_owned(), source.identity, length).await?),
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
    /// If the write fails. Then the unfinished copy is removed.
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
        let mut piece_size = PieceSize::default();
        let mut rest = content;
        loop {
            let began = Instant::now();
            let (piece, after_piece) = rest.split_at(rest.len().min(piece_size.bytes()));
            writing.write(piece.to_vec()).await?;
            rest = after_piece;
            if rest.is_empty() {
                break;
            }
            piece_size = piece_size.next(began.elapsed());
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
        let mut piece_size = PieceSize::default();
        while content.len() < limit {
            let began = Instant::now();
            let max_bytes = (limit - content.len()).min(piece_size.bytes());
            let piece = self.read(path.to_owned(), file.identity, offset + content.len() as u64, max_bytes).await?;
            let is_end = piece.bytes.len() < max_bytes;
            content.extend(piece.bytes);
            if is_end {
                break;
            }
            piece_size = piece_size.next(began.elapsed());
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
    fn copy_dropped_at_its_end_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let files = MachineFiles::local();
            let mut writing = Writing::new(&files, &path);
            writing.write(b"content".to_vec()).await.unwrap();
            // The only thread for files is busy, so the end of the copy waits in its queue.
            let (release, released) = channel::<()>();
            let busy = tokio::task::spawn_blocking(move || released.recv());
            let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
            assert!(writing.finish(None, None, true).now_or_never().is_none());
            assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), tasks, "a removal was spawned");
            release.send(()).unwrap();
            busy.await.unwrap().unwrap();
            // Everything queued earlier has finished.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        });
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
