//! [`CheckedFile`]: a file for redb that detects when a block no longer contains what was written to it.
//!
//! redb verifies a file only when it opens it. Later it trusts the pages, and may panic if they have changed. This
//! module remembers the checksum of each block when it is first read or written, and a later read with a different
//! checksum fails like a read from a damaged file.

use std::{
    fs::File,
    hash::{DefaultHasher, Hasher},
    io,
    ops::Bound,
};

use parking_lot::Mutex;
use redb::{BackendError, DatabaseError, StorageBackend, backends::FileBackend};

use super::overlay::Overlay;

/// The size of a block in bytes, which is the size of a page in redb.
const BLOCK: usize = 4096;

#[derive(Debug)]
pub(super) struct CheckedFile {
    file: FileBackend,
    /// Checksums by block number. 0 means unknown.
    sums: Mutex<Vec<u64>>,
    /// Takes the changes if the file must not be changed.
    overlay: Option<Mutex<Overlay>>,
    #[cfg(test)]
    pub(super) faults: super::disk::Faults,
}

impl CheckedFile {
    pub(super) fn new(file: File) -> Result<Self, DatabaseError> {
        Ok(Self {
            file: FileBackend::new(file)?,
            sums: Mutex::default(),
            overlay: None,
            #[cfg(test)]
            faults: super::disk::Faults::default(),
        })
    }

    /// Like [`CheckedFile::new`], but keeps all changes in memory.
    pub(super) fn unchanged(file: File) -> Result<Self, DatabaseError> {
        let mut checked = Self::new(file)?;
        checked.overlay = Some(Mutex::new(Overlay::new(checked.file.len()?)));
        Ok(checked)
    }

    /// Forgets the checksums of all blocks that overlap these bytes.
    fn forget(&self, offset: u64, bytes: &[u8]) {
        let end = offset.saturating_add(size(bytes.len())).div_ceil(size(BLOCK));
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        let mut sums = self.sums.lock();
        let end = end.min(sums.len());
        sums.get_mut(number(offset)..end).unwrap_or_default().fill(0);
    }

    /// Remembers the checksums of the complete blocks in these bytes. Returns whether they agree with the checksums
    /// that were known before.
    fn learn(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut sums = self.sums.lock();
        for (number, block) in whole_blocks(offset, bytes) {
            if sums.len() <= number {
                sums.resize(number + 1, 0);
            }
            let sum = sum(block);
            if let Some(known) = sums.get_mut(number) {
                if *known != 0 && *known != sum {
                    return false;
                }
                *known = sum;
            }
        }
        true
    }
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn number(offset: u64) -> usize {
    usize::try_from(offset / size(BLOCK)).unwrap_or(usize::MAX)
}

/// The complete blocks in these bytes, with their numbers.
fn whole_blocks(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let first = offset.div_ceil(size(BLOCK));
    let skipped = usize::try_from(first * size(BLOCK) - offset).unwrap_or(usize::MAX);
    let blocks = bytes.get(skipped..).unwrap_or_default().chunks_exact(BLOCK);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    blocks.enumerate().map(move |(number, block)| (first.saturating_add(number), block))
}

/// The checksum of a block. Never 0.
fn sum(block: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(block);
    hasher.finish() | 1
}

impl StorageBackend for CheckedFile {
    fn len(&self) -> io::Result<u64> {
        match &self.overlay {
            Some(overlay) => Ok(overlay.lock().len()),
            None => self.file.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if let Some(overlay) = &self.overlay {
            return overlay.lock().read(&self.file, offset, out);
        }
        self.file.read(offset, out)?;
        if self.learn(offset, out) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the file has changed since it was written"))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if let Some(overlay) = &self.overlay {
            overlay.lock().set_len(len);
            return Ok(());
        }
        #[cfg(test)]
        self.faults.grow(self.file.len()?, len)?;
        self.sums.lock().truncate(number(len));
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.overlay.is_some() { Ok(()) } else { self.file.sync_data() }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(overlay) = &self.overlay {
            return overlay.lock().write(&self.file, offset, data);
        }
        // If the write fails, the content of these blocks is unknown.
        self.forget(offset, data);
        #[cfg(test)]
        self.faults.write()?;
        self.file.write(offset, data)?;
        self.learn(offset, data);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::FileExt};

    use super::*;

    #[test]
    fn write_forgets_no_block_beside_it() {
        for (offset, len) in [(0, BLOCK), (0, 1), (1, BLOCK - 1), (5, 0)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("blocks");
            fs::write(&path, [1; 2 * BLOCK]).unwrap();
            let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
            let other = file.try_clone().unwrap();
            let checked = CheckedFile::new(file).unwrap();
            checked.read(0, &mut [0; 2 * BLOCK]).unwrap();
            checked.write(offset, &vec![2; len]).unwrap();
            checked.read(0, &mut [0; 2 * BLOCK]).unwrap();
            other.write_all_at(&[3], size(BLOCK)).unwrap();
            let error = checked.read(size(BLOCK), &mut [0; BLOCK]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{offset} {len}");
        }
    }
}
