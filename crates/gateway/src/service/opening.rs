//! Sends a prepared request to its upstream, with everything that observes the response.

use std::{future::ready, slice, sync::Arc, time::Instant};

use bytes::Bytes;
use ring::rand::{SecureRandom, SystemRandom};

use super::{
    super::{
        answer::{AskedModel, ModelObservers, Stage, StartedExchange},
        auth::Caller,
        command,
        exchange::{self, Exchange},
        exchange_observer::ExchangeBegin,
        hops::DecideHop,
        large,
        missed_calls::WatchedResponse,
        report::ExchangeReport,
        stamp::{seed, unix_time},
        stored_responses::ResponseKeeper,
        tap::{Opening, Watch},
        turn_states::Keeper,
        upstream::{self, Client},
        upstream_capabilities::Observer,
    },
    Service,
};
use crate::observe::Attempt;
use toolwire_config::{Capture, Model};
use toolwire_execution::ExchangeId;
use toolwire_net::telemetry::Parent;
use toolwire_pipeline::{
    dialect::Stamp,
    failure::Failure,
    pipeline::Pipeline,
    rules::{HostedRules, MixedTurns},
};

pub(super) struct ReadyExchange<'r> {
    pub(super) model: &'r Model,
    pub(super) exchange: Exchange,
    pub(super) client: Arc<Client>,
    pub(super) caller: &'r Caller,
    pub(super) id: &'r ExchangeId,
    pub(super) body: &'r Bytes,
    /// Stores the response, if it must be stored.
    pub(super) store: Option<ResponseKeeper>,
    /// The parent span of requests to upstreams.
    pub(super) trace: Option<&'r Parent>,
    /// Whether a response continues whose earlier hops the client may have received.
    pub(super) continues: bool,
}

impl Service {
    /// Returns time and randomness for the core, which has no access to either. The ids of calls must be secret, because the
    /// results of hosted tools can be looked up by them.
    pub(super) fn stamp(&self) -> Stamp {
        let seed = if self.shared.hosting.execution.is_some() { secret_seed() } else { seed() };
        Stamp { seed, created: unix_time() }
    }

    /// Sends the request to the upstream, then prepares the response while the upstream works.
    ///
    /// # Errors
    /// [`Kind::Internal`](toolwire_pipeline::failure::Kind::Internal)
    pub(super) async fn open(&self, ready_exchange: ReadyExchange<'_>) -> Result<StartedExchange, Failure> {
        let report = self.report(&ready_exchange);
        let watches = self.watches(&ready_exchange, report.as_deref());
        let ReadyExchange { model, exchange, client, caller, id, body, store, trace, continues, .. } =
            ready_exchange;
        let requested = exchange.conversation.model.as_str();
        let upstream_model = continues.then(|| model.upstream_name(requested).to_owned());
        let mut attempt = exchange.asks_upstream().then(|| {
            let (sampling, is_streamed) = (&exchange.conversation.sampling, exchange.request.stream);
            let upstream_model = model.upstream_name(requested);
            Attempt::begin(trace, client.upstream(), upstream_model, sampling, is_streamed)
        });
        let learner = attempt
            .as_ref()
            .map(|_| Observer::new(&self.shared.capabilities, model, &exchange, caller.owner));
        let begun = Instant::now();
        let Exchange { dialect, conversation, mut request, answering, hosted, keeper, .. } = exchange;
        let left_out = std::mem::take(&mut request.dropped);
        let searches = !conversation.deferral.searches.is_empty();
        let size = request.body.len().max(body.len());
        let prefill = request.prefill.clone();
        let key = request.key.clone().filter(|_| exchange.command.is_none());
        let (approved, preface) = (exchange.approved, exchange.preface);
        let mut missed = None;
        let (opening, mut pipeline) = if let Some(command) = exchange.command {
            let pipeline = command::pipeline(model, dialect, &conversation, &answering);
            (Some(command.open(&client, seed())), pipeline)
        } else {
            let context = attempt.as_ref().and_then(Attempt::context);
            let opening: Option<upstream::Opening> = match exchange.made {
                Some(body) => Some(Box::pin(ready(Ok(client.made(body))))),
                None if approved.is_some() => None,
                None => Some(client.traced(context).begin(request, caller.claimant()).await),
            };
            let lacks_forced_call = exchange.lacks_forced_call;
            let rules =
                exchange::rules(model, &conversation.model, &answering, exchange.start, lacks_forced_call);
            let name = model.upstream_name(&conversation.model);
            missed = self.shared.missed_calls.watch(id, name, &conversation, &rules, &model.formats);
            let (reader, writer) = (exchange::reader(model, dialect), dialect.side().writer(&answering));
            let pipeline = if large::is_large(size) {
                let (rules, formats) = (rules.into_owned(), Arc::clone(&model.formats));
                // The closure owns the conversation, so that dropping a large one does not block this thread.
                let make = move || {
                    Box::new(Pipeline::new(&conversation, &rules, &formats, reader, writer, &answering))
                };
                Box::pin(large::apart(make)).await?
            } else {
                Box::new(Pipeline::new(&conversation, &rules, &model.formats, reader, writer, &answering))
            };
            (opening, pipeline)
        };
        pipeline.redact_with(self.shared.monitors.redactor.clone());
        pipeline.write_in_pieces();
        pipeline.expect_prefill(prefill);
        pipeline.expect_key(key);
        pipeline.leaves_out(&exchange.left_out);
        exchange.warnings.into_iter().for_each(|warning| pipeline.warn(warning));
        let rules = hosted.as_ref().map(|hosted| hosted.rules()).or_else(|| searches.then(search_rules));
        keep_turns(&mut pipeline, model, rules, keeper.as_ref());
        follow_hops(&mut pipeline, exchange.hops.as_deref());
        let counted = [
            report.as_deref().map(ExchangeReport::kept_text),
            caller.account.is_some().then_some(0),
            missed.as_deref().map(WatchedResponse::kept_text),
        ];
        counted.into_iter().flatten().max().into_iter().for_each(|max| pipeline.observe_text(max));
        pipeline.precede_with(preface);
        let stage = opening.map_or(Stage::Approved, Stage::Opening);
        let later_attempt = attempt.take_if(|_| approved.is_some());
        approved.into_iter().for_each(|calls| pipeline.begin_with(calls));
        let (hops, claimant) = (exchange.hops, caller.claimant());
        Ok(StartedExchange {
            asked: AskedModel { client, stage, hops, size, claimant, left_out, pipeline },
            observers: ModelObservers {
                begun,
                attempt,
                later_attempt,
                watches,
                report,
                learner,
                missed,
                store,
                keeper,
                upstream_model,
            },
        })
    }

