//! Requests for a model's response, from the body to the request to the upstream.
//!
//! ```text
//! body ─▶ who, which model, limits ─▶ (images described, results awaited) ─exchange─▶ upstream asked ─▶ AnswerBody
//!                                                   ▲ another model, if this one fails before any content
//! ```

use std::{future::ready, mem, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Response};
use tracing::Instrument;

use super::{
    super::{
        answer::{AnswerBody, Parts, StartedExchange},
        auth::Caller,
        betas::Betas,
        budget::Reservation,
        command::{self, Command},
        count, drain,
        exchange::{self, DecodedRequest, Exchange, SharedState},
        extension::RequestBody,
        failover::{self, Attempts, Plan},
        hops::EarlierHops,
        large,
        limits::{Account, RequestDemand},
        reply::{self, ReplyBody},
        request as checks,
        stamp::{seed, unix_time},
        stored_responses::{self, RecordInput},
        tool_search,
    },
    Refused, Service, admit,
    opening::ReadyExchange,
};
use crate::observe::{self, Access};
use toolwire_config::Model;
use toolwire_execution::{ClientTools, ExchangeId, Started, vision, without_secrets};
use toolwire_net::telemetry::{Parent, within};
use toolwire_pipeline::{
    conversation::Conversation,
    dialect::{Answering, ClientDialect, Ids, Stamp, Target},
    failure::Failure,
    pipeline::Pipeline,
    rules::Reasoning,
};

#[derive(Clone)]
struct ModelRequest {
    id: ExchangeId,
    dialect: ClientDialect,
    caller: Caller,
    /// The client's own setting for reasoning, if it sent one.
    reasoning: Option<Reasoning>,
    /// The beta features that the client requests.
    betas: Option<Betas>,
    /// The session of the client's own account, if it sent one.
    session: Option<Box<HeaderMap>>,
    body: Bytes,
    /// The parent of the spans of requests to upstreams.
    trace: Option<Parent>,
    /// When the request arrived, as Unix time in seconds.
    now: u64,
    /// The hops after which the request goes on, if there are any.
    earlier: Option<Box<EarlierHops>>,
}

impl ModelRequest {
    /// The request with its `conversation`. `is_as_sent` is set if that is what the body contains.
    fn decoded(
        &self,
        conversation: Box<Conversation>,
        stamp: Stamp,
        is_as_sent: bool,
        client_tools: ClientTools,
    ) -> DecodedRequest<'_> {
        let Self { id, dialect, caller, reasoning, body, earlier, .. } = self;
        DecodedRequest {
            id,
            caller,
            dialect: *dialect,
            received: body,
            is_as_sent,
            conversation,
            reasoning: *reasoning,
            stamp,
            earlier: earlier.clone(),
            client_tools,
        }
    }
}

/// A client's request with its complete body, and the memory reserved for it.
#[derive(Debug)]
pub(super) struct ClientRequest<'r> {
    pub(super) id: ExchangeId,
    pub(super) dialect: ClientDialect,
    pub(super) caller: Caller,
    pub(super) headers: &'r HeaderMap,
    pub(super) body: Bytes,
    pub(super) memory: Reservation,
}

impl Service {
    /// Handles a request for a model's response until its upstream is asked.
    pub(super) async fn generate(
        self: &Arc<Self>,
        dialect: ClientDialect,
        target: Target<'_>,
        caller: Caller,
        headers: &HeaderMap,
        body: RequestBody<'_>,
        access: Access,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        if !self.shared.drain.is_serving() {
            return Err(reply::error(drain::refusal(), dialect, access));
        }
        match self.read_whole(dialect, &target, &caller, headers, body).await {
            // On the heap, since a future is moved once for each function that it is part of.
            Ok(read) => Box::pin(self.generate_read(dialect, caller, headers, read, access)).await,
            Err(failure) => Err(reply::error(failure, dialect, access)),
        }
    }

    /// Reads the body of a request, and adds what its path says and the history to which it refers.
    pub(super) async fn read_whole(
        self: &Arc<Self>,
        dialect: ClientDialect,
        target: &Target<'_>,
        caller: &Caller,
        headers: &HeaderMap,
        body: RequestBody<'_>,
    ) -> Result<(Bytes, Reservation), Failure> {
        let (body, memory) = body.read(self, headers, None).await?;
        let body = dialect.side().complete(body, target)?;
        let responses = &self.shared.stored.responses;
        Ok((responses.with_history(dialect, caller.owner, body, None, unix_time()).await?, memory))
    }

