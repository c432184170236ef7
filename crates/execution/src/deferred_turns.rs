//! [`DeferredTurns`]: turns with both hosted calls and calls that the client runs (`mixed_turns = "defer"`).
//!
//! ```text
//! the model's turn: calls a (hosted), b (the client's) ─▶ the client gets b
//!                                                      └▶ a runs, and its result is stored under the id of b
//! the client's next request: b, result of b ─▶ a, b, result of a, result of b
//! ```
//!
//! The client's history does not contain the hosted calls, so toolwire inserts them into each request whose history
//! contains a client call from such a turn. A record contains the complete turn and whatever toolwire's earlier hops
//! added, which the client has not seen either. Records belong to one client, survive restarts, and expire. A history
//! without a record is valid: it is forwarded unchanged.

pub mod record_json;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    audit::unix_time,
    tool::{ErrorCode, ToolError},
};
use toolwire_net::store::{HeldBytes, Key, NotStored, Owner, Space, Store, StoreError, Stores};
use toolwire_pipeline::conversation::{Call, CallOutput, Conversation, Part, Role, Turn, is_own_id};

/// Lifetime of a record, from the model's turn to the client's next request.
const TTL: Duration = Duration::from_secs(15 * 60);

/// In bytes, for all records together. The oldest are dropped first.
const MAX_BYTES: usize = 64 << 20;

/// How long another instance's announcement of running calls is valid.
const PRESUMED_RUNNING: Duration = Duration::from_secs(15);

/// How often another instance's results are looked up.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Maximum number of call ids that are looked up for one request. Older calls are forwarded as they are.
const MAX_IDS: usize = 512;

/// The turns that have not been completed yet, for all clients.
pub(crate) struct DeferredTurns {
    store: Arc<dyn Store>,
    running: Mutex<HashMap<Id, watch::Receiver<()>>>,
}

/// A client's call: its owner and id.
type Id = (Owner, String);

/// A turn with both kinds of calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    /// The turns of earlier hops, including results.
    pub(crate) before: Vec<Turn>,
    pub(crate) turn: Turn,
    /// The ids of the hosted calls.
    pub(crate) hosted: Vec<String>,
    /// The results that are known so far.
    pub(crate) results: Vec<CallOutput>,
    /// The files in results, with the ids of their calls.
    pub(crate) files: Vec<(String, Part)>,
}

impl Default for Record {
    fn default() -> Self {
        let turn = Turn::of(Role::Assistant, Vec::new());
        Self { before: Vec::new(), turn, hosted: Vec::new(), results: Vec::new(), files: Vec::new() }
    }
}

/// What is stored under the id of a client's call.
#[derive(Debug)]
enum DeferredEntry {
    Record(Record),
    /// The id under which the record is stored. A large record with many client calls is thus stored only once.
    Under(String),
}

/// A record whose hosted calls are running. Dropping it wakes the requests that wait for them.
pub(crate) struct Pending {
    deferred: Arc<DeferredTurns>,
    owner: Owner,
    record: Record,
    _done: watch::Sender<()>,
}

impl DeferredTurns {
    /// Opens the store for records.
    pub(crate) fn new(stores: &Stores) -> Self {
        let on_failure = |values| {
            if let NotStored::Lost(count) = values {
                tracing::warn!(count, "results of hosted tools could not be kept");
            }
        };
        let store = stores.open(Space::Deferred, MAX_BYTES, TTL, Box::new(on_failure));
        Self { store, running: Mutex::default() }
    }

    /// The memory of the store.
    pub(crate) fn held(&self) -> HeldBytes {
        self.store.held()
    }

    /// Stores a record whose hosted calls are about to run.
    pub(crate) fn begin(self: &Arc<Self>, owner: Owner, record: Record) -> Pending {
        let (done, running) = watch::channel(());
        if !record.is_finished() {
            self.put_running(owner, &record);
        }
        self.put(owner, &record);
        self.running.lock().extend(record.client_ids().map(|id| ((owner, id.to_owned()), running.clone())));
        Pending { deferred: Arc::clone(self), owner, record, _done: done }
    }

