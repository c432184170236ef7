//! [`Digest`]: recognises text that was seen before, without storing it.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};

/// The length and a hash of some text. Equal texts have equal digests, and different texts almost never do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    len: usize,
    hash: u64,
}

impl Digest {
    /// Computes the digest of `text`, which is the same in every process.
    pub fn of(text: &str) -> Self {
        Self::of_bytes(text.as_bytes())
    }

    /// Like [`Digest::of`], but for text in any encoding.
    pub fn of_bytes(text: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(text);
        Self { len: text.len(), hash: hasher.finish() }
    }

    /// Whether the text was empty.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// A short fingerprint of the text: 32 bits of the hash.
    pub fn short(self) -> u32 {
        let [_, _, _, _, bytes @ ..] = self.hash.to_be_bytes();
        u32::from_be_bytes(bytes)
    }
}

/// The length and the hash as hexadecimal numbers.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:016x}", self.len, self.hash)
    }
}
