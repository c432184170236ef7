//! [`Catalogue`]: an upstream's list of its models.
//!
//! The list is fetched on demand, by one request at a time, and cached for a while. If the upstream returns no list,
//! the previous entries are used, and the upstream is soon asked again.

use std::{collections::HashSet, sync::Arc, time::Duration};

use http::StatusCode;
use serde_json::{Map, Value};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::Instant,
};

use super::upstream::{GetError, Listing};
use toolwire_config::Upstream;
use toolwire_pipeline::{
    dialect::Dialect,
    failure::{Failure, Kind},
};

/// How long a list is cached.
const FRESH: Duration = Duration::from_secs(60);

/// How long to wait before asking again after an upstream returned no list.
const PAUSE: Duration = Duration::from_secs(5);

/// A model as its upstream describes it: an object with a non-empty `id`.
pub(super) type Entry = Map<String, Value>;

/// An upstream's list of models, shared by all threads.
#[derive(Debug)]
pub(super) struct Catalogue {
    listing: Listing,
    upstream: Arc<Upstream>,
    cached: Mutex<CachedModels>,
}

#[derive(Debug, Default)]
struct CachedModels {
    entries: Arc<Vec<Entry>>,
    /// When the upstream may be asked again. `None` if it was never asked.
    until: Option<Instant>,
    /// Why the last response was not a list. Only the first such response is logged.
    error: Option<Arc<CatalogueError>>,
}

/// What is known of an upstream's models.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Those of the last list, even if there is an error.
    pub(super) entries: Arc<Vec<Entry>>,
    /// Why the list could not be renewed.
    pub(super) error: Option<Arc<CatalogueError>>,
}

impl Catalogue {
    /// Creates the catalogue of `upstream`. `None` if its dialect has no list of models.
    ///
    /// # Errors
    /// If no request can be built for the upstream.
    pub(super) fn new(upstream: &Arc<Upstream>) -> Result<Option<Self>, http::Error> {
        let listing = Listing::new(upstream)?;
        let upstream = Arc::clone(upstream);
        Ok(listing.map(|listing| Self { listing, upstream, cached: Mutex::default() }))
    }

    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Returns the models that are known. Concurrent callers share one request; if the caller that sends it is dropped,
    /// the next one sends it again.
    pub(super) async fn listed(&self) -> Listed {
        let cached = self.refreshed().await;
        Listed { entries: Arc::clone(&cached.entries), error: cached.error.clone() }
    }

    /// Whether the upstream answers and accepts its key. An upstream may answer without having a list.
    pub(super) async fn answers(&self) -> bool {
        !self.refreshed().await.error.as_ref().is_some_and(|error| error.is_of_server())
    }

    async fn refreshed(&self) -> MutexGuard<'_, CachedModels> {
        let mut cached = self.cached.lock().await;
        if cached.until.is_none_or(|until| until <= Instant::now()) {
            let body = self.listing.fetch().await.map_err(CatalogueError::from);
            match body.and_then(|body| read(&body, self.upstream.dialect())) {
                Ok(entries) => {
                    *cached = CachedModels { entries: Arc::new(entries), ..CachedModels::default() }
                }
                Err(error) => {
                    if cached.error.is_none() {
                        let (upstream, reason) = (self.upstream.name.as_str(), error.to_string());
                        tracing::warn!(upstream, reason, "the upstream does not list its models");
                    }
                    cached.error = Some(Arc::new(error));
                }
            }
            cached.until = Some(Instant::now() + if cached.error.is_some() { PAUSE } else { FRESH });
        }
        cached
    }
}

