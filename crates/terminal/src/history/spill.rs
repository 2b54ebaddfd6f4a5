//! Older output on disk, in a file that no other process sees.
//!
//! Owns a file without a name (it disappears with this process in any case) and uses it as a ring: blocks go in at one
//! end and out at the other, in the same order, so the file never grows beyond its budget. The history interprets the
//! blocks.

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
    /// The position of the oldest byte that is still used, counted without regard to the ring.
    oldest: u64,
    /// Offset of the next byte, counted likewise.
    next: u64,
}

/// The position of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    at: u64,
    length: usize,
}

impl Place {
    /// Returns the number of bytes of the block.
    #[must_use]
    pub(crate) fn length(self) -> usize {
        self.length
    }
}

impl Spill {
    /// Begins without a block, in a file of at most `capacity` bytes in `folder`.
    ///
    /// # Errors
    /// If the folder is not there or takes no file.
    pub(crate) fn new(folder: &Path, capacity: usize) -> io::Result<Self> {
        let file = off_the_runtime(|| tempfile::tempfile_in(folder))?;
        Ok(Self { file, capacity: capacity as u64, oldest: 0, next: 0 })
    }

    /// Returns whether there is room for a block of `length` bytes without giving up another one.
    #[must_use]
    pub(crate) fn has_room_for(&self, length: usize) -> bool {
        self.next - self.oldest + length as u64 <= self.capacity
    }

    /// Returns whether a block of `length` bytes fits into the whole file.
    #[must_use]
    pub(crate) fn could_hold(&self, length: usize) -> bool {
        length as u64 <= self.capacity
    }

    /// Writes a block after all others. There must be room for it.
    ///
    /// # Errors
    /// If the disk is full or fails; the file then keeps all other blocks, but not this one.
    pub(crate) fn write(&mut self, block: &[u8]) -> io::Result<Place> {
        debug_assert!(self.has_room_for(block.len()), "whoever writes makes room first");
        let place = Place { at: self.next, length: block.len() };
        let (begin, first) = self.split(place);
        off_the_runtime(|| {
            self.file.write_all_at(&block[..first], begin)?;
            self.file.write_all_at(&block[first..], 0)
        })?;
        self.next += block.len() as u64;
        Ok(place)
    }

    /// Reads a held block.
    ///
    /// # Errors
    /// If the disk fails.
    pub(crate) fn read(&self, place: Place) -> io::Result<Vec<u8>> {
        let (begin, first) = self.split(place);
        let mut block = vec![0; place.length];
        off_the_runtime(|| {
            let (head, tail) = block.split_at_mut(first);
            self.file.read_exact_at(head, begin)?;
            self.file.read_exact_at(tail, 0)
        })?;
        Ok(block)
    }

    /// Gives up the oldest block, which is at `place`.
    pub(crate) fn give_up(&mut self, place: Place) {
        debug_assert_eq!(place.at, self.oldest, "blocks are given up in the order in which they came");
        self.oldest = place.at + place.length as u64;
    }

    /// Makes do with the room that the file has already. Returns whether that may help: the blocks keep their
    /// places only as long as the ring has not begun anew.
    pub(crate) fn stop_growing(&mut self) -> bool {
        let helps = 0 < self.next && self.next < self.capacity;
        if helps {
            self.capacity = self.next;
        }
        helps
    }

    /// Used bytes.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.next - self.oldest
    }

    /// Bytes that the file takes.
    #[cfg(test)]
    pub(crate) fn file_length(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Keeps the file from growing further, as a full disk would.
    #[cfg(test)]
    pub(crate) fn make_full(&mut self) {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        let memory = memfd_create("full", MemfdFlags::ALLOW_SEALING).expect("a file in memory");
        let full = File::from(memory);
        let mut bytes = vec![0; self.file_length() as usize];
        self.file.read_exact_at(&mut bytes, 0).expect("a file that can be read");
        full.write_all_at(&bytes, 0).expect("a file that can be written");
        fcntl_add_seals(&full, SealFlags::GROW).expect("a file that can be sealed");
        self.file = full;
    }

    /// Lets every read and write fail, like a removed disk.
    #[cfg(test)]
    pub(crate) fn break_down(&mut self) {
        self.file = File::open("/").expect("a folder, of which no bytes can be read");
    }

    /// Returns the position of a block in the file, and the number of its bytes that follow there; the rest is at the
    /// beginning.
    fn split(&self, place: Place) -> (u64, usize) {
        let begin = place.at % self.capacity.max(1);
        let first = (self.capacity - begin).min(place.length as u64);
        (begin, first as usize)
    }
}

/// Does something that a disk may be slow at. What else the runtime has to do moves to another thread.
fn off_the_runtime<T>(act: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(act),
        // A runtime of one thread has no other to move to, and without a runtime there is no task to delay.
        _ => act(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_read_back_also_where_the_ring_begins_anew() {
        let mut spill = Spill::new(&std::env::temp_dir(), 10).unwrap();
        let first = spill.write(b"abcdef").unwrap();
        assert!(!spill.has_room_for(5) && spill.could_hold(10) && !spill.could_hold(11));
        spill.give_up(first);
        let second = spill.write(b"0123456").unwrap();
        assert_eq!(spill.read(second).unwrap(), b"0123456");
        let third = spill.write(b"xyz").unwrap();
        assert_eq!(spill.read(third).unwrap(), b"xyz");
        assert_eq!((spill.used(), spill.file_length()), (10, 10));
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(Spill::new(Path::new("/no/such/folder"), 10).is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_task_may_write_and_read() {
        let length = tokio::spawn(async {
            let mut spill = Spill::new(&std::env::temp_dir(), 100).unwrap();
            let place = spill.write(b"from a task").unwrap();
            spill.read(place).unwrap().len()
        });
        assert_eq!(length.await.unwrap(), 11);
    }
}
