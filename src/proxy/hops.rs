//! Between two hops: what decides how a response goes on after an upstream's response that is not its last.
//!
//! ```text
//! Pipeline: HopEnded ─FollowUp─▶ DecideHop ─▶ a future ─Continuation─▶ the next upstream request, or the end
//! ```
//!
//! The future may take as long as it needs. Meanwhile the client gets keep-alives, `total_timeout` applies, and the slot at
//! the upstream is free for others; if the client disconnects, the future is dropped.

use std::{fmt, future::ready, pin::Pin, sync::Arc};

use http::StatusCode;

use crate::{
    config::Config,
    conversation::Turn,
    dialect::{ClientDialect, Reader, UpstreamRequest},
    failure::Failure,
    pipeline::{FollowUp, Tally},
};

use super::{
    exchange,
    learned::{Kind, Learned, Subject},
    turn_states::OwnStates,
};

/// Decides how a response goes on. It exists only for models whose rules allow several hops.
pub(super) trait DecideHop: fmt::Debug + Send {
    /// Called after each hop that is not the last; the next hop begins when the future is ready.
    fn decide(&mut self, follow_up: FollowUp) -> Deciding;

    /// Called when the upstream has refused a hop's request with `status` and this body. `None`: the response fails.
    fn refused(&mut self, _status: StatusCode, _body: &[u8]) -> Option<Result<UpstreamRequest, Failure>> {
        None
    }

    /// Called when the upstream has accepted a hop's request.
    fn accepted(&mut self) {}

    /// Called when the response is complete.
    fn completed(&mut self, _tally: &Tally) {}
}

/// A decision that is being made.
///
/// # Errors
/// The response fails.
pub(super) type Deciding = Pin<Box<dyn Future<Output = Result<Continuation, Failure>> + Send>>;

/// How a response goes on.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "so far, the model is always asked again"))]
pub(super) enum Continuation {
    /// With another request to the upstream.
    Ask(Box<NextHop>),
    /// It ends with what the hops so far gave.
    End,
}

/// A request to the upstream that continues a response.
#[derive(Debug)]
pub(super) struct NextHop {
    pub(super) request: UpstreamRequest,
    /// A reader for the upstream's response.
    pub(super) reader: Reader,
    /// What the request has more than the one before.
    pub(super) turns: Vec<Turn>,
}

/// Asks the model again, at once. It is kept until the response ends, so it holds the request's bytes and not the larger
/// forms made of them.
#[derive(Debug)]
pub(super) struct AskAgain {
    config: Arc<Config>,
    dialect: ClientDialect,
    states: Option<OwnStates>,
    body: Box<[u8]>,
    /// The time of the request, in seconds of Unix time.
    now: u64,
    /// The turns of all follow-ups so far.
    turns: Vec<Turn>,
    /// The means by which the last request is enforced.
    constrained: Option<Kind>,
    /// The means that were refused in this response. Whether they were the reason shows when the upstream accepts a request
    /// without them.
    dropped: Vec<Kind>,
    /// The model that is asked.
    subject: Subject,
    /// The response must have a call.
    requires_call: bool,
    learned: Arc<Learned>,
}

/// Whether an error may mean that the server does not know a constraint. Most say so with status 400 or 422, some with a
/// status that means a fault of the server, and then with a message about the constraint
/// (docs/protocols/enforcement.md#schemas-for-the-whole-response).
fn may_mean_a_constraint(status: StatusCode, body: &[u8]) -> bool {
    const WORDS: [&[u8]; 4] = [b"response_format", b"literal_error", b"grammar", b"schema"];
    let names_it = || WORDS.iter().any(|word| body.windows(word.len()).any(|part| part == *word));
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => true,
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::NOT_IMPLEMENTED => names_it(),
        _ => false,
    }
}

impl AskAgain {
    /// For the response to the request `body` at the time `now`, whose first request to the upstream is `constrained`.
    pub(super) fn new(
        (config, learned): (Arc<Config>, Arc<Learned>),
        (dialect, states): (ClientDialect, Option<OwnStates>),
        (body, now): (&[u8], u64),
        (subject, requires_call, constrained): (Subject, bool, Option<Kind>),
    ) -> Self {
        let (body, turns, dropped) = (body.into(), Vec::new(), Vec::new());
        Self {
            config,
            dialect,
            states,
            body,
            now,
            turns,
            constrained,
            dropped,
            subject,
            requires_call,
            learned,
        }
    }

    /// The client's request with all follow-ups, as the upstream is to get it, and a reader for the response.
    ///
    /// # Errors
    /// Only those that the first request would have had.
    fn request(&mut self) -> Result<(UpstreamRequest, Reader), Failure> {
        let mut conversation = exchange::decode(self.dialect, &self.body)?;
        if let Some(states) = &self.states {
            states.restore(&mut conversation);
        }
        let model = exchange::model(&self.config, self.dialect, &conversation)?;
        let (options, left) = self.learned.about(model, &conversation.model);
        let means = self.dropped.iter().fold(left, |means, kind| kind.removed_from(means));
        let mut sent = exchange::sent(model, &conversation, (&means, self.now))?;
        sent.to_mut().turns.extend(self.turns.iter().cloned());
        let (request, _) = exchange::encode((model, options), &mut sent, self.now)?;
        self.constrained = sent.constraint.as_ref().map(Kind::of);
        Ok((request, exchange::reader(model, self.dialect)))
    }

    fn ask(&mut self, follow_up: FollowUp) -> Result<Continuation, Failure> {
        self.turns.extend(follow_up.turns.iter().cloned());
        let (request, reader) = self.request()?;
        Ok(Continuation::Ask(Box::new(NextHop { request, reader, turns: follow_up.turns })))
    }
}

impl DecideHop for AskAgain {
    fn decide(&mut self, follow_up: FollowUp) -> Deciding {
        Box::pin(ready(self.ask(follow_up)))
    }

    fn refused(&mut self, status: StatusCode, body: &[u8]) -> Option<Result<UpstreamRequest, Failure>> {
        let kind = self.constrained.take().filter(|_| may_mean_a_constraint(status, body))?;
        self.dropped.push(kind);
        Some(self.request().map(|(request, _)| request))
    }

    fn accepted(&mut self) {
        if !self.dropped.is_empty() {
            self.learned.means.refused(&self.subject, &std::mem::take(&mut self.dropped));
        }
    }

    fn completed(&mut self, tally: &Tally) {
        if let Some(kind) = self.constrained.filter(|_| self.requires_call) {
            self.learned.means.answered(&self.subject, kind, tally);
        }
    }
}