/// Why an upstream's list of models is not available.
#[derive(Debug, thiserror::Error)]
pub(super) enum CatalogueError {
    #[error(transparent)]
    Get(#[from] GetError),
    #[error("no JSON: {0}")]
    NoJson(#[from] serde_json::Error),
    #[error("JSON without a list of models")]
    NoList,
    #[error("a list whose entries do not name models")]
    NoNames,
}

impl CatalogueError {
    /// Whether other requests to the server would fail, too.
    fn is_of_server(&self) -> bool {
        match self {
            Self::Get(GetError::Status(status)) => {
                status.is_server_error() || [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(status)
            }
            Self::Get(_) | Self::NoJson(_) => true,
            Self::NoList | Self::NoNames => false,
        }
    }

    /// The response to a client that asks for the models of `upstream` when none is known.
    pub(super) fn failure(&self, upstream: &str) -> Failure {
        let kind = match self {
            Self::Get(GetError::NoAnswer(_)) => Kind::Connect,
            Self::Get(GetError::Status(_)) => Kind::Upstream,
            Self::Get(GetError::Answer(_)) | Self::NoJson(_) | Self::NoList | Self::NoNames => Kind::Protocol,
        };
        Failure::new(kind, format!("upstream `{upstream}` does not list its models: {self}"))
    }
}

/// Parses a list of models and removes duplicates. OpenAI's form is `{"data": […]}`; some servers return a bare array,
/// and Gemini and Ollama name the member `models`.
///
/// # Errors
/// If `body` is not a list of models as servers of `dialect` send it.
pub(super) fn read(body: &[u8], dialect: Dialect) -> Result<Vec<Entry>, CatalogueError> {
    let list = match serde_json::from_slice(body)? {
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
    let list = list.ok_or(CatalogueError::NoList)?;
    let is_empty = list.is_empty();
    let mut seen = HashSet::new();
    let entries = list.into_iter().filter_map(|entry| match entry {
        Value::Object(entry) => {
            let entry = with_id(entry, dialect);
            let is_new = id(&entry).is_some_and(|id| seen.insert(id.to_owned()));
            is_new.then_some(entry)
        }
        _ => None,
    });
    let entries: Vec<Entry> = entries.collect();
    match entries.is_empty() && !is_empty {
        true => Err(CatalogueError::NoNames),
        false => Ok(entries),
    }
}

/// Adds the `id` that the entry would have in OpenAI's list. In Google's list, `name` is `models/NAME`
/// (docs/protocols/gemini.md#models); in Ollama's, it is the model's name (docs/protocols/ollama.md#models).
fn with_id(mut entry: Entry, dialect: Dialect) -> Entry {
    let name = entry.get("name").and_then(Value::as_str);
    let id = match dialect {
        Dialect::Gemini | Dialect::Interactions => name.and_then(|name| name.strip_prefix("models/")),
        Dialect::Ollama if !entry.contains_key("id") => name,
        _ => return entry,
    };
    let id = id.map_or(Value::Null, Value::from);
    entry.insert("id".to_owned(), id);
    entry
}

/// The name by which clients request the model.
pub(super) fn id(entry: &Entry) -> Option<&str> {
    entry.get("id").and_then(Value::as_str).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(body: &str) -> Option<Vec<String>> {
        ids_of(body, Dialect::Chat)
    }

    fn ids_of(body: &str, dialect: Dialect) -> Option<Vec<String>> {
        let entries = read(body.as_bytes(), dialect).ok()?;
        Some(entries.iter().filter_map(id).map(str::to_owned).collect())
    }

    #[test]
    fn lists_are_read_in_every_known_form() {
        let listed = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(ids(r#"{"object":"list","data":[{"id":"a"},{"id":"b"},{"id":"a"}]}"#), listed);
        assert_eq!(ids(r#"[{"id":"a"},{"id":""},{"id":7},7,{"id":"b"}]"#), listed);
        assert_eq!(ids(r#"{"models":[{"id":"a"},{"id":"b"}],"data":null}"#), listed);
        assert_eq!(ids(r#"{"data":[]}"#), Some(Vec::new()));
        for wrong in ["", "<html>", "7", "{}", r#"{"data":{}}"#, r#"{"error":{"message":"no"}}"#] {
            assert!(ids(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn the_list_of_another_dialect_is_rejected() {
        let gemini = r#"{"models":[{"name":"models/a"},{"name":"models/b"},{"name":"c"}]}"#;
        let ollama = r#"{"models":[{"name":"a","model":"a"},{"name":"b","model":"b"}]}"#;
        let openai = r#"{"data":[{"id":"a"},{"id":"b"}]}"#;
        let listed = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(ids_of(gemini, Dialect::Gemini), listed);
        for body in [ollama, openai] {
            assert_eq!(ids_of(body, Dialect::Ollama), listed);
            assert!(ids_of(body, Dialect::Gemini).is_none(), "{body}");
        }
        assert!(ids(gemini).is_none() && ids(ollama).is_none());
    }
}
