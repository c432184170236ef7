//! Requests for a model's response, from the body to the request to the upstream.
//!
//! ```text
//! body ─▶ who, which model, limits ─▶ (images described, results awaited) ─exchange─▶ upstream asked ─▶ AnswerBody
//!                                                   ▲ another model, if this one fails before any content
//! ```

use std::{future::ready, mem, pin::Pin, sync::Arc, time::Instant};

use bytes::Bytes;
use http::{HeaderMap, Response};
use hyper::body::Incoming;
use ring::rand::{SecureRandom, SystemRandom};
use tracing::Instrument;

use crate::observe::{self, Access, Attempt};
use toolwire_config::Model;
use toolwire_execution::{ExchangeId, Started, vision};
use toolwire_net::telemetry::{Parent, within};
use toolwire_pipeline::{
    conversation::Conversation,
    dialect::{Answering, ClientDialect, Ids, Stamp},
    failure::Failure,
    pipeline::Pipeline,
    rules::Reasoning,
};

use super::{
    super::{
        answer::{self, AnswerBody, Stage, StartedExchange},
        auth::Caller,
        betas::Betas,
        budget::Reservation,
        command::{self, Command},
        count, drain,
        exchange::{self, Exchange, RequestContext, SharedState},
        exchange_observer::ExchangeBegin,
        failover::{self, Attempts},
        intake, large,
        limits::{Account, Allowance, RequestDemand},
        reply::{self, ReplyBody},
        report::{self, ExchangeReport},
        request as checks,
        stamp::{seed, unix_time},
        stored_responses::{self, RecordInput, ResponseKeeper},
        tap::{FanOut, Opening, Watch},
        upstream::{self, Client},
        upstream_capabilities::Observer,
    },
    Refused, Rest, Service, admit,
};

/// A client's request for a model's response.
#[derive(Clone)]
struct ModelRequest {
    id: ExchangeId,
    dialect: ClientDialect,
    caller: Caller,
    /// The client's setting for passing on reasoning, if it sent one.
    reasoning: Option<Reasoning>,
    /// The beta features that the client names.
    betas: Option<Betas>,
    /// The session of the client's own account, if it sent one.
    session: Option<Box<HeaderMap>>,
    body: Bytes,
    /// The parent span of requests to upstreams.
    trace: Option<Parent>,
    /// Time of arrival in seconds of Unix time.
    now: u64,
}

/// A request whose upstream has been asked, or soon will be.
struct Asked {
    /// Whether the response is streamed.
    stream: bool,
    /// The amounts of the client's limits that the response holds, if the client has a name.
    allowance: Option<Box<Allowance>>,
    exchange: StartedExchange,
    /// Other models that may answer.
    attempts: Option<Box<Attempts<StartedExchange>>>,
}

impl Service {
    /// Handles a request for a model's response, up to the point at which its upstream is asked.
    pub(super) async fn generate(
        self: &Arc<Self>,
        (dialect, caller): (ClientDialect, Caller),
        (headers, body): (&HeaderMap, Incoming),
        rest: &mut Rest,
        mut access: Access,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        if !self.drain.is_serving() {
            return Err(reply::error(drain::refusal(), dialect, access));
        }
        let (body, memory) = match intake::read(headers, body, self.bounds(None)).await {
            Ok(read) => read,
            Err(failure) => return Err(reply::error(failure, dialect, access)),
        };
        *rest = Rest::None;
        let id = self.exchange_id(access.id());
        match self.begin_answer((dialect, caller), (headers, body, id), memory, &mut access).await {
            Ok(answer) => Ok(Box::pin(answer(access))),
            Err(refused) => Err(refused.response(dialect, access)),
        }
    }

    /// Asks the upstream for the response to a request that has been read. `access` becomes part of the response's
    /// body.
    pub(super) async fn begin_answer(
        self: &Arc<Self>,
        (dialect, caller): (ClientDialect, Caller),
        (headers, body, id): (&HeaderMap, Bytes, ExchangeId),
        memory: Reservation,
        access: &mut Access,
    ) -> Result<impl FnOnce(Access) -> AnswerBody + use<>, Refused> {
        let (owner, now) = (caller.owner, unix_time());
        let body = self.responses.with_history(dialect, owner, body, now).await?;
        let asked = self.ask((dialect, caller), (headers, body, id), now, access).await?;
        let Asked { stream, allowance, exchange, attempts } = asked;
        let (keep_alive, cut) = (self.config.limits.keep_alive, self.drain.when_cut());
        Ok(move |access| {
            let parts = answer::Parts { stream, access, allowance, memory, exchange, attempts };
            AnswerBody::new(parts, keep_alive, cut)
        })
    }

