//! [`Observers`]: everything that records an exchange without influencing it. One method per occurrence notifies all
//! observers, so that none can be forgotten.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::response;

use super::super::{
    count,
    failover::Attempts,
    limits::Allowance,
    missed_calls::WatchedResponse,
    report::ExchangeReport,
    stamp::unix_time,
    stored_responses::ResponseKeeper,
    tap::{Ending, Watch},
    turn_states::Keeper,
    upstream::Client,
    upstream_capabilities::Observer,
};
use super::StartedExchange;
use crate::observe::{Access, Attempt, Outcome, failure_name, finish_name, kind_name};
use toolwire_config::Upstream;
use toolwire_net::telemetry::SpanContext;
use toolwire_pipeline::{
    conversation::Turn,
    dialect::UpstreamRequest,
    event::Event,
    failure::{Failure, Kind},
    pipeline::Pipeline,
};

/// The observers of one model's response.
pub(crate) struct ModelObservers {
    /// When the model was asked.
    pub(crate) begun: Instant,
    /// The first request to the upstream, if there is one.
    pub(crate) attempt: Option<Attempt>,
    /// The first request to the upstream, if other work comes before it.
    pub(crate) later_attempt: Option<Attempt>,
    pub(crate) watches: Vec<Box<dyn Watch>>,
    /// Publishes events of the exchange, if there may be subscribers.
    pub(crate) report: Option<Box<ExchangeReport>>,
    /// Learns from the response what the model supports, if requests depend on it.
    pub(crate) learner: Option<Observer>,
    /// Reads the complete response, if calls may have been missed.
    pub(crate) missed: Option<Box<WatchedResponse>>,
    /// Stores the response, if it must be stored.
    pub(crate) store: Option<ResponseKeeper>,
    /// Stores the state that the upstream needs in later requests.
    pub(crate) keeper: Option<Keeper>,
    /// The upstream's name for the model, if the response continues with this model.
    pub(crate) upstream_model: Option<String>,
}

impl ModelObservers {
    /// Creates observers that record nothing, for a response that begins now.
    pub(crate) fn none() -> Self {
        Self {
            begun: Instant::now(),
            attempt: None,
            later_attempt: None,
            watches: Vec::new(),
            report: None,
            learner: None,
            missed: None,
            store: None,
            keeper: None,
            upstream_model: None,
        }
    }

    /// Calls `see` with each watch and the time since the model was asked.
    fn watch(&mut self, see: impl Fn(&mut dyn Watch, Duration)) {
        if !self.watches.is_empty() {
            let after = self.begun.elapsed();
            self.watches.iter_mut().for_each(|watch| see(&mut **watch, after));
        }
    }

    /// Handles the end of the response, or the switch to another model.
    fn ended(&mut self, outcome: &Outcome, pipeline: &Pipeline, access: &Access) {
        let ending = match outcome {
            Outcome::Done => Ending::Done,
            Outcome::Failed(failure) => Ending::Failed(failure),
            Outcome::Cancelled | Outcome::Stalled => Ending::Cancelled,
        };
        self.watch(|watch, after| watch.end(ending, after));
        self.watches.clear();
        if let Some(report) = self.report.take() {
            report.ended(outcome, pipeline, access);
        }
    }
}

/// The observers of an exchange.
pub(super) struct Observers {
    model: ModelObservers,
    /// The models that have been asked and may be asked, if there are several. Records which of them work.
    pub(super) attempts: Option<Box<Attempts<StartedExchange>>>,
    /// The part of the client's limits reserved for the response, if the client has a name.
    pub(super) allowance: Option<Box<Allowance>>,
    pub(super) access: Access,
    /// Whether an upstream has begun a response.
    is_answered: bool,
    /// Whether the error is written and the model is recorded as failed.
    pub(super) failure_written: bool,
}

impl Observers {
    pub(super) fn new(
        model: ModelObservers,
        attempts: Option<Box<Attempts<StartedExchange>>>,
        allowance: Option<Box<Allowance>>,
        access: Access,
    ) -> Self {
        let (is_answered, failure_written) = (false, false);
        let mut observers = Self { model, attempts, allowance, access, is_answered, failure_written };
        observers.hop_begun();
        observers
    }

    fn hop_begun(&mut self) {
        if let Some(attempt) = self.model.attempt.take() {
            self.access.hop_begun(attempt);
        }
    }

    /// Returns when the current model was asked.
    pub(super) fn begun(&self) -> Instant {
        self.model.begun
    }

    /// Called when a request to a model has been prepared and sent to `upstream`. `continues` is set if the response
    /// continues with another hop.
    pub(super) fn prepared(&mut self, model: ModelObservers, upstream: &Arc<Upstream>, continues: bool) {
        if let Some(attempts) = &self.attempts {
            self.access.moved(attempts.count(), attempts.target(), upstream);
        }
        let earlier = mem::replace(&mut self.model, model);
        if continues {
            (self.model.report, self.model.store) = (earlier.report, earlier.store);
            if let Some(report) = &mut self.model.report {
                report.moved(&upstream.name, self.model.upstream_model.take());
                report.hop_started();
            }
        } else {
            // The counts of the new model start at zero.
            self.access.counts_anew();
        }
        self.hop_begun();
    }

    /// Called when the upstream has begun its response.
    pub(super) fn answered(&mut self, head: &response::Parts) {
        self.is_answered = true;
        self.model.watch(|watch, after| watch.answered(head.status, &head.headers, after));
    }

