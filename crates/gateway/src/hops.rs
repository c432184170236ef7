//! Decides how a response continues when an upstream's response ends but is not the last.
//!
//! ```text
//! Pipeline: HopEnded ─FollowUp─▶ DecideHop ─▶ a future ─Continuation─▶ the next upstream request, or the end
//! ```
//!
//! The future may take as long as it needs. Meanwhile, the client receives keep-alives, `total_timeout` applies, and
//! the slot at the upstream is free for other requests. If the client disconnects, the future is dropped.

mod continuation;
mod earlier_hops;
mod first_request;
mod kept_hops;
mod refusals;
mod searches;
mod shown;
mod turns;

use std::{
    borrow::Cow,
    fmt,
    future::ready,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::StatusCode;
use serde_json::Value;

use toolwire_execution::{HostedTurn, Ran, Visibility};
use toolwire_pipeline::{
    conversation::{Call, Conversation, Part, TOOL_MEDIA, ToolMedia, Turn},
    dialect::{ModelFacts, Observed, Reader, UpstreamRequest, refused_member, refuses_roles},
    event::{Event, Media, Warning},
    failure::Failure,
    pipeline::{DeferredTurn, FollowUp, Reason, Tally},
    wire::digest::Digest,
};

pub(super) use self::{
    continuation::{Continuation, NextHop, Results},
    earlier_hops::EarlierHops,
    first_request::{Asked, FirstRequest},
    kept_hops::{HopKeeper, KeptHops},
};
use self::{
    refusals::may_mean_a_constraint,
    searches::Searches,
    shown::{announced, lined, outcome, told},
    turns::{after_calls, make_objects, results},
};
use super::{
    exchange::{self, Encoded},
    upstream_capabilities::{Kind, of_tools},
};

/// Decides how a response continues. Used only for models whose rules allow several hops.
pub(super) trait DecideHop: fmt::Debug + Send {
    /// Called after each hop that is not the last. The next hop begins when the future is ready.
    fn decide(&mut self, follow_up: FollowUp) -> Deciding;

    /// Returns events for the client to receive while the decision is pending.
    fn announced(&self) -> Vec<Event<'static>> {
        Vec::new()
    }

    /// Returns further events for the client while the decision is pending, as soon as there are some.
    fn poll_announced(&self, _cx: &Context<'_>) -> Poll<Vec<Event<'static>>> {
        Poll::Pending
    }

    /// Called when the response is complete but contains hosted calls that are to run for the client's next request.
    fn deferred(&mut self, _turn: DeferredTurn) {}

    /// Called when a decision has returned [`Continuation::Ran`].
    fn ran(&mut self, _results: Results) -> Continuation {
        Continuation::End(None)
    }

    /// Called when the upstream has refused a hop's request with `status` and `body`. Returns whether to send another
    /// request for the hop; otherwise the response fails.
    fn refused(&mut self, _status: StatusCode, _body: &[u8]) -> bool {
        false
    }

    /// Builds the request for the latest decision or refusal, and a reader for its response. This takes as long as it
    /// did for the first request, so it may be called on another thread.
    ///
    /// # Errors
    /// Only errors that the first request could have caused.
    fn make(&mut self) -> Result<(UpstreamRequest, Reader), Failure>;

    /// Called when the upstream has accepted a hop's request.
    fn accepted(&mut self) {}

    /// Whether decisions may be needed after the first request is accepted.
    fn is_needed(&self) -> bool {
        true
    }

    fn completed(&mut self, _tally: &Tally) {}

    /// The turns of earlier hops.
    fn turns(&self) -> &[Arc<Turn>] {
        &[]
    }

    /// Whether hosted tools have run in earlier hops.
    fn has_run_tools(&self) -> bool {
        false
    }

    /// The calls to hosted tools and their results, for an error that the client receives in place of the response.
    /// Empty if clients do not see such calls.
    fn told(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Called when the response has failed. Returns whether the results of hosted tools are kept, so that they do not run
    /// again if the client repeats its request.
    fn keep(&self) -> bool {
        false
    }

    /// Returns what another model needs to go on with the current hop. `None` if that is only the client's request.
    fn earlier_hops(&self) -> Option<EarlierHops> {
        None
    }
}

/// A pending decision.
///
/// # Errors
/// If the response fails.
pub(super) type Deciding = Pin<Box<dyn Future<Output = Result<Continuation, Failure>> + Send>>;

/// Asks the model again: immediately because of the text that it wrote, or with the results of hosted tools once they
/// have run.
#[derive(Debug)]
pub(super) struct AskAgain {
    first: FirstRequest,
    so_far: EarlierHops,
    /// The hop whose hosted calls are running.
    running: Option<FollowUp>,
    searches: Option<Box<Searches>>,
    /// Whether hosted tools were offered to the model in the current hop.
    had_hosted: bool,
    /// The constraint that the latest request uses.
    constrained: Option<Kind>,
    /// Constraints in requests that the upstream refused during this response. If it accepts a request without them,
    /// they caused the refusal.
    dropped: Vec<Kind>,
    /// Digest of the tools in the latest request that was built here.
    tools: Option<Digest>,
    /// Whether some messages of the last request may be joined.
    may_join: bool,
    /// Whether messages are joined since the upstream has refused a request because of its messages' roles.
    joins: bool,
    /// The members of the last request that could be left out.
    dispensable: Vec<&'static str>,
    /// Whether the last request has files that hosted tools have returned.
    has_tool_media: bool,
    /// Whether these files are left out since the upstream has refused a request with them.
    leaves_out_media: bool,
    /// Members that are left out since the upstream has refused a request because of them.
    left_out: Vec<&'static str>,
    /// Whether the upstream has accepted a request without these members.
    has_learned: bool,
}

/// Maximum number of members that are left out of one response's requests because the upstream refused them.
const MAX_LEFT_OUT: usize = 4;

impl AskAgain {
    /// Creates the object that makes the decisions for the response to this request.
    pub(super) fn new(mut first: FirstRequest) -> Self {
        let so_far = match first.earlier.take() {
            Some(earlier) => earlier.at(first.subject.upstream_name()),
            None => EarlierHops::none(),
        };
        let searches = match (first.searching.take(), &first.asked) {
            (Some(searching), Asked::Conversation(conversation)) => {
                Some(Box::new(Searches::new(searching, Arc::clone(conversation), so_far.searches.clone())))
            }
            _ => None,
        };
        Self {
            so_far,
            running: None,
            searches,
            had_hosted: true,
            constrained: first.constrained,
            dropped: Vec::new(),
            tools: None,
            may_join: first.may_join,
            joins: false,
            dispensable: std::mem::take(&mut first.dispensable),
            has_tool_media: first.has_tool_media,
            leaves_out_media: false,
            left_out: Vec::new(),
            has_learned: false,
            first,
        }
    }

    /// Builds the request for the upstream, which is the client's request with all follow-ups, and a reader for its
    /// response.
    ///
    /// # Errors
    /// Only errors that the first request could have caused.
    fn request(&mut self) -> Result<(UpstreamRequest, Reader), Failure> {
        let mut conversation = self.conversation()?;
        if let Some(searches) = &self.searches {
            searches.apply(&mut conversation);
        }
        if let Some(hosted) = self.first.hosted.as_ref().filter(|_| self.so_far.has_run) {
            after_calls(&mut conversation, hosted);
            self.had_hosted = hosted.exhausted_limit().is_none();
        }
        let (conversed, repeated) = self.so_far.turns();
        for turn in conversed {
            match self.is_approved(turn) {
                true => conversation.add_approved(Turn::clone(turn)),
                false => conversation.turns.push(Turn::clone(turn)),
            }
        }
        let model = exchange::model(&self.first.config, self.first.dialect, &conversation)?;
        let mut known = self.first.capabilities.about(model, &conversation, self.first.subject.owner);
        if self.joins {
            let strict = Observed { strict_roles: true, ..Observed::default() };
            known.options = Cow::Owned(known.options.into_owned().observing(strict));
        }
        known.refused.extend(&self.left_out);
        if self.leaves_out_media || known.refused.contains(&TOOL_MEDIA) {
            ToolMedia::leave_out(&mut conversation.turns);
        }
        self.has_tool_media = ToolMedia::are_in(&conversation.turns);
        self.tools = (!self.dropped.is_empty()).then(|| of_tools(&conversation));
        let means = self.dropped.iter().fold(known.means, |means, kind| kind.removed_from(means));
        let mut sent =
            exchange::sent(model, &conversation, self.first.dialect.dialect(), &means, self.first.now)?;
        if !repeated.is_empty() {
            sent.to_mut().turns.extend(repeated.iter().map(|turn| Turn::clone(turn)));
        }
        let Encoded { request, .. } = exchange::encode(model, &known, &mut sent, self.first.now)?;
        let request = exchange::encrypted(&known.options, request)?;
        self.may_join = !self.joins && known.options.side().may_join(&sent.turns);
        self.dispensable = ModelFacts::dispensable(&sent);
        self.constrained = sent.constraint.as_ref().map(Kind::of);
        Ok((request, exchange::reader(model, self.first.dialect)))
    }

    /// Returns the client's request with toolwire's additions.
    fn conversation(&self) -> Result<Conversation, Failure> {
        match &self.first.asked {
            Asked::Conversation(conversation) => Ok(Conversation::clone(conversation)),
            Asked::Body(body, states) => {
                let mut conversation = exchange::decode(self.first.dialect, body)?;
                if let Some(states) = states {
                    states.restore(&mut conversation);
                }
                // The model has no hosted tools.
                let model = exchange::model(&self.first.config, self.first.dialect, &conversation)?;
                conversation.settle_own_calls(|name| exchange::upstream_tool(model, name));
                Ok(*conversation)
            }
        }
    }

    /// Whether the turn consists of calls that the client has approved.
    fn is_approved(&self, turn: &Turn) -> bool {
        matches!(turn.parts.first(), Some(Part::Call(call)) if self.first.approved.contains(&call.id))
    }

    /// Whether the call waits for the client's approval.
    fn is_waiting(&self, call: &Call) -> bool {
        let hosted = self.first.hosted.as_ref().filter(|_| !self.first.approved.contains(&call.id));
        hosted.is_some_and(|hosted| hosted.approval_request(call).is_some())
    }

    fn is_search(&self, call: &Call) -> bool {
        self.searches.as_ref().is_some_and(|searches| searches.is_search(&call.name))
    }

    /// The limit that forbids these calls, since it had been reached before the model made them. A limit that has been
    /// reached in the meantime is reported to the model as a result, and the model gets another hop to answer without
    /// tools.
    fn reached_limit(&self, calls: &[Call]) -> Option<&'static str> {
        if calls.iter().all(|call| self.is_search(call)) {
            return self.searches.as_ref().filter(|searches| searches.are_exhausted()).map(|_| "tool_search");
        }
        let Some(hosted) = &self.first.hosted else { return Some("execution") };
        hosted.exhausted_limit().filter(|_| !self.had_hosted)
    }

    /// Runs hosted calls. Returns their results and the images for the client.
    fn run(
        &self,
        hosted: Arc<HostedTurn>,
        calls: Vec<Call>,
    ) -> impl Future<Output = (Vec<Ran>, Vec<Media<'static>>)> + Send + use<> {
        let running = hosted.run_in(self.so_far.hop, calls);
        let is_item =
            hosted.visibility() == Visibility::Items && self.first.dialect.side().shows_generated_images();
        let shows = is_item.then_some((hosted, self.so_far.room));
        async {
            let ran = running.await;
            let images = match shows {
                Some((hosted, room)) => hosted.images(&ran, room).await,
                None => Vec::new(),
            };
            (ran, images)
        }
    }

    fn ask(&mut self, turns: Vec<Turn>, shown: Vec<Event<'static>>) -> Continuation {
        self.so_far.add(&turns);
        Continuation::Ask(NextHop { turns, shown })
    }
}

impl DecideHop for AskAgain {
    fn decide(&mut self, follow_up: FollowUp) -> Deciding {
        if !matches!(follow_up.reason, Reason::Hosted | Reason::ToolSearch) {
            return Box::pin(ready(Ok(self.ask(follow_up.turns, Vec::new()))));
        }
        let mut calls = follow_up.hosted.clone();
        if let Some(limit) = self.reached_limit(&calls) {
            let message = format!(
                "the model called tools of the server although `{limit}` was reached; those calls were not run"
            );
            let warning = Warning { code: "hosted_calls_exhausted", message: Cow::Owned(message) };
            return Box::pin(ready(Ok(Continuation::End(Some(warning)))));
        }
        let searching = self.searches.as_mut().and_then(|searches| searches.start(&mut calls));
        calls.retain(|call| !self.is_waiting(call));
        let hosted = self.first.hosted.clone().filter(|_| !calls.is_empty());
        let running = hosted.map(|hosted| self.run(hosted, calls));
        self.running = Some(follow_up);
        Box::pin(async {
            let found = match searching {
                Some(searching) => searching.await?,
                None => Vec::new(),
            };
            let (ran, images) = match running {
                Some(running) => running.await,
                None => Default::default(),
            };
            Ok(Continuation::Ran(Results { ran, images, found }))
        })
    }

    fn ran(&mut self, Results { ran, images, found }: Results) -> Continuation {
        self.so_far.room =
            images.iter().fold(self.so_far.room, |room, image| room.saturating_sub(image.data.len()));
        let Some(FollowUp { mut turns, is_last, hosted: calls, .. }) = self.running.take() else {
            return Continuation::End(None);
        };
        let is_last = is_last || calls.iter().any(|call| self.is_waiting(call));
        let searches = self.searches.as_deref_mut();
        let are_seen = searches.as_ref().is_some_and(|searches| searches.are_seen());
        let mut shown = searches.map_or_else(Vec::new, |searches| searches.ended(self.first.dialect, &found));
        if is_last {
            if let Some(hosted) = &self.first.hosted {
                shown.extend(outcome(&ran, images, |ran| hosted.visibility_of(&ran.output.name)));
            }
            return Continuation::EndWith(shown);
        }
        self.so_far.has_run |= !ran.is_empty();
        let found = found.iter().map(|found| (&found.output, Vec::new()));
        let outputs: Vec<_> = ran.iter().map(|ran| (&ran.output, ran.files())).chain(found).collect();
        turns.iter_mut().for_each(|turn| {
            make_objects(turn, |call| outputs.iter().any(|(output, _)| output.id == call.id));
        });
        let results = results(&turns, &outputs);
        turns.extend(results);
        if let Some(hosted) = &self.first.hosted {
            shown.extend(outcome(&ran, images, |ran| hosted.visibility_of(&ran.output.name)));
        }
        let before = self.so_far.turns.len();
        let continuation = self.ask(turns, shown);
        let EarlierHops { turns, unseen, conversed, .. } = &mut self.so_far;
        *conversed = turns.len();
        // The client sends back what it has seen.
        if !ran.is_empty() || !are_seen {
            unseen.extend(turns.iter().skip(before).cloned());
        }
        continuation
    }

    fn announced(&self) -> Vec<Event<'static>> {
        let Some(hosted) = &self.first.hosted else { return Vec::new() };
        let running = self.running.iter().flat_map(|running| &running.hosted);
        announced(running.filter(|call| !self.is_search(call)), hosted, &self.first.approved)
    }

    fn poll_announced(&self, cx: &Context<'_>) -> Poll<Vec<Event<'static>>> {
        let Some(hosted) = &self.first.hosted else { return Poll::Pending };
        let lines = hosted.poll_reports(cx);
        lines.map(|lines| lined(lines.iter().map(String::as_str)).into_iter().collect())
    }

    fn deferred(&mut self, mut turn: DeferredTurn) {
        let DeferredTurn { turn: calls, hosted } = &mut turn;
        make_objects(calls, |call| hosted.iter().any(|hosted| hosted.id == call.id));
        if let Some(hosted) = &self.first.hosted {
            let unseen = std::mem::take(&mut self.so_far.unseen).into_iter().map(Arc::unwrap_or_clone);
            hosted.defer((self.so_far.hop, unseen.collect()), turn);
        }
    }

    fn refused(&mut self, status: StatusCode, body: &[u8]) -> bool {
        if self.may_join && refuses_roles(status.as_u16(), body) {
            self.joins = true;
            return true;
        }
        if self.has_tool_media && self.refuses_tool_media(status, body) {
            return true;
        }
        let member = refused_member(status.as_u16(), body, &self.dispensable);
        if let Some(member) = member.filter(|_| self.left_out.len() < MAX_LEFT_OUT) {
            self.left_out.push(member);
            self.has_learned = false;
            return true;
        }
        let refused = self.constrained.take().filter(|_| may_mean_a_constraint(status, body));
        self.dropped.extend(refused);
        refused.is_some()
    }

    fn make(&mut self) -> Result<(UpstreamRequest, Reader), Failure> {
        self.request()
    }

    fn accepted(&mut self) {
        if self.joins {
            self.first.capabilities.refused_roles(&self.first.subject);
        }
        if !self.left_out.is_empty() && !self.has_learned {
            self.has_learned = true;
            self.first.capabilities.refused_members(&self.first.subject, &self.left_out);
        }
        if let Some(tools) = self.tools.take() {
            self.first.capabilities.means.refused(
                &self.first.subject,
                &std::mem::take(&mut self.dropped),
                tools,
            );
        }
        if let Some(kind) = self.constrained {
            self.first.capabilities.means.accepted(&self.first.subject, kind);
        }
    }

    fn is_needed(&self) -> bool {
        self.first.may_go_on
    }

    fn completed(&mut self, tally: &Tally) {
        if let Some(kind) = self.constrained.filter(|_| self.first.requires_call) {
            self.first.capabilities.means.answered(&self.first.subject, kind, tally);
        }
    }

    fn turns(&self) -> &[Arc<Turn>] {
        &self.so_far.turns
    }

    fn has_run_tools(&self) -> bool {
        self.so_far.has_run
    }

    fn told(&self) -> Vec<Value> {
        let hosted = self.first.hosted.as_ref().filter(|hosted| hosted.visibility() == Visibility::Items);
        hosted.map_or_else(Vec::new, |hosted| told(&self.so_far.turns, |name| hosted.shown_names(name).0))
    }

    fn keep(&self) -> bool {
        self.kept()
    }

    fn earlier_hops(&self) -> Option<EarlierHops> {
        self.hops_so_far()
    }
}