    /// The ids of this request's exchange. The exchange has an id of its own only if there may be subscribers.
    pub fn exchange_id(&self, request: &str) -> ExchangeId {
        let own = self.audit.as_ref().map(|_| Ids::new(seed(), 0).next("ex_").into()).unwrap_or_default();
        ExchangeId { own, request: request.into() }
    }

    /// Asks the upstream for the response to a request. If other requests are needed to prepare it, only starts these.
    async fn ask(
        self: &Arc<Self>,
        (dialect, caller): (ClientDialect, Caller),
        (headers, body, id): (&HeaderMap, Bytes, ExchangeId),
        now: u64,
        access: &mut Access,
    ) -> Result<Asked, Refused> {
        let reasoning = checks::reasoning(headers)?;
        let Read { conversation, demand, affinity } = self.read(dialect, &caller, &body).await?;
        let stream = conversation.stream;
        access.asked(&conversation.model, stream);
        caller.check_model(&conversation.model)?;
        exchange::check_multipliers(&conversation, self.config.limits.max_n)?;
        let demand = |account: &Account| demand.unwrap_or_else(|| self.demand(account, &conversation));
        let allowance = admit(&caller, demand, dialect).await?;
        let owner = caller.owner;
        let model = exchange::model(&self.config, dialect, &conversation)?;
        let may = |model: &str| caller.check_model(model).is_ok();
        let affinity = || affinity.unwrap_or_else(|| failover::affinity(&conversation, owner));
        let plan = self.failover.plan(&self.config, model, (affinity, caller.claimant()), may);
        let label = self.configured.as_ref().and_then(|_| caller.label());
        let session = self.session(headers).map(Box::new);
        let betas = (dialect == ClientDialect::Messages).then(|| Betas::of_request(headers)).flatten();
        let asked =
            ModelRequest { id, dialect, caller, reasoning, betas, session, body, trace: access.trace(), now };
        let attempts = plan.map(|plan| {
            let (own, asked, entry) = (Arc::clone(self), asked.clone(), model.name.clone());
            let begin = move |target: String| -> failover::Beginning<StartedExchange> {
                let (own, asked) = (Arc::clone(&own), asked.clone());
                let target = (target != entry).then_some(target);
                Box::pin(async move {
                    let conversation = decode(asked.dialect, &asked.body).await?;
                    own.begin_exchange(&asked, conversation, target.as_deref()).await
                })
            };
            let overloaded = dialect.side().overloaded_status();
            Box::new(Attempts::new(Arc::clone(&self.failover), plan, Box::new(begin), overloaded))
        });
        let target =
            attempts.as_ref().map(|attempts| attempts.target()).filter(|target| *target != model.name);
        let model = target.and_then(|target| self.config.model(target)).unwrap_or(model);
        let describer = self.describer(model, &conversation);
        let is_awaited = |execution: &Arc<Started>| execution.is_awaited(&conversation, owner);
        // Other requests, which may take long, are needed before the upstream can be asked.
        let must_wait = describer.is_some() || self.execution.as_ref().is_some_and(is_awaited);
        let begun = if must_wait {
            let pipeline = self.preparing_pipeline(model, dialect, &conversation);
            let (own, target) = (Arc::clone(self), target.map(str::to_owned));
            let preparing = async move { own.begin_exchange(&asked, conversation, target.as_deref()).await };
            let preparing = Box::pin(within(access.trace(), preparing.instrument(access.span().clone())));
            let client = Arc::clone(self.client(&model.upstream)?);
            StartedExchange::preparing(client, preparing, pipeline)
        } else {
            match self.begin_exchange(&asked, conversation, target).await {
                Ok(begun) => begun,
                Err(failure) if attempts.is_some() => self.unbegun(model, &asked, failure).await?,
                Err(failure) => return Err(failure.into()),
            }
        };
        access.routed(&model.name, &model.upstream);
        if self.configured.is_some() {
            access.show(dialect, label);
        }
        Ok(Asked { stream, allowance, exchange: begun, attempts })
    }

