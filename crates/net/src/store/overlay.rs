//! [`Overlay`]: changes to a file that stay in memory, so that redb can read a file that must not or cannot be written.
//!
//! redb has to write before it can read a file that was not closed properly, which is so after each failed write.

use std::{collections::HashMap, io};

use redb::{StorageBackend, backends::FileBackend};

/// The size of a block in bytes.
const BLOCK: u64 = 4096;

/// The blocks that differ from those of the file, and the length of the changed file.
#[derive(Debug)]
pub(super) struct Overlay {
    len: u64,
    /// How much of the file is still part of the changed one.
    visible: u64,
    blocks: HashMap<u64, Box<[u8]>>,
}

impl Overlay {
    /// Creates an overlay without changes for a file with `len` bytes.
    pub(super) fn new(len: u64) -> Self {
        Self { len, visible: len, blocks: HashMap::new() }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.blocks.retain(|number, _| number * BLOCK < len);
        let (last, used) = (len / BLOCK, len % BLOCK);
        if let Some(block) = self.blocks.get_mut(&last) {
            block.iter_mut().skip(index(used)).for_each(|byte| *byte = 0);
        }
        self.visible = self.visible.min(len);
        self.len = len;
    }

    pub(super) fn read(&self, file: &FileBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(bytes(out.len()));
        if end > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(file, offset, out)?;
        let (first, last) = (offset / BLOCK, end.div_ceil(BLOCK));
        for number in (first..last).filter(|_| !self.blocks.is_empty()) {
            let Some(block) = self.blocks.get(&number) else { continue };
            let begin = number * BLOCK;
            let from = index(offset.saturating_sub(begin));
            let into = index(begin.saturating_sub(offset));
            let (into, from) = (out.iter_mut().skip(into), block.iter().skip(from));
            into.zip(from).for_each(|(into, from)| *into = *from);
        }
        Ok(())
    }

    /// Reads what the file has there. What lies beyond it is zero.
    fn read_file(&self, file: &FileBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = index(self.visible.saturating_sub(offset)).min(out.len());
        let Some((there, beyond)) = out.split_at_mut_checked(there) else { return Ok(()) };
        beyond.fill(0);
        if there.is_empty() { Ok(()) } else { file.read(offset, there) }
    }

    pub(super) fn write(&mut self, file: &FileBackend, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.saturating_add(bytes(data.len()));
        for number in offset / BLOCK..end.div_ceil(BLOCK) {
            let begin = number * BLOCK;
            if !self.blocks.contains_key(&number) {
                let mut block = vec![0; index(BLOCK)].into_boxed_slice();
                self.read_file(file, begin, &mut block)?;
                self.blocks.insert(number, block);
            }
            let Some(block) = self.blocks.get_mut(&number) else { continue };
            let into = block.iter_mut().skip(index(offset.saturating_sub(begin)));
            let from = data.iter().skip(index(begin.saturating_sub(offset)));
            into.zip(from).for_each(|(into, from)| *into = *from);
        }
        Ok(())
    }
}

fn bytes(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    /// Applies the same random changes to a file in memory.
    #[test]
    fn overlay_reads_like_a_changed_file_and_leaves_the_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut random = fastrand::Rng::with_seed(3);
        let content: Vec<u8> = (0..20_000).map(|_| random.u8(1..)).collect();
        fs::write(&path, &content).unwrap();
        let file = FileBackend::new(File::open(&path).unwrap()).unwrap();
        let mut overlay = Overlay::new(20_000);
        let mut expected = content.clone();
        for round in 0..2000 {
            let from = random.usize(0..expected.len());
            let len = random.usize(0..10_000);
            match random.usize(0..10) {
                0 => {
                    let len = random.usize(1..40_000);
                    expected.resize(len, 0);
                    overlay.set_len(len as u64);
                }
                1..5 => {
                    let data = vec![random.u8(1..); len.min(expected.len() - from)];
                    expected[from..from + data.len()].copy_from_slice(&data);
                    overlay.write(&file, from as u64, &data).unwrap();
                }
                _ => {
                    let mut out = vec![0; len.min(expected.len() - from)];
                    overlay.read(&file, from as u64, &mut out).unwrap();
                    assert_eq!(out, expected[from..from + out.len()], "{round}");
                }
            }
            assert_eq!(overlay.len(), expected.len() as u64);
        }
        assert!(overlay.read(&file, overlay.len(), &mut [0]).is_err());
        assert_eq!(fs::read(&path).unwrap(), content);
    }
}
