//! The indexes of recent requests. A conversation sends the same tools with each request, and indexing them takes
//! longer than all else that a search does.

use std::sync::{Arc, LazyLock};

use foldhash::quality::RandomState;
use parking_lot::Mutex;

use toolwire_pipeline::{conversation::Tool, tools::ToolIndex};

/// The most bytes of all indexes together. One with about 1,400 tools takes a megabyte.
const MAX_BYTES: usize = 32 << 20;

/// Allowance for the overhead of one index, which also bounds their number.
const OVERHEAD: usize = 1 << 10;

static INDEXES: LazyLock<IndexCache> = LazyLock::new(|| IndexCache::new(MAX_BYTES));

/// The index of `tools`, which is built unless a recent request had the same tools.
pub(super) fn index_of(tools: &[Tool]) -> Arc<ToolIndex> {
    INDEXES.index_of(tools)
}

/// The size of all indexes in bytes, at most [`MAX_BYTES`].
pub(crate) fn bytes() -> usize {
    INDEXES.recent.lock().iter().map(|(_, index)| index.size() + OVERHEAD).sum()
}

/// The indexes by the hashes of their tools. The seed of the hashes is secret, so that no client can replace the index
/// of another. An index says only which places fit best, so even then it would reveal nothing.
struct IndexCache {
    hasher: RandomState,
    max: usize,
    /// The one that was used last is at the end.
    recent: Mutex<Vec<(u64, Arc<ToolIndex>)>>,
}

impl IndexCache {
    fn new(max: usize) -> Self {
        Self { hasher: RandomState::default(), max, recent: Mutex::default() }
    }

    fn index_of(&self, tools: &[Tool]) -> Arc<ToolIndex> {
        let hash = ToolIndex::hash_of(tools, &self.hasher);
        if let Some(known) = self.known(hash).filter(|known| known.len() == tools.len()) {
            return known;
        }
        // Built without the lock, since other threads must not wait for it.
        let index = Arc::new(ToolIndex::new(tools));
        let mut recent = self.recent.lock();
        recent.retain(|(known, _)| *known != hash);
        recent.push((hash, Arc::clone(&index)));
        let mut room = self.max;
        let fitting = recent.iter().rev().take_while(|(_, index)| {
            let size = index.size() + OVERHEAD;
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        });
        let dropped = recent.len() - fitting.count();
        recent.drain(..dropped);
        index
    }

    fn known(&self, hash: u64) -> Option<Arc<ToolIndex>> {
        let mut recent = self.recent.lock();
        let place = recent.iter().rposition(|(known, _)| *known == hash)?;
        let entry = recent.remove(place);
        let index = Arc::clone(&entry.1);
        recent.push(entry);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(name: &str, count: usize) -> Vec<Tool> {
        (0..count).map(|number| Tool::named(format!("{name}_{number}"))).collect()
    }

    #[test]
    fn equal_tools_share_an_index() {
        let cache = IndexCache::new(MAX_BYTES);
        let first = cache.index_of(&tools("a", 3));
        assert!(Arc::ptr_eq(&first, &cache.index_of(&tools("a", 3))));
        assert!(!Arc::ptr_eq(&first, &cache.index_of(&tools("b", 3))));
        assert!(Arc::ptr_eq(&first, &cache.index_of(&tools("a", 3))));
    }

    #[test]
    fn oldest_indexes_are_dropped_when_the_memory_is_full() {
        let size = IndexCache::new(MAX_BYTES).index_of(&tools("a", 200)).size() + OVERHEAD;
        let cache = IndexCache::new(size * 2 + size / 2);
        let first = cache.index_of(&tools("a", 200));
        cache.index_of(&tools("b", 200));
        cache.index_of(&tools("a", 200));
        cache.index_of(&tools("c", 200));
        assert_eq!(cache.recent.lock().len(), 2);
        assert!(Arc::ptr_eq(&first, &cache.index_of(&tools("a", 200))), "it was used after b");
        // One that does not fit at all is used, but not kept.
        let none = IndexCache::new(10);
        assert_eq!(none.index_of(&tools("a", 2)).len(), 2);
        assert!(none.recent.lock().is_empty());
    }
}