    /// Reads a request, on another thread if it is large.
    async fn read(
        self: &Arc<Self>,
        dialect: ClientDialect,
        caller: &Caller,
        body: &Bytes,
    ) -> Result<Read, Failure> {
        if !large::is_large(body.len()) {
            let conversation = exchange::decode(dialect, body)?;
            return Ok(Read { conversation, demand: None, affinity: None });
        }
        let (own, body) = (Arc::clone(self), body.clone());
        let (account, owner) = (caller.account.clone(), caller.owner);
        let read = move || {
            let conversation = exchange::decode(dialect, &body)?;
            let demand = account.map(|account| own.demand(&account, &conversation));
            let model = own.config.model(&conversation.model);
            let has_others = model.is_some_and(|model| model.alternatives.is_some());
            let affinity = has_others.then(|| failover::affinity(&conversation, owner));
            Ok(Read { conversation, demand, affinity })
        };
        large::apart(read).await?
    }

    /// Handles a request that cannot be sent to `model`, but that another model may answer.
    async fn unbegun(
        &self,
        model: &Model,
        asked: &ModelRequest,
        failure: Failure,
    ) -> Result<StartedExchange, Failure> {
        let conversation = decode(asked.dialect, &asked.body).await?;
        let pipeline = self.preparing_pipeline(model, asked.dialect, &conversation);
        let client = Arc::clone(self.client(&model.upstream)?);
        Ok(StartedExchange::preparing(client, Box::pin(ready(Err(failure))), pipeline))
    }

    /// Writes keep-alives, or the error, until a request is prepared.
    fn preparing_pipeline(
        &self,
        model: &Model,
        dialect: ClientDialect,
        conversation: &Conversation,
    ) -> Pipeline {
        let answering = Answering::new(conversation, self.stamp());
        command::pipeline(model, dialect, conversation, &answering).redacting(self.redactor.clone())
    }

    /// Prepares a request, whose `conversation` has been read, and asks its upstream. `target`: the entry that
    /// answers, if it is not the entry of the requested model.
    async fn begin_exchange(
        self: &Arc<Self>,
        asked: &ModelRequest,
        mut conversation: Conversation,
        target: Option<&str>,
    ) -> Result<StartedExchange, Failure> {
        let ModelRequest { id, dialect, caller, reasoning, betas, session, body, trace, now } = asked;
        let (dialect, owner, now) = (*dialect, caller.owner, *now);
        let requested = target.map(|target| mem::replace(&mut conversation.model, target.to_owned()));
        let model = exchange::model(&self.config, dialect, &conversation)?;
        let client = self.client(&model.upstream)?.of_request(session.as_deref())?.with_betas(betas.as_ref());
        let describer = self.describer(model, &conversation);
        let is_completed = match &self.execution {
            Some(execution) => execution
                .complete(&mut conversation, owner)
                .await
                .map_err(|error| stored_responses::away(&error))?,
            None => false,
        };
        let is_large = large::is_large(body.len());
        if let Some(states) = self.states.of(owner, &model.upstream.name, model.wants_back()) {
            states.fetch(&mut conversation, is_large).await?;
        }
        if let Some(describer) = &describer {
            let digests = if is_large {
                let (model, taken) = (describer.clone(), mem::take(&mut conversation));
                let read = move || (vision::digests(&taken, owner, &model), taken);
                let (digests, taken) = large::apart(read).await?;
                conversation = taken;
                digests
            } else {
                vision::digests(&conversation, owner, describer)
            };
            self.vision
                .describe((&mut conversation, digests), (&self.asking, describer), (caller.payer(), id))
                .await;
        }
        // Later hops must also find the additions, and the images must not be described again.
        let is_as_sent = !is_completed && describer.is_none() && target.is_none();
        let how = (*reasoning, self.stamp());
        let (mut exchange, input) = if is_large {
            let (own, caller, id, body) = (Arc::clone(self), caller.clone(), id.clone(), body.clone());
            let prepare = move || {
                let asked = (is_as_sent.then_some(&body), conversation);
                let exchange = own.prepare((&caller, &id), dialect, asked, how)?;
                let is_stored = exchange.answering.stored;
                let input = is_stored.then(|| dialect.side().record_input(&body)).flatten();
                Ok::<_, Failure>((exchange, input))
            };
            large::apart(prepare).await??
        } else {
            let asked = (is_as_sent.then_some(body), conversation);
            (self.prepare((caller, id), dialect, asked, how)?, None)
        };
        if let Some(requested) = requested {
            // If the upstream names no model, the client sees the name that it requested.
            exchange.answering.model = requested;
        }
        self.metrics.dropped_fields(&client.upstream().name, &exchange.request.dropped);
        if !exchange.left_out.is_empty() {
            self.metrics.tools_left_out(&model.name, exchange.left_out.len());
            observe::tools_left_out(&id.request, &model.name, &exchange.left_out);
        }
        let wanted = exchange.answering.stored;
        let input = || input.map_or_else(|| RecordInput::In(body.clone()), RecordInput::Found);
        let keeper = wanted.then(|| self.responses.keeper(dialect, owner, input(), now)).flatten();
        exchange.answering.stored = keeper.is_some();
        self.open((model, exchange), (client, keeper, caller), body, (id, trace.as_ref())).await
    }

