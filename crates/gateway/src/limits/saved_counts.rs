//! [`SavedCounts`]: the usage of clients on disk.
//!
//! There are two copies of the usage, in separate files. If one is damaged, the other still has the usage, so no budget
//! restarts from zero.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::usage::MonthCounts;
use toolwire_config::{calendar::Month, client_keys::owner_of_name};
use toolwire_net::store::{HeldBytes, Key, NotStored, Space, Store, Stores};

/// How long the counts of a month are stored.
const TTL: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Maximum size in bytes of all counts.
const MAX_BYTES: usize = 64 << 20;

pub(super) struct SavedCounts {
    copies: [Arc<dyn Store>; 2],
}

/// The copies of a month's counts that could not be read. They are not overwritten.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unread {
    pub(super) month: Month,
    copies: [bool; 2],
}

impl Unread {
    /// Marks all copies of the month's counts as unread.
    pub(super) fn of(month: Month) -> Self {
        Self { month, copies: [true; 2] }
    }

    pub(super) fn is_left(&self) -> bool {
        self.copies.contains(&true)
    }
}

impl SavedCounts {
    /// Opens the counts in `stores`.
    pub(super) fn new(stores: &Stores) -> Self {
        let open = |space| {
            let on_failure = |values| {
                if let NotStored::Lost(count) = values {
                    tracing::error!(count, "what clients have used could not be saved");
                }
            };
            stores.open(space, MAX_BYTES, TTL, Box::new(on_failure))
        };
        Self { copies: [Space::Usage, Space::UsageCopy].map(open) }
    }

    /// The memory of both copies.
    pub(super) fn held(&self) -> HeldBytes {
        self.copies.iter().map(|copy| copy.held()).sum()
    }

    /// Reads the unread copies. Returns the largest counts, since counts never decrease, and writes them to copies that
    /// lack them. Afterwards, `unread` is empty.
    pub(super) fn read(&self, name: &str, unread: &mut Unread, now: u64) -> Option<MonthCounts> {
        let key = key(name, unread.month);
        let mut found = [None, None];
        for ((copy, found), is_unread) in self.copies.iter().zip(&mut found).zip(&mut unread.copies) {
            if *is_unread && let Ok(saved) = copy.get(&key, 0) {
                *is_unread = false;
                *found = saved.and_then(|saved| serde_json::from_slice::<MonthCounts>(&saved).ok());
            }
        }
        let largest =
            found.iter().flatten().max_by_key(|counts| (counts.all.tokens(), counts.all.requests))?.clone();
        unread.copies = [false; 2];
        if found.iter().any(|found| found.as_ref() != Some(&largest)) {
            self.write(name, (unread.month, &largest), None, now);
        }
        Some(largest)
    }

    /// Saves counts, which are written to disk later. Leaves out the copies in `unread`, since `counts` does not
    /// include the usage in them.
    pub(super) fn write(
        &self,
        name: &str,
        (month, counts): (Month, &MonthCounts),
        unread: Option<&Unread>,
        now: u64,
    ) {
        let value = Bytes::from(serde_json::to_vec(counts).unwrap_or_default());
        for (number, copy) in self.copies.iter().enumerate() {
            let is_unread = unread
                .is_some_and(|unread| unread.month == month && unread.copies.get(number) == Some(&true));
            if !is_unread {
                copy.put(key(name, month), value.clone(), now);
            }
        }
    }
}

fn key(name: &str, month: Month) -> Key {
    Key::new(owner_of_name(name), &format!("usage/{}", month.name()))
}
