//! [`TurnStates`]: state that upstreams need back with their turns. It is stored until clients replay the calls of
//! those turns.
//!
//! State belongs to the client whose response contained it and to the upstream that sent it; it is never sent to
//! another upstream or on behalf of another client. It is stored in memory, for a limited time and up to a total size
//! for all clients. A client that fills the memory displaces its own oldest state rather than that of others. If
//! instances share a store, or there is a folder for it, the state is written there too, and state that an instance
//! does not have is fetched from there.
//!
//! Models that are taught a format have such state as well: their turns as they wrote them.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{task::spawn_blocking, time::Instant};

use super::{large, stamp::unix_time, stored_responses};
use toolwire_config::{Model, ToolStyle};
use toolwire_execution::record_json;
use toolwire_net::store::{self, HeldBytes, Key, NotStored, Space, Store, Stores};
use toolwire_pipeline::{
    conversation::{Conversation, KeptState, TurnState},
    failure::Failure,
};

/// Maximum number of calls looked up in the store for one request.
const MAX_FETCHED: usize = 512;

/// Estimated overhead of a record in bytes, which also limits the number of records.
const OVERHEAD: usize = 256;

#[derive(Debug)]
pub(super) struct TurnStates {
    memory: Arc<Mutex<Memory>>,
    /// Maximum size of all records in bytes, and how long each is stored. `ttl` is `None` if nothing is stored.
    max_bytes: usize,
    ttl: Option<Duration>,
    /// The store that instances share, or that outlives this process, if there is one.
    store: Option<Arc<dyn Store>>,
}

/// The client and upstream to which state belongs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Owner {
    client: store::Owner,
    upstream: Box<str>,
}

#[derive(Debug, Default)]
struct Memory {
    owners: HashMap<Owner, Shelf>,
    bytes: usize,
    next: u64,
}

#[derive(Debug, Default)]
struct Shelf {
    /// By number. Later records have higher numbers.
    records: BTreeMap<u64, Record>,
    /// Numbers of the records, by call id and then by the hash of the turn that the call answered.
    index: HashMap<Box<str>, HashMap<u64, u64>>,
    bytes: usize,
}

#[derive(Debug)]
struct Record {
    state: Arc<TurnState>,
    /// See [`Conversation::answered_turn`].
    answered: u64,
    since: Instant,
    bytes: usize,
}

/// The state of one client at one upstream, as used for one request and its response.
#[derive(Debug, Clone)]
pub(super) struct OwnStates {
    states: Arc<TurnStates>,
    owner: Owner,
    kept: KeptState,
}

#[derive(Debug)]
pub(super) struct Keeper {
    states: OwnStates,
    /// Where the state is written besides memory.
    store: Option<Arc<dyn Store>>,
    answered: u64,
}

impl TurnStates {
    pub(super) fn new(max_bytes: usize, ttl: Option<Duration>, stores: &Stores) -> Self {
        let on_failure = |values| {
            if let NotStored::Lost(count) = values {
                tracing::warn!(count, "state of turns could not be stored");
            }
        };
        let lasts = ttl.filter(|_| stores.are_lasting());
        let store = lasts.map(|ttl| stores.open(Space::TurnStates, max_bytes, ttl, Box::new(on_failure)));
        Self { memory: Arc::default(), max_bytes, ttl, store }
    }

    pub(super) fn with_limits(&self, max_bytes: usize, ttl: Option<Duration>) -> Self {
        Self { memory: Arc::clone(&self.memory), max_bytes, ttl, store: self.store.clone() }
    }

    /// The size of all records in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.memory.lock().bytes
    }

    /// The memory of the store to which records are written as well.
    pub(super) fn held_by_store(&self) -> HeldBytes {
        self.store.as_ref().map(|store| store.held()).unwrap_or_default()
    }

    /// Returns the state of `client` for requests to `model`. `None` if there is no such state or nothing is stored.
    pub(super) fn of_model(self: &Arc<Self>, client: store::Owner, model: &Model) -> Option<OwnStates> {
        let kept = model.kept_state()?;
        match model.tools {
            ToolStyle::Native => self.of(client, &model.upstream.name, kept),
            // A turn in one format must not stand in the prompt of a model that is taught another one.
            ToolStyle::Format(format) => {
                let (upstream, prefix) = (&model.upstream.name, &model.settings.tool_prefix);
                self.of(client, &format!("{upstream}\0{}\0{prefix}", format.name), kept)
            }
        }
    }

    /// Returns the state of `client` at `upstream`. `None` if nothing is stored.
    fn of(self: &Arc<Self>, client: store::Owner, upstream: &str, kept: KeptState) -> Option<OwnStates> {
        self.ttl?;
        let owner = Owner { client, upstream: upstream.into() };
        Some(OwnStates { states: Arc::clone(self), owner, kept })
    }
}