    /// Handles a request that has been read with its history, until its upstream is asked.
    pub(super) async fn generate_read(
        self: &Arc<Self>,
        dialect: ClientDialect,
        caller: Caller,
        headers: &HeaderMap,
        (body, memory): (Bytes, Reservation),
        mut access: Access,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        let id = self.exchange_id(access.id());
        match self.ask(ClientRequest { id, dialect, caller, headers, body, memory }, &mut access).await {
            Ok(parts) => Ok(self.answer_body(parts, access)),
            Err(refused) => Err(refused.response(dialect, access)),
        }
    }

    /// The body of a response.
    pub(super) fn answer_body(&self, parts: Parts, access: Access) -> Pin<Box<AnswerBody>> {
        let (keep_alive, cut) = (self.shared.config.limits.keep_alive, self.shared.drain.when_cut());
        Box::pin(AnswerBody::new(parts, access, keep_alive, cut))
    }

    /// Creates the ids of a request's exchange. The exchange has an id of its own only if there may be subscribers.
    pub fn exchange_id(&self, request: &str) -> ExchangeId {
        let own = self
            .shared
            .monitors
            .audit
            .as_ref()
            .map(|_| Ids::new(seed(), 0).next("ex_").into())
            .unwrap_or_default();
        ExchangeId { own, request: request.into() }
    }

    /// Asks the upstream for the response to a request, whose body includes its history. If other requests are needed to prepare it, only starts them.
    pub(super) async fn ask(
        self: &Arc<Self>,
        request: ClientRequest<'_>,
        access: &mut Access,
    ) -> Result<Parts, Refused> {
        let ClientRequest { id, dialect, caller, headers, body, memory } = request;
        let (owner, now) = (caller.owner, unix_time());
        let reasoning = checks::reasoning(headers)?;
        let Read { conversation, demand, affinity } = self.read(dialect, &caller, &body).await?;
        let (stream, is_held) = (conversation.stream, conversation.stored);
        access.asked(&conversation.model, stream);
        caller.check_model(&conversation.model)?;
        exchange::check_multipliers(&conversation, self.shared.config.limits.max_n)?;
        let demand = |account: &Account| demand.unwrap_or_else(|| self.demand(account, &conversation));
        let allowance = admit(&caller, demand, dialect).await?;
        let model = exchange::model(&self.shared.config, dialect, &conversation)?;
        if let Some(made) = dialect.side().made(&conversation, &self.stamp()) {
            return Err(Refused::Made(made));
        }
        let may = |model: &str| caller.check_model(model).is_ok();
        let affinity = || affinity.unwrap_or_else(|| failover::affinity(&conversation, owner));
        let plan = self.shared.failover.plan(&self.shared.config, model, affinity, caller.claimant(), may);
        let label = self.shared.extensions.configured.as_ref().and_then(|_| caller.label());
        let session = self.session(headers).map(Box::new);
        let betas = Betas::of_request(headers, dialect, is_held);
        let trace = access.trace();
        let earlier = self.shared.stored.hops.take(owner, dialect, &body);
        let asked =
            ModelRequest { id, dialect, caller, reasoning, betas, session, body, trace, now, earlier };
        let attempts = plan.map(|plan| self.attempts(&asked, &model.name, plan));
        let target =
            attempts.as_ref().map(|attempts| attempts.target()).filter(|target| *target != model.name);
        let model = target.and_then(|target| self.shared.config.model(target)).unwrap_or(model);
        let exchange = match self.start(&asked, conversation, model, target, access).await {
            Ok(exchange) => exchange,
            Err(failure) if attempts.is_some() => self.unbegun(model, &asked, failure).await?,
            Err(failure) => return Err(failure.into()),
        };
        access.routed(&model.name, &model.upstream);
        if self.shared.extensions.configured.is_some() {
            access.show(dialect, label);
        }
        Ok(Parts { stream, allowance, memory, exchange, attempts })
    }

    /// Returns the models that may answer a request for the entry with this name. The first of them is asked now.
    fn attempts(
        self: &Arc<Self>,
        asked: &ModelRequest,
        entry: &str,
        plan: Plan,
    ) -> Box<Attempts<StartedExchange>> {
        let overloaded = asked.dialect.side().overloaded_status();
        let (own, asked, entry) = (Arc::clone(self), asked.clone(), entry.to_owned());
        let begin = move |target: String, earlier: Option<_>| -> failover::Beginning<StartedExchange> {
            let (own, mut asked) = (Arc::clone(&own), asked.clone());
            asked.earlier = earlier.or(asked.earlier);
            let target = (target != entry).then_some(target);
            Box::pin(async move {
                let conversation = decode(asked.dialect, &asked.body).await?;
                own.begin_exchange(&asked, conversation, target.as_deref()).await
            })
        };
        Box::new(Attempts::new(Arc::clone(&self.shared.failover), plan, Box::new(begin), overloaded))
    }

