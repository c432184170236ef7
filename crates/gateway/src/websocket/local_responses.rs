//! [`LocalResponses`]: what a connection remembers of its responses, so that the next request can continue one that is
//! not stored.
//!
//! Each lane has its latest response, as OpenAI's servers do. An older one, or one for which there is no memory, is
//! unknown, and the client then sends its conversation again.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::budget::Reservation;
use toolwire_net::store::{Key, Owner};
use toolwire_pipeline::dialect::ClientDialect;

/// The latest response of each lane of a connection.
#[derive(Debug)]
pub(crate) struct LocalResponses {
    /// The latest one is last.
    entries: Mutex<Vec<Entry>>,
    /// Maximum size in bytes of all records.
    max: usize,
}

#[derive(Debug)]
struct Entry {
    lane: Option<String>,
    id: String,
    key: Key,
    value: Bytes,
    /// Counts the record among the bodies of requests.
    _memory: Reservation,
}

impl LocalResponses {
    pub(crate) fn new(max: usize) -> Self {
        Self { entries: Mutex::default(), max }
    }

    /// Returns the record of a response.
    pub(crate) fn get(&self, key: &Key) -> Option<Bytes> {
        self.entries.lock().iter().find(|entry| entry.key == *key).map(|entry| entry.value.clone())
    }

    /// Forgets the response `id` if it is the latest one of `lane`.
    pub(crate) fn forget(&self, lane: Option<&str>, id: &str) {
        self.entries.lock().retain(|entry| entry.lane.as_deref() != lane || entry.id != id);
    }

    fn put(&self, entry: Entry) {
        let mut entries = self.entries.lock();
        entries.retain(|other| other.lane != entry.lane);
        entries.push(entry);
        let mut size: usize = entries.iter().map(|entry| entry.value.len()).sum();
        while size > self.max {
            size -= entries.remove(0).value.len();
        }
    }
}

/// The record of a response that is not complete yet.
#[derive(Debug)]
pub(crate) struct LocalRecord {
    pub(crate) responses: Arc<LocalResponses>,
    pub(crate) dialect: ClientDialect,
    pub(crate) owner: Owner,
    pub(crate) lane: Option<String>,
    /// The input of the request, with its history.
    pub(crate) input: Bytes,
    pub(crate) memory: Reservation,
}

impl LocalRecord {
    /// Remembers the complete `response`, if there is memory for it.
    pub(crate) fn keep(mut self, response: &str) {
        let Some(record) = self.dialect.side().record(&self.input, response) else { return };
        if self.memory.grow(record.value.len()).is_err() {
            return;
        }
        self.responses.put(Entry {
            lane: self.lane,
            key: Key::new(self.owner, &record.id),
            id: record.id,
            value: record.value,
            _memory: self.memory,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    fn keep(
        responses: &Arc<LocalResponses>,
        budget: &Arc<Budget>,
        lane: Option<&str>,
        id: &str,
        size: usize,
    ) {
        let record = LocalRecord {
            responses: Arc::clone(responses),
            dialect: ClientDialect::Responses,
            owner: Owner::default(),
            lane: lane.map(str::to_owned),
            input: Bytes::from(format!("[{}1]", " ".repeat(size))),
            memory: Reservation::new(budget),
        };
        record.keep(&format!(r#"{{"id":"{id}"}}"#));
    }

    fn knows(responses: &LocalResponses, id: &str) -> bool {
        responses.get(&Key::new(Owner::default(), id)).is_some()
    }

    #[test]
    fn each_lane_has_its_latest_response() {
        let (responses, budget) = (Arc::new(LocalResponses::new(1000)), Arc::new(Budget::new(1000)));
        keep(&responses, &budget, None, "resp_1", 0);
        keep(&responses, &budget, Some("a"), "resp_2", 0);
        assert!(knows(&responses, "resp_1") && knows(&responses, "resp_2"));
        assert!(responses.get(&Key::new(Owner::of_key(b"other"), "resp_1")).is_none());
        keep(&responses, &budget, None, "resp_3", 0);
        assert!(!knows(&responses, "resp_1") && knows(&responses, "resp_2") && knows(&responses, "resp_3"));
        responses.forget(None, "resp_2");
        assert!(knows(&responses, "resp_2"), "another lane's response stays");
        responses.forget(Some("a"), "resp_2");
        assert!(!knows(&responses, "resp_2"));
    }

    #[test]
    fn oldest_response_makes_room() {
        let (responses, budget) = (Arc::new(LocalResponses::new(300)), Arc::new(Budget::new(1000)));
        for (lane, id) in [("a", "resp_1"), ("b", "resp_2"), ("c", "resp_3")] {
            keep(&responses, &budget, Some(lane), id, 80);
        }
        assert!(!knows(&responses, "resp_1") && knows(&responses, "resp_2") && knows(&responses, "resp_3"));
        keep(&responses, &budget, Some("d"), "resp_4", 400);
        assert!(!knows(&responses, "resp_3") && !knows(&responses, "resp_4"));
    }

    #[test]
    fn memory_is_taken_from_the_budget_and_given_back() {
        let (responses, budget) = (Arc::new(LocalResponses::new(1000)), Arc::new(Budget::new(300)));
        keep(&responses, &budget, None, "resp_1", 200);
        keep(&responses, &budget, Some("a"), "resp_2", 200);
        assert!(knows(&responses, "resp_1") && !knows(&responses, "resp_2"));
        drop(responses);
        Reservation::new(&budget).grow(300).unwrap();
    }
}
