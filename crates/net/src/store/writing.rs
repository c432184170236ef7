//! The thread of a store, which writes values from memory to disk, oldest first.
//!
//! Values that cannot be written are retried after a pause, since there may be space on the disk by then, or the
//! process that uses the file may have ended.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Instant,
};

use super::{
    Key, NotStored, Shared, StoreError,
    disk::{Disk, pause_after},
    lock,
    memory::Entry,
};

/// Maximum number of values in a batch. A batch that has reached `BATCH_BYTES` gets no further values.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 4 << 20;

/// Before the process ends, writing is given up after this many values have failed one by one.
const LAST_TRIES: usize = 16;

/// Writes values until the store is dropped, then writes the remaining ones.
pub(super) fn run(shared: &Shared, woken: &Receiver<()>) {
    lock(&shared.disk).prepare();
    let mut writing = Writing { shared, most: BATCH, next_failure: 0, logged: None };
    let mut retry_at: Option<Instant> = None;
    loop {
        let waited = match retry_at {
            None => woken.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => woken.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match waited {
            Err(RecvTimeoutError::Disconnected) => return writing.write_last(),
            _ if retry_at.is_some_and(|at| Instant::now() < at) => {}
            _ => retry_at = writing.write_all(),
        }
    }
}

struct Writing<'s> {
    shared: &'s Shared,
    /// Maximum number of values in the next batch. Reduced after a failure, since there may be space for fewer values.
    most: usize,
    /// Values with at least this number have not failed yet.
    next_failure: u64,
    /// The last error that was logged.
    logged: Option<String>,
}

impl Writing<'_> {
    /// Writes all waiting values. Returns when to retry those that failed.
    fn write_all(&mut self) -> Option<Instant> {
        loop {
            let begun = Instant::now();
            let mut disk = lock(&self.shared.disk);
            let entries = lock(&self.shared.memory).oldest(0, self.most, BATCH_BYTES);
            if entries.is_empty() {
                return None;
            }
            if self.write(&mut disk, &entries).is_err() {
                self.most = (self.most / 2).max(1);
                return Some(Instant::now() + pause_after(begun.elapsed()));
            }
            self.most = BATCH;
        }
    }

    /// Writes the remaining values without pauses, before the process ends.
    fn write_last(&mut self) {
        let (mut from, mut tries, mut most) = (0, 0, BATCH);
        lock(&self.shared.disk).try_again();
        loop {
            let mut disk = lock(&self.shared.disk);
            let entries = lock(&self.shared.memory).oldest(from, most, BATCH_BYTES);
            let Some((_, first)) = entries.first() else { break };
            match self.write(&mut disk, &entries) {
                Ok(()) => most = BATCH,
                Err(_) if entries.len() > 1 => most = (entries.len() / 4).max(1),
                Err(_) => {
                    (from, tries) = (first.number + 1, tries + 1);
                    if tries == LAST_TRIES {
                        break;
                    }
                }
            }
            disk.try_again();
        }
        let left = lock(&self.shared.memory).len();
        if left > 0 && self.shared.settings.folder.is_some() {
            tracing::error!(values = left, "stored values are lost, since they could not be written to disk");
        }
    }

    fn write(&mut self, disk: &mut Disk, entries: &[(Key, Entry)]) -> Result<(), StoreError> {
        let values = entries.iter().map(|(key, entry)| (&*key.bytes, entry.expires, &*entry.value));
        match disk.put(values, self.shared.clock.last_earliest()) {
            Ok(()) => {
                let mut memory = lock(&self.shared.memory);
                entries.iter().for_each(|(key, entry)| memory.written(key, entry.number));
                if self.logged.take().is_some() {
                    self.shared.report.written();
                    tracing::info!(
                        file = self.shared.report.file(),
                        "stored values are written to disk again"
                    );
                }
                Ok(())
            }
            Err(error) => {
                self.failed(&error, entries);
                Err(error)
            }
        }
    }

    /// Counts the values that fail for the first time, and logs the error if it is new.
    fn failed(&mut self, error: &StoreError, entries: &[(Key, Entry)]) {
        let is_new = |number: &u64| *number >= self.next_failure;
        let new: Vec<u64> = entries.iter().map(|(_, entry)| entry.number).filter(is_new).collect();
        self.next_failure = new.last().map_or(self.next_failure, |last| last + 1);
        self.shared.not_stored(NotStored::Delayed(u64::try_from(new.len()).unwrap_or(u64::MAX)));
        self.shared.report.unwritten();
        let reason = error.to_string();
        if self.logged.as_ref() != Some(&reason) {
            tracing::error!(
                error = reason,
                values = entries.len(),
                "stored values cannot be written to disk; they are kept in memory (up to 64 MiB) and tried again until toolwire stops{}",
                error.remedy()
            );
            self.logged = Some(reason);
        }
    }
}