    /// Starts the exchange with `model`. If other requests are needed first, which may take long, only starts those.
    /// `target` is the entry of the model, if that is not the requested one.
    async fn start(
        self: &Arc<Self>,
        asked: &ModelRequest,
        conversation: Box<Conversation>,
        model: &Model,
        target: Option<&str>,
        access: &Access,
    ) -> Result<StartedExchange, Failure> {
        let is_awaited = |execution: &Arc<Started>| execution.is_awaited(&conversation, asked.caller.owner);
        let names_servers = |execution: &Arc<Started>| {
            exchange::serves_client_servers(model, &conversation) && execution.admits_servers(&conversation)
        };
        let must_wait = self.describer(model, &conversation).is_some()
            || self
                .shared
                .hosting
                .execution
                .as_ref()
                .is_some_and(|own| is_awaited(own) || names_servers(own));
        if !must_wait {
            // Boxed, since it would make the futures around it several times larger, which are moved.
            return Box::pin(self.begin_exchange(asked, conversation, target)).await;
        }
        let pipeline = self.preparing_pipeline(model, asked.dialect, &conversation);
        let (own, asked, target) = (Arc::clone(self), asked.clone(), target.map(str::to_owned));
        let preparing = async move { own.begin_exchange(&asked, conversation, target.as_deref()).await };
        let preparing = Box::pin(within(access.trace(), preparing.instrument(access.span().clone())));
        let client = Arc::clone(self.client(&model.upstream)?);
        Ok(StartedExchange::preparing(client, preparing, pipeline))
    }