impl OwnStates {
    /// Puts known state back into the history of `conversation`.
    pub(super) fn restore(&self, conversation: &mut Conversation) {
        let Some(ttl) = self.states.ttl else { return };
        if !self.states.memory.lock().owners.contains_key(&self.owner) {
            return;
        }
        // The memory is locked separately for each call: a conversation may be long, and other threads may be waiting
        // for the lock.
        conversation.restore(|id, answered| {
            let memory = self.states.memory.lock();
            let shelf = memory.owners.get(&self.owner)?;
            let record = shelf.records.get(&shelf.find(id, answered)?)?;
            (record.since.elapsed() < ttl).then(|| Arc::clone(&record.state))
        });
    }

    /// Fetches state for calls in the history of `conversation` from the store, unless this instance has that
    /// state already.
    ///
    /// # Errors
    /// If the store is shared and unreachable.
    pub(super) async fn fetch(&self, conversation: &mut Conversation, is_large: bool) -> Result<(), Failure> {
        let Some(store) = self.states.store.clone() else { return Ok(()) };
        let unknown = if is_large {
            let (own, mut taken) = (self.clone(), mem::take(conversation));
            let find = move || {
                let unknown = own.unknown(&mut taken);
                (taken, unknown)
            };
            let (taken, unknown) = large::apart(find).await?;
            *conversation = taken;
            unknown
        } else {
            self.unknown(conversation)
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let is_shared = store.is_shared();
        let keys: Vec<_> = unknown.iter().map(|(id, answered)| self.key(id, *answered)).collect();
        let now = unix_time();
        let read = spawn_blocking(move || store.get_all(&keys, now)).await;
        let read = match read.unwrap_or_else(|_| Ok(Vec::new())) {
            Err(error) if is_shared => return Err(stored_responses::away(&error)),
            // Without the file there is less state, as without a folder.
            read => read.unwrap_or_default(),
        };
        for ((id, answered), value) in unknown.into_iter().zip(read) {
            // All calls of a turn share one state.
            let is_new = |states: &TurnStates| {
                !states.memory.lock().owners.get(&self.owner).is_some_and(|shelf| shelf.knows(&id, answered))
            };
            if let Some(value) = value.filter(|_| is_new(&self.states))
                && let Some(state) = record_json::read_state(&value)
            {
                self.keep_here(state, answered);
            }
        }
        Ok(())
    }

    /// Returns those calls in the history of `conversation` whose state this instance does not have, with the hashes of
    /// the turns that they answered.
    fn unknown(&self, conversation: &mut Conversation) -> Vec<(String, u64)> {
        let mut unknown = Vec::new();
        // Visits each call without putting anything back.
        conversation.restore(|id, answered| {
            let is_known = |memory: &Memory| {
                memory.owners.get(&self.owner).is_some_and(|shelf| shelf.knows(id, answered))
            };
            if unknown.len() < MAX_FETCHED && !is_known(&self.states.memory.lock()) {
                unknown.push((id.to_owned(), answered));
            }
            None
        });
        unknown
    }

    fn key(&self, id: &str, answered: u64) -> Key {
        Key::new(self.owner.client, &format!("{}\0{id}\0{answered:016x}", self.owner.upstream))
    }

    /// Stores `state` in memory, and removes records that are too old or do not fit.
    fn keep_here(&self, state: TurnState, answered: u64) {
        let Self { states, owner, .. } = self;
        let Some(ttl) = states.ttl else { return };
        // Each id occurs in the record and in the index.
        let ids: usize = state.calls.iter().map(|(id, _)| id.len()).sum();
        let bytes = state.size() + ids + OVERHEAD * (1 + state.calls.len());
        if bytes > states.max_bytes {
            return;
        }
        let record = Record { state: Arc::new(state), answered, since: Instant::now(), bytes };
        let mut memory = states.memory.lock();
        memory.remove_old(ttl);
        memory.insert(owner, record);
        while memory.bytes > states.max_bytes && memory.remove_of_largest() {}
    }

    /// Returns what stores the state of the response to `conversation`. `is_declined` says that the client asked for
    /// nothing to be stored: such state is not written to a file.
    pub(super) fn keeper(self, conversation: &Conversation, is_declined: bool) -> Keeper {
        let store = self.states.store.clone().filter(|store| store.is_shared() || !is_declined);
        Keeper { answered: conversation.answered_turn(), store, states: self }
    }
}

impl Keeper {
    pub(super) fn kept(&self) -> KeptState {
        self.states.kept
    }

