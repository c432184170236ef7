//! [`Memory`]: values in memory, with a size limit.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use super::Key;

/// Estimated overhead of a value in bytes. Counting it also limits the number of values.
const OVERHEAD: usize = 256;

/// Values by key, and keys by age.
#[derive(Debug)]
pub(super) struct Memory {
    max_bytes: usize,
    bytes: usize,
    next: u64,
    entries: HashMap<Key, Entry>,
    by_age: BTreeMap<u64, Key>,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) value: Bytes,
    /// Unix time in seconds.
    pub(super) expires: u64,
    /// Newer values have higher numbers.
    pub(super) number: u64,
}

impl Memory {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, next: 0, entries: HashMap::new(), by_age: BTreeMap::new() }
    }

    pub(super) fn get(&self, key: &Key, now: u64) -> Option<Bytes> {
        let entry = self.entries.get(key).filter(|entry| entry.expires > now)?;
        Some(entry.value.clone())
    }

    pub(super) fn entry(&self, key: &Key) -> Option<Entry> {
        self.entries.get(key).cloned()
    }

    /// The size of all values in bytes, with their keys and their estimated overhead.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the oldest values whose number is at least `from`: at most `count`, and no more once they add up to
    /// `max_bytes`.
    pub(super) fn oldest(&self, from: u64, count: usize, max_bytes: usize) -> Vec<(Key, Entry)> {
        let mut bytes = 0;
        let entries = self
            .by_age
            .range(from..)
            .map(|(_, key)| key)
            .filter_map(|key| Some((key.clone(), self.entry(key)?)));
        let within = |(_, entry): &(Key, Entry)| {
            let fits = bytes < max_bytes;
            bytes += entry.value.len();
            fits
        };
        entries.take(count).take_while(within).collect()
    }

    /// Stores a value, and removes the oldest values if the limit is exceeded. Returns how many were removed.
    pub(super) fn put(&mut self, key: Key, value: Bytes, expires: u64) -> u64 {
        self.take(&key);
        self.bytes += size(&key, &value);
        self.by_age.insert(self.next, key.clone());
        self.entries.insert(key, Entry { value, expires, number: self.next });
        self.next += 1;
        let mut removed = 0;
        while self.bytes > self.max_bytes
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.take(&oldest);
            removed += 1;
        }
        removed
    }

    /// Removes a value. Returns whether there was one.
    pub(super) fn remove(&mut self, key: &Key, now: u64) -> bool {
        self.take(key).is_some_and(|entry| entry.expires > now)
    }

    /// Removes a value that was written to disk, unless a newer value has replaced it.
    pub(super) fn written(&mut self, key: &Key, number: u64) {
        if self.entries.get(key).is_some_and(|entry| entry.number == number) {
            self.take(key);
        }
    }

    fn take(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.by_age.remove(&entry.number);
        self.bytes -= size(key, &entry.value);
        Some(entry)
    }
}

fn size(key: &Key, value: &Bytes) -> usize {
    key.bytes.len() + value.len() + OVERHEAD
}
