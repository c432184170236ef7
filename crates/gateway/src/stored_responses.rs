//! [`Responses`]: the stored responses of all clients. [`ResponseKeeper`]: stores a response once it is complete.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::Method;
use tokio::task::spawn_blocking;

use super::{large, websocket::LocalResponses};
use crate::observe::{Metrics, untrusted_text::clip};
use toolwire_config::{Config, StoreKind};
use toolwire_net::store::{HeldBytes, Key, NotStored, Owner, Space, Store, StoreError, Stores};
use toolwire_pipeline::{
    dialect::{ClientDialect, StoredOperation},
    failure::{Failure, Kind},
};

/// Maximum number of responses to whose items a request may refer.
const MAX_REFERENCES: usize = 256;

#[derive(Debug, Clone)]
pub(super) struct Responses {
    /// `None` if nothing is stored.
    store: Option<Arc<dyn Store>>,
    /// Maximum size in bytes of a request including its history.
    max_body: usize,
}

impl Responses {
    pub(super) fn new(config: &Config, stores: &Stores, metrics: &Metrics) -> Self {
        let open = || {
            let failures = metrics.store_failures();
            let on_failure = Box::new(move |values: NotStored| _ = failures.inc_by(values.count()));
            stores.open(Space::Responses, config.limits.max_store, config.limits.store_ttl, on_failure)
        };
        let store = (config.store != StoreKind::Off).then(open);
        Self { store, max_body: config.limits.max_body }
    }

    /// Returns the same responses with another maximum size for requests.
    pub(super) fn with_max_body(&self, max_body: usize) -> Self {
        Self { store: self.store.clone(), max_body }
    }

    /// The memory of the store.
    pub(super) fn held(&self) -> HeldBytes {
        self.store.as_ref().map(|store| store.held()).unwrap_or_default()
    }

    /// Adds the history to which the request `body` refers. Responses that the client's connection remembers are in
    /// `local`.
    ///
    /// # Errors
    /// If a response is not stored, belongs to another client, or cannot be read.
    pub(super) async fn with_history(
        &self,
        dialect: ClientDialect,
        owner: Owner,
        body: Bytes,
        local: Option<&LocalResponses>,
        now: u64,
    ) -> Result<Bytes, Failure> {
        if !dialect.side().may_refer(&body) {
            return Ok(body);
        }
        let references = if large::is_large(body.len()) {
            let body = body.clone();
            large::apart(move || dialect.side().references(&body)).await?
        } else {
            dialect.side().references(&body)
        };
        // Without a store, only an upstream can hold a conversation, which encoding the request will show.
        if references.is_empty() || references.is_held && self.store.is_none() {
            return Ok(body);
        }
        if references.others.len() > MAX_REFERENCES {
            let message =
                format!("`input` names items of more than {MAX_REFERENCES} stored responses; send the items");
            return Err(Failure::new(Kind::Request, message).with_param("input"));
        }
        let keys = references.ids().map(|id| Key::new(owner, id)).collect();
        let max = self.max_body;
        let too_large = || {
            let message =
                format!("the request with its stored history is larger than {max} bytes (`limits.max_body`)");
            Failure::new(Kind::TooLarge, message)
        };
        let records = self.records(keys, local, now).await?.ok_or_else(too_large)?;
        let size = records.iter().flatten().map(Bytes::len).sum::<usize>() + body.len();
        let join = move || dialect.side().with_history(&body, &references, &records);
        let whole = if large::is_large(size) { large::apart(join).await?? } else { join()? };
        if whole.len() > max { Err(too_large()) } else { Ok(whole) }
    }

    /// Returns the records of these responses. `None` if they are too large for a request.
    async fn records(
        &self,
        keys: Vec<Key>,
        local: Option<&LocalResponses>,
        now: u64,
    ) -> Result<Option<Vec<Option<Bytes>>>, Failure> {
        let known: Vec<_> = keys.iter().map(|key| local.and_then(|local| local.get(key))).collect();
        if known.iter().all(Option::is_some) {
            return Ok(Some(known));
        }
        let (max, unstored) = (self.max_body, known.clone());
        let records = self.read(move |store| {
            let mut bytes = 0;
            let mut records = Vec::with_capacity(keys.len());
            for (key, known) in keys.iter().zip(known) {
                let record = match known {
                    Some(record) => Some(record),
                    None => find(store, key, now)?,
                };
                bytes += record.as_ref().map_or(0, Bytes::len);
                // Checked before all records are loaded into memory.
                if bytes > max.saturating_mul(RECORDS_PER_BODY) {
                    return Ok(None);
                }
                records.push(record);
            }
            Ok(Some(records))
        });
        Ok(records.await?.unwrap_or(Some(unstored)))
    }