    pub(super) fn keep(&self, state: TurnState) {
        let own = &self.states;
        if let Some(store) = &self.store {
            let (value, now) = (Bytes::from(record_json::write_state(&state)), unix_time());
            let keys = state.calls.iter().map(|(id, _)| own.key(id, self.answered));
            keys.for_each(|key| store.put(key, value.clone(), now));
        }
        own.keep_here(state, self.answered);
    }
}

impl Memory {
    fn insert(&mut self, owner: &Owner, record: Record) {
        let number = self.next;
        self.next += 1;
        self.bytes += record.bytes;
        if !self.owners.contains_key(owner) {
            self.owners.insert(owner.clone(), Shelf::default());
        }
        if let Some(shelf) = self.owners.get_mut(owner) {
            shelf.insert(number, record);
        }
    }

    /// Removes records older than `ttl`. Each shelf is sorted by age, so hardly any other records are examined.
    fn remove_old(&mut self, ttl: Duration) {
        for shelf in self.owners.values_mut() {
            while shelf.oldest().is_some_and(|record| record.since.elapsed() >= ttl) {
                self.bytes = self.bytes.saturating_sub(shelf.remove_oldest());
            }
        }
        self.owners.retain(|_, shelf| !shelf.records.is_empty());
    }

    /// Removes the oldest record of the client with the most bytes. Returns `false` if there are no records.
    fn remove_of_largest(&mut self) -> bool {
        let largest = self.owners.values_mut().max_by_key(|shelf| shelf.bytes);
        let removed = largest.map_or(0, Shelf::remove_oldest);
        self.bytes = self.bytes.saturating_sub(removed);
        removed > 0
    }
}

impl Shelf {
    fn insert(&mut self, number: u64, record: Record) {
        self.bytes += record.bytes;
        for (id, _) in &record.state.calls {
            self.index.entry(id.as_str().into()).or_default().insert(record.answered, number);
        }
        self.records.insert(number, record);
    }

    /// Whether there is a record of the call `id` in a response to the turn with the hash `answered`.
    fn knows(&self, id: &str, answered: u64) -> bool {
        self.index.get(id).is_some_and(|known| known.contains_key(&answered))
    }

    /// Finds the record of the call `id` in a response to the same turn, or else the only record of a call with this
    /// id. Clients may resend the turn in a changed form. With several records, choosing one would be a guess.
    fn find(&self, id: &str, answered: u64) -> Option<u64> {
        let known = self.index.get(id)?;
        let only = || if known.len() == 1 { known.values().next() } else { None };
        known.get(&answered).or_else(only).copied()
    }

    fn oldest(&self) -> Option<&Record> {
        self.records.first_key_value().map(|(_, record)| record)
    }

    fn remove_oldest(&mut self) -> usize {
        let Some((number, record)) = self.records.pop_first() else { return 0 };
        for (id, _) in &record.state.calls {
            let Some(known) = self.index.get_mut(id.as_str()) else { continue };
            if known.get(&record.answered) == Some(&number) {
                known.remove(&record.answered);
            }
            if known.is_empty() {
                self.index.remove(id.as_str());
            }
        }
        self.bytes = self.bytes.saturating_sub(record.bytes);
        record.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolwire_pipeline::conversation::{Call, Part, Role, Turn, WantsBack};

    const KEPT: KeptState = KeptState::WantedBack(WantsBack::Reasoning);

    const HOUR: Duration = Duration::from_secs(3600);

    fn client(key: &str) -> store::Owner {
        store::Owner::of_key(key.as_bytes())
    }

    fn own(states: &Arc<TurnStates>, key: &str, upstream: &str) -> OwnStates {
        states.of(client(key), upstream, KEPT).unwrap()
    }

    fn question(text: &str) -> Conversation {
        Conversation { turns: vec![Turn::text(Role::User, text)], ..Conversation::default() }
    }

    fn reasoning(text: &str) -> Part {
        Part::Reasoning { text: text.to_owned(), signature: None, redacted: false }
    }

    fn keep(own: &OwnStates, asked: &str, id: &str, text: &str) {
        let state = TurnState { reasoning: vec![reasoning(text)], calls: vec![(id.to_owned(), None)] };
        own.clone().keeper(&question(asked), false).keep(state);
    }

    /// Returns the reasoning restored to a response to `asked` that contains the call `id`.
    fn restored(own: &OwnStates, asked: &str, id: &str) -> Option<String> {
        let mut conversation = question(asked);
        let call = Part::Call(Call::new(id, "f", "{}"));
        conversation.turns.push(Turn::of(Role::Assistant, vec![call]));
        own.restore(&mut conversation);
        match conversation.turns[1].parts.first() {
            Some(Part::Reasoning { text, .. }) => Some(text.clone()),
            _ => None,
        }
    }

    #[test]
    fn state_is_only_for_its_client_and_its_upstream() {
        let states = Arc::new(TurnStates::new(1 << 20, Some(HOUR), &Stores::in_folder(None)));
        let alice = own(&states, "alice", "up");
        keep(&alice, "hi", "c1", "hm");
        assert_eq!(restored(&alice, "hi", "c1").as_deref(), Some("hm"));
        assert_eq!(restored(&alice, "hi", "c2"), None);
        for other in [own(&states, "bob", "up"), own(&states, "alice", "up2")] {
            assert_eq!(restored(&other, "hi", "c1"), None);
        }
        let nobody = states.of(store::Owner::default(), "up", KEPT).unwrap();
        assert_eq!(restored(&nobody, "hi", "c1"), None);
    }

    #[test]
    fn state_that_a_client_declines_to_store_is_only_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let stores = Stores::in_folder(Some(folder.path().to_owned()));
        let states = Arc::new(TurnStates::new(1 << 20, Some(HOUR), &stores));
        let own = own(&states, "a", "up");
        for (id, is_declined) in [("c1", false), ("c2", true)] {
            let call = (id.to_owned(), None);
            let state = TurnState { reasoning: vec![reasoning("hm")], calls: vec![call] };
            own.clone().keeper(&question("hi"), is_declined).keep(state);
            assert_eq!(restored(&own, "hi", id).as_deref(), Some("hm"));
            let key = own.key(id, question("hi").answered_turn());
            let stored = states.store.as_ref().unwrap().get_all(&[key], unix_time()).unwrap();
            assert_eq!(stored[0].is_some(), !is_declined, "{id}");
        }
    }