    /// Decodes a request, on another thread if it is large.
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
            let model = own.shared.config.model(&conversation.model);
            let has_others = model.is_some_and(|model| model.alternatives.is_some());
            let affinity = has_others.then(|| failover::affinity(&conversation, owner));
            Ok(Read { conversation, demand, affinity })
        };
        large::apart(read).await?
    }

    /// Handles a request that cannot be sent to `model` but may be answered by another model.
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

    /// Creates the pipeline that writes keep-alives, or the error, while a request is being prepared.
    fn preparing_pipeline(
        &self,
        model: &Model,
        dialect: ClientDialect,
        conversation: &Conversation,
    ) -> Box<Pipeline> {
        let answering = Answering::new(conversation, self.stamp());
        let mut pipeline = command::pipeline(model, dialect, conversation, &answering);
        pipeline.redact_with(self.shared.monitors.redactor.clone());
        pipeline
    }

    /// Prepares a decoded request and sends it to its upstream. `target` is the configured model that answers, if it is
    /// not the requested one.
    async fn begin_exchange(
        self: &Arc<Self>,
        asked: &ModelRequest,
        mut conversation: Box<Conversation>,
        target: Option<&str>,
    ) -> Result<StartedExchange, Failure> {
        let ModelRequest { id, dialect, caller, betas, session, body, trace, now, earlier, .. } = asked;
        let (dialect, owner, now) = (*dialect, caller.owner, *now);
        let continues = earlier.as_ref().is_some_and(|earlier| earlier.continues);
        let requested = target.map(|target| mem::replace(&mut conversation.model, target.to_owned()));
        let model = exchange::model(&self.shared.config, dialect, &conversation)?;
        let client = self.client(&model.upstream)?.of_request(session.as_deref())?.with_betas(betas.as_ref());
        if tool_search::depends_on_server(model, dialect, &conversation) {
            self.shared.capabilities.servers.recognise(&model.upstream).await;
        }
        let describer = self.describer(model, &conversation);
        let is_completed = match &self.shared.hosting.execution {
            Some(execution) => execution
                .complete(&mut conversation, owner)
                .await
                .map_err(|error| stored_responses::away(&error))?,
            None => false,
        };
        if let Some(execution) = self.shared.hosting.execution.as_ref().filter(|_| model.execution) {
            execution.await_key(caller.payer().as_ref().map(|payer| payer.name())).await;
        }
        let client_tools = match &self.shared.hosting.execution {
            Some(execution) if exchange::serves_client_servers(model, &conversation) => {
                execution.client_tools(&mut conversation).await?
            }
            _ => ClientTools::default(),
        };
        let added = earlier.as_ref().map_or(0, |earlier| earlier.size());
        let is_large = large::is_large(body.len().saturating_add(added));
        if let Some(states) = self.shared.stored.turns.of_model(owner, model) {
            states.fetch(&mut conversation, is_large).await?;
        }
        if let Some(describer) = &describer {
            conversation = Box::pin(self.described(conversation, describer, asked)).await?;
        }
        // A request that was changed is stored in its new form: later hops need the same additions, and images must not
        // be described twice.
        // What is recorded of the request.
        let shown = client_tools.have_servers().then(|| without_secrets(body)).flatten().map(Bytes::from);
        let is_as_sent =
            !is_completed && describer.is_none() && target.is_none() && !client_tools.have_servers();
        let stamp = self.stamp();
        let (mut exchange, input) = if is_large {
            let (own, asked) = (Arc::clone(self), asked.clone());
            let prepare = move || {
                let exchange = own.prepare(asked.decoded(conversation, stamp, is_as_sent, client_tools))?;
                let is_stored = exchange.answering.stored;
                let input = is_stored.then(|| dialect.side().record_input(&asked.body)).flatten();
                Ok::<_, Failure>((exchange, input))
            };
            large::apart(prepare).await??
        } else {
            (self.prepare(asked.decoded(conversation, stamp, is_as_sent, client_tools))?, None)
        };
        if let Some(requested) = requested {
            // If the upstream does not name its model, the client sees the name that it requested.
            exchange.answering.model = requested;
        }
        self.shared.monitors.metrics.dropped_fields(&client.upstream().name, &exchange.request.dropped);
        if !exchange.left_out.is_empty() {
            self.shared.monitors.metrics.tools_left_out(&model.name, exchange.left_out.len());
            observe::tools_left_out(&id.request, &model.name, &exchange.left_out);
        }
        let wanted = exchange.answering.stored;
        let input = || input.map_or_else(|| RecordInput::In(body.clone()), RecordInput::Found);
        let store =
            wanted.then(|| self.shared.stored.responses.keeper(dialect, owner, input(), now)).flatten();
        exchange.answering.stored = store.is_some();
        let trace = trace.as_ref();
        let body = shown.as_ref().unwrap_or(body);
        self.open(ReadyExchange { model, exchange, client, caller, id, body, store, trace, continues }).await
    }

    /// Returns the conversation with its images described by the model `describer`.
    async fn described(
        &self,
        conversation: Box<Conversation>,
        describer: &str,
        asked: &ModelRequest,
    ) -> Result<Box<Conversation>, Failure> {
        let ModelRequest { id, caller, body, .. } = asked;
        let (owner, model) = (caller.owner, describer.to_owned());
        let read = move || (vision::digests(&conversation, owner, &model), conversation);
        let (digests, mut conversation) =
            if large::is_large(body.len()) { large::apart(read).await? } else { read() };
        let describer =
            vision::Describer { ask: &self.asking, model: describer, payer: caller.payer(), exchange: id };
        self.shared.hosting.vision.describe(&mut conversation, digests, describer).await;
        Ok(conversation)
    }

    /// Prepares a conversation with the state that requests of this service share, see [`exchange::prepare`].
    fn prepare(&self, request: DecodedRequest<'_>) -> Result<Exchange, Failure> {
        let shared = SharedState {
            config: &self.shared.config,
            capabilities: &self.shared.capabilities,
            states: &self.shared.stored.turns,
            execution: self.shared.hosting.execution.as_deref().map(|started| &**started),
            hops: &self.shared.stored.hops,
            vision: Some((&self.shared.hosting.vision, &self.asking)),
        };
        exchange::prepare(shared, request)
    }

    /// Returns what a request needs of its client's limits.
    fn demand(&self, account: &Account, conversation: &Conversation) -> RequestDemand {
        if self.is_command(conversation) {
            return RequestDemand { takes_place: true, ..RequestDemand::PLAIN };
        }
        // A rough estimate is enough if no limit depends on it.
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

    /// Whether the newest message is a command for toolwire instead of a request for the model.
    fn is_command(&self, conversation: &Conversation) -> bool {
        let execution = self.shared.hosting.execution.as_ref();
        execution.is_some_and(|execution| Command::parts(execution, conversation).is_some())
    }

    /// The model that must describe the images of the conversation, if there are images and `model` does not accept
    /// them.
    fn describer(&self, model: &Model, conversation: &Conversation) -> Option<String> {
        let describer = model.vision.as_ref()?;
        (vision::has_images(conversation) && !self.is_command(conversation)).then(|| describer.clone())
    }
}

/// A decoded request. If it is large, all steps that traverse it have run on another thread.
struct Read {
    conversation: Box<Conversation>,
    demand: Option<RequestDemand>,
    affinity: Option<u64>,
}

/// Decodes a request, on another thread if it is large.
pub(super) async fn decode(dialect: ClientDialect, body: &Bytes) -> Result<Box<Conversation>, Failure> {
    if !large::is_large(body.len()) {
        return exchange::decode(dialect, body);
    }
    let body = body.clone();
    large::apart(move || exchange::decode(dialect, &body)).await?
}