    /// Completes the turns of `conversation` that have a record. Waits for results until `deadline`. Returns whether a
    /// turn was completed.
    ///
    /// # Errors
    /// The shared store cannot be reached, so it is unknown whether there is a record.
    pub(crate) async fn restore(
        &self,
        conversation: &mut Conversation,
        owner: Owner,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let ids = call_ids(conversation);
        if ids.is_empty() {
            return Ok(false);
        }
        for mut running in self.running_of(&ids, owner) {
            // An error means that the calls have ended.
            let _ = timeout_at(deadline, running.changed()).await;
        }
        let found = loop {
            let (store, ids) = (Arc::clone(&self.store), ids.clone());
            let read = tokio::task::spawn_blocking(move || find(&*store, owner, &ids)).await;
            match read.unwrap_or_else(|_| Ok(Found::default())) {
                Ok(found) if found.is_running && Instant::now() < deadline => sleep(LOOK_AGAIN).await,
                Ok(found) => break found,
                Err(error) if self.store.is_shared() => return Err(error),
                Err(error) => {
                    // The store has already logged that it is unusable.
                    if !error.is_unusable() {
                        tracing::error!(%error, "deferred turns cannot be read");
                    }
                    break Found::default();
                }
            }
        };
        Ok(!found.records.is_empty() && put_back(conversation, &found.records))
    }

    /// Whether `conversation` needs results of calls that are still running, here or on another instance.
    pub(crate) fn is_awaited(&self, conversation: &Conversation, owner: Owner) -> bool {
        if self.store.is_shared() {
            return !call_ids(conversation).is_empty();
        }
        !self.running.lock().is_empty() && !self.running_of(&call_ids(conversation), owner).is_empty()
    }

    /// Returns receivers for the hosted calls in the same turns as the client calls `ids`. They are notified when those
    /// hosted calls have ended.
    fn running_of(&self, ids: &[String], owner: Owner) -> Vec<watch::Receiver<()>> {
        let running = self.running.lock();
        ids.iter().filter_map(|id| running.get(&(owner, id.clone())).cloned()).collect()
    }

    /// Waits until no hosted call of a deferred turn is running.
    pub(crate) async fn settled(&self) {
        let running: Vec<_> = self.running.lock().values().cloned().collect();
        for mut running in running {
            // An error means that the calls have ended.
            let _ = running.changed().await;
        }
    }

    fn put(&self, owner: Owner, record: &Record) {
        let (mut ids, now) = (record.client_ids(), unix_time());
        let Some(first) = ids.next() else { return };
        self.store.put(Key::new(owner, first), Bytes::from(record_json::write(record)), now);
        let under = Bytes::from(record_json::write_under(first));
        ids.for_each(|id| self.store.put(Key::new(owner, id), under.clone(), now));
    }

    /// Announces to other instances that the hosted calls of `record` are running.
    fn put_running(&self, owner: Owner, record: &Record) {
        if let Some(first) = record.client_ids().next().filter(|_| self.store.is_shared()) {
            let (now, key) = (unix_time(), Key::new(owner, &running_key(first)));
            let until = now.saturating_add(PRESUMED_RUNNING.as_secs());
            self.store.put(key, Bytes::copy_from_slice(&until.to_be_bytes()), now);
        }
    }
}

impl fmt::Debug for DeferredTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredTurns").field("running", &self.running.lock().len()).finish_non_exhaustive()
    }
}

impl Pending {
    /// Awaits `running`, and repeats the announcement to other instances in the meantime.
    pub(crate) async fn during<T>(&self, running: impl Future<Output = T>) -> T {
        let mut running = pin!(running);
        loop {
            match timeout(PRESUMED_RUNNING / 3, &mut running).await {
                Ok(ended) => return ended,
                Err(_) => self.deferred.put_running(self.owner, &self.record),
            }
        }
    }

    /// Stores the results. `files` are those in results, with the ids of their calls.
    pub(crate) fn finish(mut self, results: Vec<CallOutput>, files: Vec<(String, Part)>) {
        (self.record.results, self.record.files) = (results, files);
        self.deferred.put(self.owner, &self.record);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut running = self.deferred.running.lock();
        for id in self.record.client_ids() {
            running.remove(&(self.owner, id.to_owned()));
        }
    }
}

