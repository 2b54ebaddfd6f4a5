//! Older output on disk, in a file that no other process can open.
//!
//! Owns an unnamed file, used as a ring buffer of blocks, so that the file never exceeds its budget. The system removes
//! the file at the end of this process. The history interprets the blocks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use tokio::runtime::{Handle, RuntimeFlavor};

/// A ring of bytes on disk.
#[derive(Debug)]
pub(crate) struct Spill {
    file: File,
    capacity: u64,
    /// Offset of the oldest used byte, counted from the first byte ever written.
    oldest: u64,
    /// Offset of the next byte to write, counted in the same way.
    next: u64,
}

/// The position of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPosition {
    offset: u64,
    length: usize,
}

impl BlockPosition {
    /// Returns the number of bytes of the block.
    #[must_use]
    pub(crate) fn length(self) -> usize {
        self.length
    }
}

impl Spill {
    /// Creates an empty file of at most `capacity` bytes in `directory`.
    ///
    /// # Errors
    /// If the directory does not exist or the file cannot be created.
    pub(crate) fn new(directory: &Path, capacity: usize) -> io::Result<Self> {
        let file = run_blocking(|| tempfile::tempfile_in(directory))?;
        Ok(Self { file, capacity: capacity as u64, oldest: 0, next: 0 })
    }

    /// Returns whether there is room for a block of `length` bytes without dropping another one.
    #[must_use]
    pub(crate) fn has_room_for(&self, length: usize) -> bool {
        self.next - self.oldest + length as u64 <= self.capacity
    }

    /// Returns whether a block of `length` bytes fits into the empty file.
    #[must_use]
    pub(crate) fn could_hold(&self, length: usize) -> bool {
        length as u64 <= self.capacity
    }

    /// Writes a block after all others. There must be room for it.
    ///
    /// # Errors
    /// If the disk is full or fails; the file then keeps all other blocks, but not this one.
    pub(crate) fn write(&mut self, block: &[u8]) -> io::Result<BlockPosition> {
        debug_assert!(self.has_room_for(block.len()), "the caller makes room first");
        let position = BlockPosition { offset: self.next, length: block.len() };
        let (start, bytes_before_wrap) = self.split_block(position);
        run_blocking(|| {
            self.file.write_all_at(&block[..bytes_before_wrap], start)?;
            self.file.write_all_at(&block[bytes_before_wrap..], 0)
        })?;
        self.next += block.len() as u64;
        Ok(position)
    }

    /// Reads a stored block.
    ///
    /// # Errors
    /// If the disk fails.
    pub(crate) fn read(&self, position: BlockPosition) -> io::Result<Vec<u8>> {
        let (start, bytes_before_wrap) = self.split_block(position);
        let mut block = vec![0; position.length];
        run_blocking(|| {
            let (head, tail) = block.split_at_mut(bytes_before_wrap);
            self.file.read_exact_at(head, start)?;
            self.file.read_exact_at(tail, 0)
        })?;
        Ok(block)
    }

    /// Drops the oldest block, at `position`.
    pub(crate) fn drop_oldest(&mut self, position: BlockPosition) {
        debug_assert_eq!(position.offset, self.oldest, "blocks are dropped in the order in which they were written");
        self.oldest = position.offset + position.length as u64;
    }

    /// Limits the file to its current size. Returns false if the ring has wrapped around, because the limit would
    /// change the positions of its blocks.
    pub(crate) fn stop_growing(&mut self) -> bool {
        let is_possible = 0 < self.next && self.next < self.capacity;
        if is_possible {
            self.capacity = self.next;
        }
        is_possible
    }

    /// Returns the number of used bytes.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.next - self.oldest
    }

    /// Returns the size of the file, in bytes.
    #[cfg(test)]
    pub(crate) fn file_length(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Keeps the file from growing further, as a full disk would.
    #[cfg(test)]
    pub(crate) fn make_full(&mut self) {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        let memory = memfd_create("full", MemfdFlags::ALLOW_SEALING).expect("memfd_create succeeds");
        let full = File::from(memory);
        let mut bytes = vec![0; self.file_length() as usize];
        self.file.read_exact_at(&mut bytes, 0).expect("the file is readable");
        full.write_all_at(&bytes, 0).expect("the file is writable");
        fcntl_add_seals(&full, SealFlags::GROW).expect("the file can be sealed");
        self.file = full;
    }

    /// Makes every read and write fail, like a removed disk.
    #[cfg(test)]
    pub(crate) fn break_down(&mut self) {
        self.file = File::open("/").expect("the root directory can be opened");
    }

    /// Returns the position of a block in the file, and the number of its bytes there. The remaining bytes are at the
    /// beginning of the file.
    fn split_block(&self, position: BlockPosition) -> (u64, usize) {
        let start = position.offset % self.capacity.max(1);
        let bytes_before_wrap = (self.capacity - start).min(position.length as u64);
        (start, bytes_before_wrap as usize)
    }
}

/// Runs a disk operation that may be slow. The other tasks of the runtime move to another thread.
fn run_blocking<T>(act: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(act),
        // A runtime with one thread has no other thread, and without a runtime there is no task to delay.
        _ => act(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_read_back_across_the_end_of_the_ring() {
        let mut spill = Spill::new(&std::env::temp_dir(), 10).unwrap();
        let bytes_before_wrap = spill.write(b"abcdef").unwrap();
        assert!(!spill.has_room_for(5) && spill.could_hold(10) && !spill.could_hold(11));
        spill.drop_oldest(bytes_before_wrap);
        let second = spill.write(b"0123456").unwrap();
        assert_eq!(spill.read(second).unwrap(), b"0123456");
        let third = spill.write(b"xyz").unwrap();
        assert_eq!(spill.read(third).unwrap(), b"xyz");
        assert_eq!((spill.used(), spill.file_length()), (10, 10));
    }

    #[test]
    fn missing_directory_is_an_error() {
        assert!(Spill::new(Path::new("/no/such/directory"), 10).is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn task_may_write_and_read() {
        let length = tokio::spawn(async {
            let mut spill = Spill::new(&std::env::temp_dir(), 100).unwrap();
            let position = spill.write(b"from a task").unwrap();
            spill.read(position).unwrap().len()
        });
        assert_eq!(length.await.unwrap(), 11);
    }
}