    /// Prepares a conversation with the state that requests of this service share, see [`exchange::prepare`].
    fn prepare(
        &self,
        (caller, exchange): (&Caller, &ExchangeId),
        dialect: ClientDialect,
        asked: (Option<&Bytes>, Conversation),
        how: (Option<Reasoning>, Stamp),
    ) -> Result<Exchange, Failure> {
        let shared = SharedState {
            config: &self.config,
            capabilities: &self.capabilities,
            states: &self.states,
            execution: self.execution.as_deref().map(|started| &**started),
        };
        exchange::prepare(shared, RequestContext { caller, exchange }, dialect, asked, how)
    }

    /// The amounts of its client's limits that a request needs.
    fn demand(&self, account: &Account, conversation: &Conversation) -> RequestDemand {
        let is_command = self.execution.as_ref().is_some_and(|it| Command::parts(it, conversation).is_some());
        if is_command {
            return RequestDemand { takes_place: true, ..RequestDemand::PLAIN };
        }
        // If no limit depends on the estimate, it may be rough.
        let input = match account.limits_tokens() {
            true => count::tokens(conversation),
            false => count::tokens_by_size(conversation),
        };
        RequestDemand {
            input: input as u64,
            max_output: conversation.sampling.max_tokens.map(|most| most.max(1)),
            choices: conversation.choices.unwrap_or(1),
            takes_place: true,
            counts_tokens: true,
        }
    }

    /// The model that must describe the images of the conversation, if there are images and `model` does not accept
    /// them.
    fn describer(&self, model: &Model, conversation: &Conversation) -> Option<String> {
        let describer = model.vision.as_ref()?;
        let execution = self.execution.as_ref();
        let is_command =
            || execution.is_some_and(|execution| Command::parts(execution, conversation).is_some());
        (vision::has_images(conversation) && !is_command()).then(|| describer.clone())
    }

    /// Time and randomness for the core, which has no access to either. The results of hosted tools are later found by
    /// the ids of calls, so these ids must be secret.
    pub(super) fn stamp(&self) -> Stamp {
        let seed = if self.execution.is_some() { secret_seed() } else { seed() };
        Stamp { seed, created: unix_time() }
    }

    /// Sends the request to the upstream, as part of `trace`, then prepares the response while the upstream works.
    ///
    /// # Errors
    /// [`Kind::Internal`](toolwire_pipeline::failure::Kind::Internal)
    pub(super) async fn open(
        &self,
        (model, exchange): (&Model, Exchange),
        (client, store, caller): (Arc<Client>, Option<ResponseKeeper>, &Caller),
        body: &Bytes,
        (id, trace): (&ExchangeId, Option<&Parent>),
    ) -> Result<StartedExchange, Failure> {
        let report = self.report((model, &exchange), &client, (id, caller));
        let watch = self.watch((model, &exchange), &client, (body, id), report.as_ref());
        let attempt = exchange.asks_upstream().then(|| {
            let upstream_model = model.upstream_name(&exchange.conversation.model);
            let (sampling, is_streamed) = (&exchange.conversation.sampling, exchange.request.stream);
            Attempt::begin(trace, client.upstream(), upstream_model, sampling, is_streamed)
        });
        let Exchange {
            dialect,
            left_out,
            conversation,
            request,
            starts_in_reasoning,
            answering,
            hops,
            hosted,
            keeper,
            command,
            made,
        } = exchange;
        let observer =
            attempt.as_ref().and_then(|_| Observer::new(&self.capabilities, model, &conversation.model));
        let begun = Instant::now();
        let size = request.body.len().max(body.len());
        let (prefill, key) = (request.prefill.clone(), request.key.clone());
        let is_command = command.is_some();
        let (opening, pipeline) = match (command, made) {
            (Some(command), _) => {
                let pipeline = command::pipeline(model, dialect, &conversation, &answering);
                (command.open(&client, seed()), pipeline)
            }
            (None, made) => {
                let context = attempt.as_ref().and_then(Attempt::context);
                let opening: upstream::Opening = match made {
                    Some(body) => Box::pin(ready(Ok(client.made(body)))),
                    None => client.traced(context).begin(request, caller.claimant()).await,
                };
                let rules = exchange::rules(model, &conversation.model, &answering, starts_in_reasoning);
                let pipeline = if large::is_large(size) {
                    let (rules, formats) = (rules.into_owned(), Arc::clone(&model.formats));
                    let (reader, writer) =
                        (exchange::reader(model, dialect), dialect.side().writer(&answering));
                    // The closure owns the conversation, so that dropping a large one does not block this thread.
                    let make =
                        move || Pipeline::new(&conversation, &rules, &formats, reader, writer, &answering);
                    large::apart(make).await?
                } else {
                    exchange::pipeline((model, &rules), dialect, &conversation, &answering)
                };
                (opening, pipeline)
            }
        };
        let mut pipeline = pipeline.redacting(self.redactor.clone());
        pipeline.write_in_pieces();
        pipeline.expect_prefill(prefill);
        pipeline.expect_key(key.filter(|_| !is_command));
        pipeline.leaves_out(&left_out);
        if let Some(hosted) = &hosted {
            pipeline.host(hosted.rules());
            pipeline.keep_state(model.wants_back());
        } else if let Some(keeper) = &keeper {
            pipeline.keep_state(keeper.wants());
        }
        if let Some(report) = &report {
            pipeline.observe_text(report.kept_text());
        } else if caller.account.is_some() {
            pipeline.observe_text(0);
        }
        let stage = Stage::Opening(opening);
        let claimant = caller.claimant();
        Ok(StartedExchange {
            client,
            begun,
            attempt,
            stage,
            hops,
            size,
            observer,
            claimant,
            store,
            keeper,
            pipeline,
            watch,
            report,
        })
    }

