//! [`Catalogue`]: the models of an upstream, as it lists them itself.
//!
//! A list is asked for when a client wants one, by one request at a time, and kept for a while. An upstream that gives
//! none costs nothing but its entries: what was known before stays, and it is asked again soon.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio::{sync::Mutex, time::Instant};

use super::upstream::Listing;
use crate::config::Upstream;

/// How long a list is taken to be true.
const FRESH: Duration = Duration::from_secs(60);

/// How long an upstream that gave no list is left alone.
const PAUSE: Duration = Duration::from_secs(5);

/// A model as the upstream describes it: an object with an `id` that is not empty.
pub(super) type Entry = Map<String, Value>;

/// See the module. Shared by all threads.
#[derive(Debug)]
pub(super) struct Catalogue {
    listing: Listing,
    upstream: Arc<Upstream>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    entries: Arc<Vec<Entry>>,
    /// Not asked before; `None` if it was never asked.
    until: Option<Instant>,
    /// The last answer was no list, which has been logged.
    is_failing: bool,
}

impl Catalogue {
    /// The catalogue of `upstream`; `None` if its dialect has none.
    ///
    /// # Errors
    /// If no request to the upstream can be written.
    pub(super) fn new(upstream: &Arc<Upstream>) -> Result<Option<Self>, http::Error> {
        let listing = Listing::new(upstream)?;
        let upstream = Arc::clone(upstream);
        Ok(listing.map(|listing| Self { listing, upstream, known: Mutex::default() }))
    }

    /// The upstream whose models these are.
    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// The models, as far as they are known. Whoever comes while the upstream is asked waits for the same answer; if
    /// the one who asks goes away, the next one asks.
    pub(super) async fn entries(&self) -> Arc<Vec<Entry>> {
        let mut known = self.known.lock().await;
        if known.until.is_none_or(|until| until <= Instant::now()) {
            match self.listing.fetch().await.and_then(|body| read(&body)) {
                Ok(entries) => *known = Known { entries: Arc::new(entries), ..Known::default() },
                Err(reason) => {
                    if !known.is_failing {
                        let upstream = self.upstream.name.as_str();
                        tracing::warn!(upstream, reason, "the upstream does not list its models");
                    }
                    known.is_failing = true;
                }
            }
            known.until = Some(Instant::now() + if known.is_failing { PAUSE } else { FRESH });
        }
        Arc::clone(&known.entries)
    }
}

/// The models of a list, each once: `{"data": […]}` as OpenAI has it; some servers send the bare array, or say `models`.
fn read(body: &[u8]) -> Result<Vec<Entry>, String> {
    let list = match serde_json::from_slice(body).map_err(|error| format!("no JSON: {error}"))? {
        Value::Array(list) => Some(list),
        Value::Object(mut answer) => {
            let mut array = |name| match answer.remove(name) {
                Some(Value::Array(list)) => Some(list),
                _ => None,
            };
            array("data").or_else(|| array("models"))
        }
        _ => None,
    };
    let mut seen = HashSet::new();
    let entries = list.ok_or("JSON without a list of models")?.into_iter().filter_map(|entry| match entry {
        Value::Object(entry) => {
            let is_new = id(&entry).is_some_and(|id| seen.insert(id.to_owned()));
            is_new.then_some(entry)
        }
        _ => None,
    });
    Ok(entries.collect())
}

/// What clients ask for to get the model.
pub(super) fn id(entry: &Entry) -> Option<&str> {
    entry.get("id").and_then(Value::as_str).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(body: &str) -> Result<Vec<String>, String> {
        Ok(read(body.as_bytes())?.iter().filter_map(id).map(str::to_owned).collect())
    }

    #[test]
    fn lists_are_read_in_the_forms_that_servers_have() {
        let listed = Ok(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(ids(r#"{"object":"list","data":[{"id":"a"},{"id":"b"},{"id":"a"}]}"#), listed);
        assert_eq!(ids(r#"[{"id":"a"},{"id":""},{"id":7},7,{"id":"b"}]"#), listed);
        assert_eq!(ids(r#"{"models":[{"id":"a"},{"id":"b"}],"data":null}"#), listed);
        assert_eq!(ids(r#"{"data":[]}"#), Ok(Vec::new()));
        for wrong in ["", "<html>", "7", "{}", r#"{"data":{}}"#, r#"{"error":{"message":"no"}}"#] {
            assert!(ids(wrong).is_err(), "{wrong}");
        }
    }
}
