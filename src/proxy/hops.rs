//! Between two hops: what decides how a response goes on after an upstream's response that is not its last.
//!
//! ```text
//! Pipeline: HopEnded ─FollowUp─▶ DecideHop ─▶ a future ─Continuation─▶ the next upstream request, or the end
//! ```
//!
//! The future may take as long as it needs. Meanwhile the client gets keep-alives, `total_timeout` applies, and the slot at
//! the upstream is free for others; if the client disconnects, the future is dropped.

use std::{fmt, future::ready, pin::Pin, sync::Arc};

use crate::{
    config::Config,
    conversation::Turn,
    dialect::{ClientDialect, Reader, UpstreamRequest},
    failure::Failure,
    pipeline::FollowUp,
};

use super::exchange;

/// Decides how a response goes on. It exists only for models whose rules allow several hops.
pub(super) trait DecideHop: fmt::Debug + Send {
    /// Called after each hop that is not the last; the next hop begins when the future is ready.
    fn decide(&mut self, follow_up: FollowUp) -> Deciding;
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
    body: Box<[u8]>,
    /// The time of the request, in seconds of Unix time.
    now: u64,
    /// The turns of all follow-ups so far.
    turns: Vec<Turn>,
}

impl AskAgain {
    /// For the response to the request `body`.
    pub(super) fn new(config: Arc<Config>, dialect: ClientDialect, body: &[u8], now: u64) -> Self {
        Self { config, dialect, body: body.into(), now, turns: Vec::new() }
    }

    /// The next request.
    ///
    /// # Errors
    /// Only those that the first request would have had.
    fn ask(&mut self, follow_up: FollowUp) -> Result<Continuation, Failure> {
        let conversation = exchange::decode(self.dialect, &self.body)?;
        let model = exchange::model(&self.config, self.dialect, &conversation)?;
        self.turns.extend(follow_up.turns.iter().cloned());
        let mut sent = exchange::sent(model, &conversation, self.now)?.into_owned();
        sent.turns.extend(self.turns.iter().cloned());
        Ok(Continuation::Ask(Box::new(NextHop {
            request: exchange::encode(model, &sent, self.now)?.0,
            reader: exchange::reader(model, self.dialect),
            turns: follow_up.turns,
        })))
    }
}

impl DecideHop for AskAgain {
    fn decide(&mut self, follow_up: FollowUp) -> Deciding {
        Box::pin(ready(self.ask(follow_up)))
    }
}