    /// The upstream has refused the request, with this response if there was one. `is_recovered` says whether the refusal
    /// can be turned into a response for the client.
    pub(super) fn refused(&mut self, said: Option<&(response::Parts, Bytes)>, is_recovered: bool) {
        self.is_answered |= is_recovered;
        if let Some((head, body)) = said {
            self.model.watch(|watch, after| {
                watch.answered(head.status, &head.headers, after);
                watch.piece(body, after);
            });
        }
    }

    /// Called when a piece of the upstream's response has arrived.
    pub(super) fn piece(&mut self, data: &[u8]) {
        self.model.watch(|watch, after| watch.piece(data, after));
    }

    /// All data that had arrived has been read.
    pub(super) fn chunk(&mut self) {
        self.access.hop_chunk();
    }

    /// Called when the response may have progressed.
    pub(super) fn progressed(&mut self, pipeline: &Pipeline) {
        if let Some(report) = &mut self.model.report {
            report.progressed(pipeline);
        }
    }

    /// Called when the hop has ended. May also be called if no hop is in progress.
    pub(super) fn hop_ended(&mut self, pipeline: &Pipeline) {
        if let Some(learner) = &self.model.learner {
            learner.saw(pipeline);
        }
        let finish = pipeline.hop_finish().or_else(|| pipeline.finish_given());
        self.access.hop_ended(&finish.map_or("none", finish_name), None, pipeline.tokens());
        if let Some(report) = &mut self.model.report {
            report.hop_ended(pipeline);
        }
    }

    /// The client receives this event between two hops.
    pub(super) fn shown(&mut self, event: &Event<'_>) {
        self.model.watch(|watch, _| watch.shown(event));
    }

    /// Called when another hop begins, whose request contains `turns` in addition to the previous request. Returns the
    /// client that sends the request as part of the hop's trace.
    pub(super) fn asked_again(
        &mut self,
        client: &Arc<Client>,
        request: &UpstreamRequest,
        turns: &[Turn],
    ) -> Arc<Client> {
        self.model.watch(|watch, after| watch.asked_again(request, turns, after));
        if let Some(report) = &mut self.model.report {
            report.hop_started();
        }
        let later = self.model.later_attempt.take().map(Attempt::begun_now);
        let attempt = later.or_else(|| self.access.next_attempt());
        let attempt = attempt.unwrap_or_else(|| Attempt::untraced(request.stream));
        let client = client.traced(attempt.context());
        self.access.hop_begun(attempt);
        client
    }

    /// The upstream has refused the hop's request with a failure of this kind, and receives another request instead.
    /// Returns the trace context for it.
    pub(super) fn asked_otherwise(
        &mut self,
        request: &UpstreamRequest,
        refusal: Kind,
    ) -> Option<&SpanContext> {
        self.model.watch(|watch, _| watch.asked_otherwise(request));
        self.access.asked_otherwise(kind_name(refusal))
    }

    /// Called when another model will be asked, since the current one has failed. `continues` is set if earlier hops of
    /// the response stay.
    pub(super) fn asked_another(&mut self, failure: &Failure, pipeline: &Pipeline, continues: bool) {
        let report = self.model.report.take_if(|_| continues);
        self.model.ended(&Outcome::Failed(failure.clone()), pipeline, &self.access);
        self.model.report = report;
        if let Some(report) = &mut self.model.report {
            report.hop_failed(pipeline);
        }
        let error = Some(kind_name(failure.kind()));
        self.access.hop_ended(&failure_name(failure), error, pipeline.tokens());
        self.is_answered &= continues;
    }

    /// The response is complete. Stores it before the client receives its end, since the client's next request may continue
    /// it.
    pub(super) fn completed(&mut self, pipeline: &mut Pipeline) {
        self.hop_ended(pipeline);
        if let Some(missed) = self.model.missed.take() {
            missed.completed(pipeline);
        }
        if let (Some(store), Some(response)) = (self.model.store.take(), pipeline.take_response()) {
            store.keep(&response);
        }
        if let (Some(keeper), Some(state)) = (&self.model.keeper, pipeline.take_state()) {
            keeper.keep(state);
        }
    }

    /// The client's connection has taken this many bytes.
    pub(super) fn wrote(&mut self, bytes: usize, has_content: bool) {
        if has_content {
            self.access.wrote_content();
        }
        self.access.wrote(bytes);
    }

    /// The error is written. Records the failure of the model before the client receives the error, since the client may
    /// retry before this response is dropped.
    pub(super) fn failed(&mut self, failure: Option<&Failure>) {
        self.failure_written = true;
        if let (Some(attempts), Some(failure)) = (&self.attempts, failure) {
            attempts.ended(&Outcome::Failed(failure.clone()));
        }
    }

    /// Called when the exchange is over.
    pub(super) fn ended(&mut self, outcome: Outcome, pipeline: &Pipeline) {
        self.model.ended(&outcome, pipeline, &self.access);
        if let Some(attempts) = self.attempts.as_ref().filter(|_| !self.failure_written) {
            attempts.ended(&outcome);
        }
        self.access.ended(outcome);
        let tally = pipeline.tally();
        if let Some(allowance) = self.allowance.take() {
            let spent = match self.is_answered {
                true => count::spent(pipeline, &tally, allowance.input()),
                false => (0, 0),
            };
            let spent = allowance.settle(self.access.model(), spent, unix_time());
            self.access.spent(spent);
        }
        self.access.counted(tally);
    }
}