impl Record {
    fn client_ids(&self) -> impl Iterator<Item = &str> {
        calls(&self.turn).map(|call| call.id.as_str()).filter(|id| !self.is_hosted(id))
    }

    fn is_finished(&self) -> bool {
        self.hosted.iter().all(|id| self.results.iter().any(|result| result.id == *id))
    }

    fn is_hosted(&self, id: &str) -> bool {
        self.hosted.iter().any(|hosted| hosted == id)
    }

    /// The result of a hosted call. It is lost if toolwire was stopped during the call.
    fn result(&self, call: &Call) -> CallOutput {
        let known = self.results.iter().find(|result| result.id == call.id).cloned();
        known.unwrap_or_else(|| {
            let error = ToolError::new(ErrorCode::Cancelled, "The call was stopped before it had a result.");
            CallOutput {
                id: call.id.clone(),
                name: call.name.clone(),
                content: error.content(&call.name),
                is_error: true,
            }
        })
    }
}

#[derive(Debug, Default)]
struct Found {
    /// By the ids of the client's calls.
    records: HashMap<String, Arc<Record>>,
    /// Whether another instance is running calls of one of the records.
    is_running: bool,
}

/// Looks up the records for the calls `ids`.
fn find(store: &dyn Store, owner: Owner, ids: &[String]) -> Result<Found, StoreError> {
    let now = unix_time();
    let read = |ids: &[String]| {
        let keys: Vec<_> = ids.iter().map(|id| Key::new(owner, id)).collect();
        let values = store.get_all(&keys, now)?.into_iter();
        Ok::<_, StoreError>(values.map(|value| record_json::read(&value?)).collect::<Vec<_>>())
    };
    let (mut records, mut firsts) = (Vec::new(), Vec::new());
    for entry in read(ids)?.into_iter().flatten() {
        match entry {
            DeferredEntry::Record(record) => records.push(record),
            DeferredEntry::Under(first) => firsts.push(first),
        }
    }
    // A record is written before the ids that refer to it. If the read above found an id but missed its record, because
    // another instance was just writing both, the second read below finds the record.
    let known: HashSet<&str> = records.iter().flat_map(Record::client_ids).collect();
    firsts.retain(|first| !known.contains(first.as_str()));
    firsts.sort_unstable();
    firsts.dedup();
    let others = if firsts.is_empty() { Vec::new() } else { read(&firsts)? };
    records.extend(others.into_iter().flatten().filter_map(|entry| match entry {
        DeferredEntry::Record(record) => Some(record),
        DeferredEntry::Under(_) => None,
    }));
    let unfinished = records.iter().filter(|record| store.is_shared() && !record.is_finished());
    let firsts = unfinished.filter_map(|record| record.client_ids().next());
    let keys: Vec<_> = firsts.map(|first| Key::new(owner, &running_key(first))).collect();
    let running = if keys.is_empty() { Vec::new() } else { store.get_all(&keys, now)? };
    let is_later =
        |until: &Bytes| <[u8; 8]>::try_from(&**until).is_ok_and(|until| u64::from_be_bytes(until) > now);
    let mut found = Found { is_running: running.iter().flatten().any(is_later), ..Found::default() };
    for record in records {
        let record = Arc::new(record);
        let ids: Vec<_> = record.client_ids().map(str::to_owned).collect();
        found.records.extend(ids.into_iter().map(|id| (id, Arc::clone(&record))));
    }
    Ok(found)
}

/// The key of the announcement that calls are running. It differs from the id of any call.
fn running_key(first: &str) -> String {
    format!("{first}\0running")
}

fn calls(turn: &Turn) -> impl Iterator<Item = &Call> {
    turn.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    })
}

fn result_id(part: &Part) -> Option<&str> {
    match part {
        Part::Result(output) => Some(&output.id),
        _ => None,
    }
}