    /// The report of the exchange for the event feed and the audit file, if there may be subscribers.
    fn report(
        &self,
        (model, exchange): (&Model, &Exchange),
        client: &Client,
        (id, caller): (&ExchangeId, &Caller),
    ) -> Option<ExchangeReport> {
        let audit = self.audit.as_ref()?;
        let asked_name = exchange.conversation.model.as_str();
        let opening = report::Opening {
            exchange: id,
            model: asked_name,
            key: caller.label(),
            client: exchange.dialect,
            upstream: &client.upstream().name,
            upstream_dialect: client.upstream().dialect().name(),
            upstream_model: model.upstream_name(asked_name),
            tools: exchange.hosted.as_ref().map_or_else(Vec::new, |hosted| hosted.tool_names()),
        };
        let observe = |begin: &ExchangeBegin<'_>| self.configured.as_ref()?.observe(begin);
        Some(ExchangeReport::new(audit, observe, opening, exchange.command.is_none()))
    }

    /// The observers of the exchange's bytes: a recording, an extension, or both.
    fn watch(
        &self,
        (model, exchange): (&Model, &Exchange),
        client: &Client,
        (body, id): (&Bytes, &ExchangeId),
        report: Option<&ExchangeReport>,
    ) -> Option<Box<dyn Watch>> {
        let tap = self.tap.as_ref().filter(|_| exchange.asks_upstream());
        // Exchanges without a request to an upstream cannot be replayed, and an encrypted response cannot be read
        // again without its key.
        let is_readable = exchange.command.is_none() && exchange.request.key.is_none();
        let captures = report.and_then(ExchangeReport::captures).filter(|_| is_readable);
        if tap.is_none() && captures.is_none() {
            return None;
        }
        let Exchange { conversation, answering, starts_in_reasoning, .. } = exchange;
        let rules = exchange::rules(model, &conversation.model, answering, *starts_in_reasoning);
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
        let capture = captures.and_then(|observer| observer.watch(&opening, &self.redactor));
        match (tap.and_then(|tap| tap.begin(&opening)), capture) {
            (Some(tap), Some(capture)) => Some(Box::new(FanOut(tap, capture))),
            (tap, capture) => tap.or(capture),
        }
    }
}

/// A request that has been read. If it is large, the steps that traverse all of it have run on the other thread.
struct Read {
    conversation: Conversation,
    demand: Option<RequestDemand>,
    affinity: Option<u64>,
}

/// Decodes a request, on another thread if it is large.
pub(super) async fn decode(dialect: ClientDialect, body: &Bytes) -> Result<Conversation, Failure> {
    if !large::is_large(body.len()) {
        return exchange::decode(dialect, body);
    }
    let body = body.clone();
    large::apart(move || exchange::decode(dialect, &body)).await?
}

/// A seed that cannot be guessed from earlier ones.
fn secret_seed() -> u64 {
    let mut bytes = [0; 8];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => seed(),
    }
}
