//! The searches for tools in one response.

use std::sync::Arc;

use super::super::{
    large::{self, Apart},
    tool_search::{Found, Searching},
};
use toolwire_pipeline::{
    conversation::{Call, Conversation, ToolChoice},
    dialect::ClientDialect,
    event::Event,
};

/// The hops of a response in which the model may search. In the next one, it must do without.
const MAX_ROUNDS: usize = 8;

/// The searches of a response.
#[derive(Debug)]
pub(super) struct Searches {
    searching: Arc<Searching>,
    /// The request for which they were offered.
    conversation: Arc<Conversation>,
    /// Number of hops in which the model has searched.
    rounds: usize,
    /// The tools that were found, in order.
    found: Vec<String>,
    /// The calls that are running.
    running: Vec<Call>,
}

impl Searches {
    /// `so_far` are the searches of earlier hops: their number, and what they found.
    pub(super) fn new(
        searching: Arc<Searching>,
        conversation: Arc<Conversation>,
        (rounds, found): (usize, Vec<String>),
    ) -> Self {
        Self { searching, conversation, rounds, found, running: Vec::new() }
    }

    /// Removes the searches from `calls` and starts them. `None` if there are none.
    pub(super) fn start(&mut self, calls: &mut Vec<Call>) -> Option<Apart<Vec<Found>>> {
        let searches: Vec<_> = calls.extract_if(.., |call| self.searching.is_search(&call.name)).collect();
        if searches.is_empty() {
            return None;
        }
        self.rounds += 1;
        self.running.clone_from(&searches);
        let (searching, conversation) = (Arc::clone(&self.searching), Arc::clone(&self.conversation));
        let mut known = self.found.clone();
        let run = move || {
            let run = |call: &Call| {
                let found = searching.run(call, &conversation, &known);
                known.extend(found.names.iter().cloned());
                found
            };
            searches.iter().map(run).collect::<Vec<_>>()
        };
        match large::is_large(self.conversation.size()) {
            true => Some(large::apart(run)),
            false => {
                let mut run = run;
                let found = run();
                Some(Box::pin(async move { Ok(found) }))
            }
        }
    }

    /// Takes what the searches have found. Returns the events for the client.
    pub(super) fn ended(&mut self, client: ClientDialect, found: &[Found]) -> Vec<Event<'static>> {
        for name in found.iter().flat_map(|found| &found.names) {
            if !self.found.contains(name) {
                self.found.push(name.clone());
            }
        }
        let running = std::mem::take(&mut self.running);
        let shown = running
            .iter()
            .zip(found)
            .filter_map(|(call, found)| self.searching.shown(client, call, found, &self.conversation));
        shown.collect()
    }

    /// Whether the model searches by this name.
    pub(super) fn is_search(&self, name: &str) -> bool {
        self.searching.is_search(name)
    }

    /// Whether the client sees the searches, and sends them back.
    pub(super) fn are_seen(&self) -> bool {
        self.searching.is_declared()
    }

    /// The number of hops in which the model has searched, and what it found.
    pub(super) fn so_far(&self) -> (usize, Vec<String>) {
        (self.rounds, self.found.clone())
    }

    /// Whether the model has searched.
    pub(super) fn has_begun(&self) -> bool {
        self.rounds > 0 || !self.found.is_empty()
    }

    /// Whether the model may not search again.
    pub(super) fn are_exhausted(&self) -> bool {
        self.rounds >= MAX_ROUNDS
    }

    /// Adapts the next request: the model is also shown what was found.
    pub(super) fn apply(&self, conversation: &mut Conversation) {
        if !self.has_begun() {
            return;
        }
        // The search that the client required has been made.
        if matches!(&conversation.tool_choice, ToolChoice::Named(name) if self.searching.is_search(name)) {
            conversation.tool_choice = ToolChoice::Auto;
        }
        let Some(shown) = &mut conversation.deferral.shown else { return };
        for name in &self.found {
            if !shown.contains(name) {
                shown.push(name.clone());
            }
        }
        if self.are_exhausted() {
            shown.retain(|name| !self.searching.is_search(name));
        }
    }
}