    /// Returns the report of the exchange for the event feed and the audit file, if there may be subscribers.
    fn report(&self, ready: &ReadyExchange<'_>) -> Option<Box<ExchangeReport>> {
        let audit = self.shared.monitors.audit.as_ref().filter(|_| !ready.continues)?;
        let ReadyExchange { model, exchange, client, caller, id, .. } = ready;
        let (asked, upstream, label) = (&exchange.conversation.model, client.upstream(), caller.label());
        let begin = ExchangeBegin {
            exchange: id,
            model: asked,
            key: label.as_deref(),
            client: exchange.dialect.dialect().name(),
            upstream: &upstream.name,
            upstream_dialect: upstream.dialect().name(),
            upstream_model: model.upstream_name(asked),
            asks_upstream: exchange.command.is_none(),
            captured: if audit.is_captured() { Capture::Redacted } else { Capture::Off }.word(),
        };
        let observer =
            self.shared.extensions.configured.as_ref().and_then(|extension| extension.observe(&begin));
        let tools = exchange.hosted.as_ref().map_or_else(Vec::new, |hosted| hosted.tool_names());
        Some(Box::new(ExchangeReport::new(audit, observer, &begin, tools)))
    }

    /// Returns the observers of the exchange's bytes: a recording, an extension, or both.
    fn watches(&self, ready: &ReadyExchange<'_>, report: Option<&ExchangeReport>) -> Vec<Box<dyn Watch>> {
        let ReadyExchange { model, exchange, client, id, body, continues, .. } = ready;
        // What earlier hops have written is not known here, so the rest could not be replayed.
        let is_whole = !continues
            && exchange.approved.is_none()
            && exchange.hops.as_ref().is_none_or(|hops| hops.turns().is_empty());
        let tap = self.shared.monitors.tap.as_ref().filter(|_| is_whole && exchange.asks_upstream());
        // Exchanges without a request to an upstream cannot be replayed, and an encrypted response cannot be read
        // again without its key.
        let is_readable = exchange.command.is_none() && exchange.request.key.is_none();
        let captures = report.and_then(ExchangeReport::captures).filter(|_| is_readable);
        if tap.is_none() && captures.is_none() {
            return Vec::new();
        }
        let Exchange { conversation, answering, start, lacks_forced_call, .. } = exchange;
        let rules = exchange::rules(model, &conversation.model, answering, *start, *lacks_forced_call);
        let hosted = exchange.hosted.as_ref().map(|hosted| hosted.rules());
        let opening = Opening {
            id: &id.request,
            body,
            conversation,
            model,
            dialect: exchange.dialect,
            upstream: client.upstream(),
            request: &exchange.request,
            rules: &rules,
            hosted: hosted.as_ref(),
            answering,
        };
        let capture = captures.and_then(|observer| observer.watch(&opening, &self.shared.monitors.redactor));
        tap.and_then(|tap| tap.begin(&opening)).into_iter().chain(capture).collect()
    }
}

/// Sets what the pipeline keeps of the response for later requests. `rules` are those for hosted calls.
fn keep_turns(pipeline: &mut Pipeline, model: &Model, rules: Option<HostedRules>, keeper: Option<&Keeper>) {
    if let Some(rules) = rules {
        pipeline.host(rules);
        model.kept_state().into_iter().for_each(|kept| pipeline.keep_state(kept));
    } else if let Some(keeper) = keeper {
        pipeline.keep_state(keeper.kept());
    }
}

/// Tells the pipeline of a request that goes on after earlier hops what the model reads.
fn follow_hops(pipeline: &mut Pipeline, hops: Option<&dyn DecideHop>) {
    let Some(hops) = hops else { return };
    hops.turns().iter().for_each(|turn| pipeline.reads(slice::from_ref(turn)));
    if hops.has_run_tools() {
        pipeline.follows_hosted_calls();
    }
}

/// The rules for a response in which only searches for tools are run. Nothing is kept for the client's next request.
fn search_rules() -> HostedRules {
    HostedRules { mixed_turns: MixedTurns::ClientOnly, ..HostedRules::default() }
}

/// Returns a seed that cannot be predicted from earlier seeds.
fn secret_seed() -> u64 {
    let mut bytes = [0; 8];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => seed(),
    }
}