    #[test]
    fn ids_that_several_conversations_have_are_told_apart() {
        let states = Arc::new(TurnStates::new(1 << 20, Some(HOUR), &Stores::in_folder(None)));
        let own = own(&states, "a", "up");
        keep(&own, "one", "functions.f:0", "first");
        assert_eq!(restored(&own, "changed by the client", "functions.f:0").as_deref(), Some("first"));
        keep(&own, "two", "functions.f:0", "second");
        assert_eq!(restored(&own, "one", "functions.f:0").as_deref(), Some("first"));
        assert_eq!(restored(&own, "two", "functions.f:0").as_deref(), Some("second"));
        assert_eq!(restored(&own, "three", "functions.f:0"), None);
        keep(&own, "two", "functions.f:0", "again");
        assert_eq!(restored(&own, "two", "functions.f:0").as_deref(), Some("again"));
    }

    #[test]
    fn a_client_that_fills_the_memory_displaces_its_own_state() {
        let states = Arc::new(TurnStates::new(64 << 10, Some(HOUR), &Stores::in_folder(None)));
        let (quiet, loud) = (own(&states, "quiet", "up"), own(&states, "loud", "up"));
        keep(&quiet, "hi", "c", "kept");
        for number in 0..1000 {
            keep(&loud, "hi", &format!("c{number}"), &"x".repeat(1000));
            assert!(states.memory.lock().bytes <= 64 << 10);
        }
        assert_eq!(restored(&quiet, "hi", "c").as_deref(), Some("kept"));
        assert_eq!(restored(&loud, "hi", "c0"), None);
        assert!(restored(&loud, "hi", "c999").is_some());
        let memory = states.memory.lock();
        for shelf in memory.owners.values() {
            assert_eq!(shelf.index.len(), shelf.records.len());
            assert_eq!(shelf.bytes, shelf.records.values().map(|record| record.bytes).sum::<usize>());
        }
        assert_eq!(memory.bytes, memory.owners.values().map(|shelf| shelf.bytes).sum::<usize>());
    }

    #[test]
    fn records_without_text_are_limited_too() {
        let states = Arc::new(TurnStates::new(64 << 10, Some(HOUR), &Stores::in_folder(None)));
        let own = own(&states, "a", "up");
        for number in 0..10_000 {
            keep(&own, "hi", &number.to_string(), "");
        }
        assert!(states.memory.lock().owners.values().all(|shelf| shelf.records.len() <= 128));
        keep(&own, "hi", &"i".repeat(1 << 20), "too large");
        assert!(restored(&own, "hi", "9999").is_some(), "one that is too large displaces nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn old_state_is_forgotten() {
        let states = Arc::new(TurnStates::new(1 << 20, Some(HOUR), &Stores::in_folder(None)));
        let own = own(&states, "a", "up");
        keep(&own, "hi", "c", "hm");
        tokio::time::advance(HOUR.checked_sub(Duration::from_millis(1)).unwrap()).await;
        assert!(restored(&own, "hi", "c").is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(restored(&own, "hi", "c"), None);
        keep(&own, "hi", "d", "hm");
        assert_eq!(states.memory.lock().owners.values().map(|shelf| shelf.records.len()).sum::<usize>(), 1);
    }

    #[test]
    fn nothing_is_kept_without_a_lifetime() {
        let off = Arc::new(TurnStates::new(1 << 20, None, &Stores::in_folder(None)));
        assert!(off.of(store::Owner::default(), "up", KEPT).is_none());
    }
}