/// The ids of the most recent calls in the history.
fn call_ids(conversation: &Conversation) -> Vec<String> {
    let turns = conversation.turns.iter().rev().filter(|turn| turn.role == Role::Assistant);
    let calls = turns.flat_map(calls).filter(|call| !is_own_id(&call.id));
    calls.map(|call| call.id.clone()).take(MAX_IDS).collect()
}

/// Completes the turns that have a record. `records` is keyed by the ids of client calls. Returns whether a turn was
/// completed.
fn put_back(conversation: &mut Conversation, records: &HashMap<String, Arc<Record>>) -> bool {
    let mut turns = std::mem::take(&mut conversation.turns).into_iter().peekable();
    let (mut done, mut is_changed) = (Vec::new(), false);
    while let Some(first) = turns.next() {
        // Calls that the client had to approve are in no record.
        if first.role != Role::Assistant || first.begins_with_approval() {
            done.push(first);
            continue;
        }
        // Some clients replay one response as several turns.
        let mut run = vec![first];
        // Results between these turns are also in the record.
        let goes_on = |turn: &Turn| {
            !turn.begins_with_approval() && (turn.role == Role::Assistant || turn.is_own_result())
        };
        while let Some(more) = turns.next_if(goes_on) {
            run.push(more);
        }
        let client_calls = || run.iter().flat_map(calls).filter(|call| !is_own_id(&call.id));
        let ids: HashSet<String> = client_calls().map(|call| call.id.clone()).collect();
        let record = run.iter().flat_map(calls).find_map(|call| records.get(&call.id));
        let is_whole = |record: &&Arc<Record>| ids.iter().all(|id| record.client_ids().any(|own| own == id));
        let Some(record) = record.filter(is_whole) else {
            done.append(&mut run);
            continue;
        };
        is_changed = true;
        let mut answers = Vec::new();
        while let Some(more) = turns.next_if(|turn| turn.role != Role::Assistant) {
            answers.push(more);
        }
        complete(record, &ids, answers, &mut done);
    }
    conversation.turns = done;
    is_changed
}

/// Appends the turns of `record` to `done`. Of the client's calls, includes only those in `ids`. The results follow in
/// the order of the calls, then any other parts that the client sent.
fn complete(record: &Record, ids: &HashSet<String>, answers: Vec<Turn>, done: &mut Vec<Turn>) {
    let mut turn = record.turn.clone();
    turn.parts.retain(|part| match part {
        Part::Call(call) => record.is_hosted(&call.id) || ids.contains(&call.id),
        _ => true,
    });
    let mut results: HashMap<String, Turn> = HashMap::new();
    let mut rest = Vec::new();
    for mut answer in answers {
        let own = |part: &Part| result_id(part).is_some_and(|id| ids.contains(id));
        if !answer.parts.iter().any(own) {
            rest.push(answer);
            continue;
        }
        let is_one = answer.parts.iter().filter(|part| result_id(part).is_some()).count() == 1;
        if let Some(id) =
            answer.parts.iter().find_map(result_id).filter(|_| is_one && answer.role == Role::Tool)
        {
            results.insert(id.to_owned(), answer);
            continue;
        }
        let (own, others): (Vec<_>, Vec<_>) = answer.parts.into_iter().partition(own);
        for part in own {
            let id = result_id(&part).unwrap_or_default().to_owned();
            results.insert(id, Turn::of(Role::Tool, vec![part]));
        }
        if !others.is_empty() {
            answer.parts = others;
            answer.rest.remove("content");
            rest.push(answer);
        }
    }
    let hosted = |call: &Call| {
        let files = record.files.iter().filter(|(id, _)| *id == call.id).map(|(_, file)| file.clone());
        Turn::of(Role::Tool, std::iter::once(Part::Result(record.result(call))).chain(files).collect())
    };
    let in_order = calls(&turn).filter_map(|call| match record.is_hosted(&call.id) {
        true => Some(hosted(call)),
        false => results.remove(&call.id),
    });
    let in_order: Vec<_> = in_order.collect();
    done.extend(record.before.iter().cloned());
    done.push(turn);
    done.extend(in_order);
    done.append(&mut rest);
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tasks end with the runtime of their test")]
mod tests;
