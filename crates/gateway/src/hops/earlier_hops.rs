//! [`EarlierHops`]: what the earlier hops of a response have added, for a request that goes on after them.

use std::sync::Arc;

use toolwire_execution::HostedTurn;
use toolwire_pipeline::{
    conversation::{Call, Part, Turn},
    event::Event,
};

#[cfg(test)]
use toolwire_pipeline::conversation::{CallOutput, Role};

use super::{AskAgain, shown::shown_again, turns::size_of};

/// What the earlier hops of a response have added to the client's request. Another model that goes on after them needs
/// nothing else of them.
#[derive(Debug, Clone)]
pub(crate) struct EarlierHops {
    /// The number of the hop that follows, from 1.
    pub(super) hop: usize,
    /// Whether hosted tools have run.
    pub(super) has_run: bool,
    /// Parts of the response that the client does not see: the turns of hops that contain only hosted calls, and their
    /// results.
    pub(super) unseen: Vec<Arc<Turn>>,
    /// How many more bytes of images the client may receive in this response.
    pub(super) room: usize,
    /// The turns of all follow-ups so far.
    pub(super) turns: Vec<Arc<Turn>>,
    /// How many of these turns belong to the conversation: those up to the latest results of hosted tools. They are
    /// written like the history, with calls and results in the format taught to the model. Later turns repeat the
    /// model's own text.
    pub(super) conversed: usize,
    /// The name of the upstream that wrote the turns.
    upstream: Option<Arc<str>>,
    /// Number of hops in which the model has searched for tools, and the tools that were found.
    pub(super) searches: (usize, Vec<String>),
    /// The hosted tools and how often they were called, if that counts towards the limits of the response.
    pub(super) hosted: Option<Arc<HostedTurn>>,
    /// Whether a response continues that the client has begun to receive.
    pub(crate) continues: bool,
}

/// Maximum total size of the images in one response to the client, in bytes of base64: half the default of
/// `max_answer`.
const MAX_IMAGES: usize = 32 << 20;

impl EarlierHops {
    /// There are no earlier hops.
    pub(super) fn none() -> Self {
        Self {
            hop: 1,
            has_run: false,
            unseen: Vec::new(),
            room: MAX_IMAGES,
            turns: Vec::new(),
            conversed: 0,
            upstream: None,
            searches: (0, Vec::new()),
            hosted: None,
            continues: false,
        }
    }

    /// The hops as the model of the upstream `name` gets them. State that belongs to another upstream is left out.
    pub(super) fn at(mut self, name: &str) -> Self {
        if self.upstream.as_deref().is_some_and(|upstream| upstream != name) {
            let turns = self.turns.iter_mut().chain(&mut self.unseen);
            turns.for_each(|turn| forget_state(Arc::make_mut(turn)));
        }
        self
    }

    /// The hops before a request that continues the response which the client receives, or begins it anew.
    pub(crate) fn continued(self, continues: bool) -> Self {
        Self { continues, ..self }
    }

    /// Adds the turns of a hop.
    pub(super) fn add(&mut self, turns: &[Turn]) {
        self.turns.extend(turns.iter().cloned().map(Arc::new));
        self.hop += 1;
    }

    /// The turns that follow the client's own: first those that belong to the conversation.
    pub(super) fn turns(&self) -> (&[Arc<Turn>], &[Arc<Turn>]) {
        self.turns.split_at_checked(self.conversed).unwrap_or_default()
    }

    /// Hops whose only turn is the result of a tool.
    #[cfg(test)]
    pub(crate) fn with_result(content: String) -> Self {
        let output = CallOutput { id: String::new(), name: String::new(), content, is_error: false };
        let mut hops = Self { has_run: true, ..Self::none() };
        hops.add(&[Turn::of(Role::Tool, vec![Part::Result(output)])]);
        hops
    }

    /// What a client is told of these calls, which it has approved, unless it continues to receive the same response.
    pub(crate) fn shown_again(&self, approved: &[Call], hosted: &HostedTurn) -> Vec<Event<'static>> {
        if self.continues { Vec::new() } else { shown_again(&self.turns, approved, hosted) }
    }

    /// Approximate size in bytes of the turns.
    pub(crate) fn size(&self) -> usize {
        self.turns.iter().map(|turn| size_of(turn)).sum()
    }

    /// The hosted tools whose calls count towards the limits of the response.
    pub(crate) fn hosted(&self) -> Option<&HostedTurn> {
        self.hosted.as_deref()
    }

    /// The hops as another response to the same request goes on after them.
    pub(crate) fn of_another_response(self) -> Self {
        let (searches, continues) = ((0, self.searches.1), false);
        Self { hop: 1, room: MAX_IMAGES, searches, hosted: None, continues, ..self }
    }
}

impl AskAgain {
    /// The hops so far, if a request of this response contains more than the client's own.
    pub(super) fn hops_so_far(&self) -> Option<EarlierHops> {
        if self.so_far.turns.is_empty() {
            return None;
        }
        let searches = self.searches.as_ref().map(|searches| searches.so_far()).unwrap_or_default();
        let hosted = self.first.hosted.clone().or_else(|| self.so_far.hosted.clone());
        let upstream = Some(self.first.subject.upstream_name().into());
        Some(EarlierHops { searches, hosted, upstream, ..self.so_far.clone() })
    }

    /// Keeps the hops so far if hosted tools have run. Returns whether they are kept.
    pub(super) fn kept(&self) -> bool {
        let keeper = self.first.keeper.as_ref().filter(|_| self.so_far.has_run);
        keeper.zip(self.hops_so_far()).is_some_and(|(keeper, hops)| keeper.keep(hops))
    }
}

/// Removes the state that only the upstream of the model that wrote `turn` understands.
fn forget_state(turn: &mut Turn) {
    turn.parts.retain(|part| !matches!(part, Part::Reasoning { .. }));
    for part in &mut turn.parts {
        if let Part::Call(call) = part {
            call.signature = None;
        }
    }
}