    /// Returns the stored response `id`, or its input, as `query` asks for it.
    ///
    /// # Errors
    /// [`Kind::NotFound`], or if the store cannot be read, or the request cannot be fulfilled.
    pub(super) async fn find(
        &self,
        dialect: ClientDialect,
        owner: Owner,
        id: &str,
        operation: StoredOperation,
        query: Option<&str>,
        now: u64,
    ) -> Result<Bytes, Failure> {
        if asks_stream(query) {
            return Err(not_streamed());
        }
        let key = Key::new(owner, id);
        let record = self.read(move |store| find(store, &key, now)).await?.flatten();
        let shown = record.and_then(|record| match operation {
            StoredOperation::Input => dialect.side().stored_input(&record),
            _ => dialect.side().stored_response(&record, query),
        });
        match shown {
            Some(_) if operation == StoredOperation::Cancel => Err(has_ended(id)),
            Some(shown) => Ok(shown),
            None => Err(not_found(id)),
        }
    }

    /// Deletes the stored response `id`. Returns what to respond.
    ///
    /// # Errors
    /// [`Kind::NotFound`], or if the store cannot be written.
    pub(super) async fn delete(
        &self,
        dialect: ClientDialect,
        owner: Owner,
        id: &str,
        now: u64,
    ) -> Result<Bytes, Failure> {
        let key = Key::new(owner, id);
        match self.read(move |store| known(store.remove(&key, now).map(Some))).await?.flatten() {
            Some(true) => Ok(dialect.side().deleted(id).to_string().into()),
            Some(false) | None => Err(not_found(id)),
        }
    }

    /// Creates the keeper for the response to a request with this `input`. `None` if nothing is stored.
    pub(super) fn keeper(
        &self,
        dialect: ClientDialect,
        owner: Owner,
        input: RecordInput,
        now: u64,
    ) -> Option<ResponseKeeper> {
        let store = Arc::clone(self.store.as_ref()?);
        Some(ResponseKeeper { store, dialect, owner, input, now })
    }

    /// Uses the store on a thread for blocking work. `None` if there is no store.
    async fn read<T: Send + 'static>(
        &self,
        act: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        let Some(store) = self.store.clone() else { return Ok(None) };
        let is_shared = store.is_shared();
        let failed = |error: &dyn fmt::Display, message| {
            tracing::error!(%error, "the store of responses failed");
            Failure::new(Kind::StoreAway, message).with_retry_after("2")
        };
        match spawn_blocking(move || act(&*store)).await {
            Ok(Ok(read)) => Ok(Some(read)),
            Ok(Err(error)) if is_shared => Err(away(&error)),
            Ok(Err(error)) if error.is_busy() => Err(failed(&error, BUSY)),
            Ok(Err(error)) => Err(failed(&error, BROKEN)),
            Err(error) => Err(failed(&error, BROKEN)),
        }
    }
}

const BUSY: &str = "another process holds the stored responses of this server, so that they cannot be read; try again in a moment";

const BROKEN: &str = "the stored responses cannot be read; try again in a moment";

/// Returns the failure of a request that needs the shared store while it is unreachable.
pub(super) fn away(error: &StoreError) -> Failure {
    tracing::warn!(%error, "a request needs the store, which is away");
    let message = "the store of this server cannot be reached, and the request depends on what is kept there; try again in a moment";
    Failure::new(Kind::StoreAway, message).with_retry_after("2")
}

/// Returns the value of `key`. If it is missing, looks again after a pause, since another instance may be about to
/// write it: a client can be faster than the store.
fn find(store: &dyn Store, key: &Key, now: u64) -> Result<Option<Bytes>, StoreError> {
    let found = known(store.get(key, now))?;
    if found.is_some() || !store.is_shared() {
        return Ok(found);
    }
    std::thread::sleep(SECOND_LOOK);
    store.get(key, now)
}

/// Treats a file that cannot be opened as empty, since nothing that this server stored is in it.
fn known<T>(read: Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(error) if error.is_unusable() => Ok(None),
        read => read,
    }
}

/// How long to wait before looking again.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// How many times larger records may be than the part of them that a request uses.
const RECORDS_PER_BODY: usize = 4;

/// Whether the query of a request for a stored response asks for a stream.
fn asks_stream(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair.eq_ignore_ascii_case("stream=true")))
}

fn not_streamed() -> Failure {
    let message = "a stored response is not streamed; leave `stream` out";
    Failure::new(Kind::Request, message).with_param("stream")
}

/// Maximum number of bytes of an id in an error message.
const MAX_SHOWN: usize = 128;

fn not_found(id: &str) -> Failure {
    let message = format!("there is no stored response `{}`", clip(id, MAX_SHOWN));
    Failure::new(Kind::NotFound, message).with_param("id")
}

fn has_ended(id: &str) -> Failure {
    let message = format!("the response `{}` has ended, so it cannot be canceled", clip(id, MAX_SHOWN));
    Failure::new(Kind::Request, message).with_param("id")
}

pub(super) const DELETE: Method = Method::DELETE;

/// The input of a request, including its history.
#[derive(Debug)]
pub(super) enum RecordInput {
    /// Inside the body of a request.
    In(Bytes),
    /// The input itself, as returned by
    /// [`ClientSide::record_input`](toolwire_pipeline::dialect::ClientSide::record_input).
    Found(Bytes),
}

#[derive(Debug)]
pub(super) struct ResponseKeeper {
    store: Arc<dyn Store>,
    dialect: ClientDialect,
    owner: Owner,
    input: RecordInput,
    /// When the request arrived, as Unix time in seconds.
    now: u64,
}

impl ResponseKeeper {
    /// Stores `response`, which can be continued immediately. It is written to disk later.
    pub(super) fn keep(&self, response: &str) {
        let side = self.dialect.side();
        let record = match &self.input {
            RecordInput::In(body) => side.record_input(body).and_then(|input| side.record(&input, response)),
            RecordInput::Found(input) => side.record(input, response),
        };
        if let Some(record) = record {
            self.store.put(Key::new(self.owner, &record.id), record.value, self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::large::{LARGE, tests::MOVED};

    const DIALECT: ClientDialect = ClientDialect::Responses;

    fn responses() -> Responses {
        let store = Stores::in_folder(None).open(
            Space::Responses,
            1 << 30,
            Duration::from_secs(60),
            Box::new(|_| ()),
        );
        Responses { store: Some(store), max_body: 1 << 30 }
    }

    fn body(size: usize, more: Value) -> Bytes {
        let mut body = json!({"model": "m", "input": [{"role": "user", "content": ""}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let missing = size.saturating_sub(body.to_string().len());
        body["input"][0]["content"] = "x".repeat(missing).into();
        Bytes::from(body.to_string())
    }

    /// Returns the request with its history, and how many times work was moved to another thread.
    async fn joined(responses: &Responses, dialect: ClientDialect, body: &Bytes) -> (Value, usize) {
        let before = MOVED.get();
        let whole = responses.with_history(dialect, Owner::default(), body.clone(), None, 1).await.unwrap();
        (serde_json::from_slice(&whole).unwrap(), MOVED.get() - before)
    }

    #[tokio::test]
    async fn history_of_large_requests_is_found_and_joined_apart() {
        let responses = responses();
        let written = |body: &Bytes| serde_json::from_slice::<Value>(body).unwrap();
        for (dialect, size, moved) in
            [(DIALECT, LARGE - 1, 0), (DIALECT, LARGE, 1), (ClientDialect::Chat, LARGE, 0)]
        {
            let body = body(size, json!({}));
            assert_eq!(joined(&responses, dialect, &body).await, (written(&body), moved), "{size}");
        }
        // The size of the stored history counts as well.
        for (stored, size, moved) in [(1000, 1000, 0), (LARGE, 1000, 1), (1000, LARGE, 2)] {
            let stored = body(stored, json!({}));
            let response = r#"{"id":"resp_1","output":[{"type":"message","content":"said"}]}"#;
            let inputs = [
                RecordInput::In(stored.clone()),
                RecordInput::Found(DIALECT.side().record_input(&stored).unwrap()),
            ];
            for input in inputs {
                responses.keeper(DIALECT, Owner::default(), input, 1).unwrap().keep(response);
                let next = body(size, json!({"previous_response_id": "resp_1"}));
                let (whole, times) = joined(&responses, DIALECT, &next).await;
                let said = json!({"type": "message", "content": "said"});
                let items = [&written(&stored)["input"][0], &said, &written(&next)["input"][0]];
                assert_eq!((&whole["input"], times), (&json!(items), moved), "{size}");
            }
        }
    }
}
