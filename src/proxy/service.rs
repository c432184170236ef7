//! [`Service`]: the state that requests share, and how each is handled.

mod management;

use std::{
    collections::HashMap,
    convert::Infallible,
    future::poll_fn,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header, request};
use hyper::body::{Body as _, Incoming};
use ring::rand::{SecureRandom, SystemRandom};

use crate::{
    config::{Config, Limits},
    conversation::Conversation,
    dialect::{self, ClientDialect, Ids, Stamp},
    execute::{
        Audit, Execution, Observer, Started, Surroundings,
        ask::Ask,
        key_mark,
        vision::{self, Vision},
    },
    failure::{Failure, Kind, Redact},
    observe::{Access, Metrics},
    redact::Redactor,
    store::Owner,
};

use super::{
    ServeError,
    admin::Admin,
    answer::{self, AnswerBody},
    asking::ConfiguredModels,
    auth::{self, ClientKey},
    budget::{Budget, Reservation},
    command::{self, Command},
    cors::{self, Grant},
    count,
    drain::{self, Drain},
    exchange::{self, Exchange, Known, Who},
    images, intake,
    learned::{Learned, LearnedMeans},
    models::Models,
    passthrough::{self, PassedBody, Prepared},
    permits::Queue,
    reply::{self, ReplyBody},
    report::{self, ExchangeReport},
    request as checks,
    routes::{self, Route},
    servers::Servers,
    stored::{self, Part, ResponseKeeper, Responses},
    tap::{Opening, Tap},
    turn_states::TurnStates,
    upstream::Client,
};

/// The longest request id that is accepted from a client, in bytes.
const MAX_REQUEST_ID: usize = 128;

/// Whether bytes of a request may be unread. They must not be read as the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    None,
    Unread,
}

/// The state that all requests of a thread share. All of it except the connections is shared by all threads.
#[derive(Debug)]
pub(super) struct Service {
    config: Arc<Config>,
    /// By the upstreams' names.
    clients: HashMap<String, Arc<Client>>,
    models: Arc<Models>,
    learned: Arc<Learned>,
    responses: Responses,
    states: Arc<TurnStates>,
    /// The stage that runs hosted tools, if there is one.
    execution: Option<Arc<Started>>,
    /// Describes images for models that cannot see.
    vision: Arc<Vision>,
    /// Asks models from inside, on this thread.
    asking: Arc<dyn Ask>,
    /// The bus of events, if anyone may hear them.
    audit: Option<Arc<Audit>>,
    /// The admin API, if there is one.
    admin: Option<Arc<Admin>>,
    metrics: Arc<Metrics>,
    tap: Option<Arc<dyn Tap>>,
    redactor: Arc<Redactor>,
    drain: Arc<Drain>,
    /// For request bodies.
    budget: Arc<Budget>,
}

impl Service {
    /// A service for `config`.
    ///
    /// # Errors
    /// If no request to an upstream can be written, or hosted tools have no thread.
    pub(super) fn new(config: Arc<Config>, tap: Option<Arc<dyn Tap>>) -> Result<Self, ServeError> {
        let metrics = Arc::new(Metrics::new(config.metrics.tool_names));
        let redactor = Arc::new(Redactor::new(config.secrets()));
        let clients = config.upstreams.iter().map(|upstream| {
            let name = upstream.name.clone();
            let queue = Queue::new(upstream.queue.clone(), metrics.waiting(&name));
            let client =
                Client::new(Arc::clone(upstream), Arc::new(queue), metrics.unsolicited(&name), &redactor)
                    .map_err(|error| ServeError::Upstream { name: name.clone(), error })?;
            Ok((name, Arc::new(client)))
        });
        let clients: HashMap<_, _> = clients.collect::<Result<_, ServeError>>()?;
        let models = Arc::new(Models::new(Arc::clone(&config), unix_time())?);
        let budget = Arc::new(Budget::new(config.limits.max_pending_bodies));
        let servers = Servers::new(&config).map_err(|(name, error)| ServeError::Upstream { name, error })?;
        let learned = Arc::new(Learned { means: LearnedMeans::new(Arc::clone(&metrics)), servers });
        let asking = ConfiguredModels::new(&config, &learned, clients.clone());
        let responses = Responses::new(&config, &metrics);
        let states = TurnStates::new(config.limits.max_turn_state, config.limits.turn_state_ttl);
        let audit = (config.execution.is_some() || config.admin.is_some()).then(|| {
            let observed = Arc::clone(&metrics);
            let observer: Observer = Box::new(move |record| observed.hosted(record));
            Arc::new(Audit::new(Arc::clone(&redactor), Some(observer)))
        });
        let execution = config.execution.as_ref().zip(audit.clone()).map(|(settings, audit)| {
            // The tools run on a thread of their own.
            let own = clients.iter().map(|(name, client)| (name.clone(), Arc::new(client.sibling())));
            let models = ConfiguredModels::new(&config, &learned, own.collect());
            let models: Option<Arc<dyn Ask>> = Some(Arc::new(models));
            let (redactor, state_dir) = (Arc::clone(&redactor), config.state_dir.clone());
            let around = Surroundings { redactor, state_dir, images: metrics.images(), audit, models };
            Execution::start(Arc::clone(settings), around)
        });
        let execution = execution.transpose().map_err(ServeError::Thread)?.map(Arc::new);
        let started = execution.as_deref().map(|started| &**started);
        let admin = Admin::new(&config, started, audit.as_ref()).map_err(ServeError::Thread)?.map(Arc::new);
        Ok(Self {
            config,
            clients,
            models,
            learned,
            responses,
            states: Arc::new(states),
            execution,
            vision: Arc::default(),
            asking: Arc::new(asking),
            audit,
            admin,
            metrics,
            tap,
            redactor,
            drain: Arc::default(),
            budget,
        })
    }

    /// A service for another thread, with its own connections to upstreams and everything else shared.
    pub(super) fn sibling(&self) -> Self {
        let clients = self.clients.iter().map(|(name, client)| (name.clone(), Arc::new(client.sibling())));
        let clients: HashMap<_, _> = clients.collect();
        let asking = ConfiguredModels::new(&self.config, &self.learned, clients.clone());
        Self {
            config: Arc::clone(&self.config),
            clients,
            vision: Arc::clone(&self.vision),
            asking: Arc::new(asking),
            metrics: Arc::clone(&self.metrics),
            tap: self.tap.clone(),
            redactor: Arc::clone(&self.redactor),
            drain: Arc::clone(&self.drain),
            models: Arc::clone(&self.models),
            learned: Arc::clone(&self.learned),
            responses: self.responses.clone(),
            states: Arc::clone(&self.states),
            execution: self.execution.clone(),
            audit: self.audit.clone(),
            admin: self.admin.clone(),
            budget: Arc::clone(&self.budget),
        }
    }

    /// The execution stage, if it is configured.
    pub(super) fn execution(&self) -> Option<&Arc<Started>> {
        self.execution.as_ref()
    }

    /// The server's shutdown.
    pub(super) fn drain(&self) -> &Arc<Drain> {
        &self.drain
    }

    /// Takes note of the addresses on which the server listens: links to generated images lead there.
    pub(super) fn listens_on(&self, addresses: &[SocketAddr]) {
        let files = self.execution.as_ref().and_then(|execution| execution.files());
        if let (Some(files), Some(address)) = (files, addresses.first()) {
            files.reached_at(&images::base_url(*address));
        }
    }

    /// A new code with which a browser may sign in to the admin API once. `None`: no key is needed, or there is no such API.
    pub(super) fn sign_in_code(&self) -> Option<String> {
        self.admin.as_ref()?.issue_code()
    }

    /// The names of the hosted tools, and of the providers whose tools are not known yet.
    pub(super) fn hosted_tools(&self) -> (Vec<String>, Vec<String>) {
        self.execution.as_ref().map(|execution| execution.registry().names()).unwrap_or_default()
    }

    /// The configured limits.
    pub(super) fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// Counts a connection or HTTP/2 stream that is closed because the client read nothing for too long.
    pub(super) fn client_stalled(&self) {
        self.metrics.client_stalled();
    }

    /// Closes connections to upstreams that have been idle for too long.
    pub(super) fn sweep(&self) {
        self.clients.values().for_each(|client| client.sweep());
    }

    /// Handles one request.
    pub(super) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Response<ReplyBody>, Infallible> {
        Ok(match self.begin(request, peer).await {
            Ok(mut answer) => {
                let committed = poll_fn(|cx| answer.as_mut().poll_commit(cx)).await;
                let (head, answer) = reply::answer(answer, committed);
                Response::from_parts(head, ReplyBody::AnswerBody(answer))
            }
            Err(response) => response,
        })
    }

    /// Handles one request of `peer` as far as that does not depend on an upstream.
    ///
    /// # Errors
    /// The response, if it does not come from an upstream. Otherwise the upstream was asked, and the request itself has been
    /// dropped.
    pub(super) async fn begin(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        let id = request_id(request.headers());
        let path = request.uri().path();
        let route = Route::find_with(path, &self.config.passthrough).filter(|route| self.has(route));
        let name = route.as_ref().map_or("unknown", Route::name);
        let shown = route.as_ref().map_or(path, |route| route.shown(path));
        let access =
            Access::new(Arc::clone(&self.metrics), id.clone(), request.method().clone(), shown, name);
        let head = request.method() == Method::HEAD;
        let grant = match route {
            Some(Route::Admin) => Grant::default(),
            _ => Grant::new(&self.config.cors_origins, request.headers()),
        };
        let version = request.version();
        let mut rest = if request.body().is_end_stream() { Rest::None } else { Rest::Unread };
        match self.respond(route, (request, peer), &grant, &mut rest, access).await {
            Ok(mut answer) => {
                answer.as_mut().grant(grant);
                Ok(answer)
            }
            Err(response) => {
                let mut response = if head { reply::without_body(response) } else { response };
                reply::put_request_id(response.headers_mut(), &id);
                grant.put(response.headers_mut());
                if rest == Rest::Unread && version < Version::HTTP_2 {
                    reply::close(response.headers_mut());
                }
                Err(response)
            }
        }
    }

    async fn respond(
        &self,
        route: Option<Route>,
        (request, peer): (Request<Incoming>, IpAddr),
        grant: &Grant,
        rest: &mut Rest,
        access: Access,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        let (head, body) = request.into_parts();
        let dialect = route.as_ref().map_or(routes::DEFAULT_DIALECT, Route::dialect);
        if let Err(failure) = checks::check(&head) {
            *rest = Rest::Unread;
            return Err(reply::error(failure, dialect, access));
        }
        if let (Some(Route::Admin), Some(admin)) = (&route, &self.admin) {
            return Err(Box::pin(self.administer(admin, (&head, body, peer), rest, access)).await);
        }
        if grant.is_preflight(&head.method, &head.headers) {
            let methods = route.as_ref().map_or(routes::ANY_METHOD, Route::methods);
            let mut response = reply::options(methods, access);
            cors::put_preflight(response.headers_mut(), methods, &head.headers);
            return Err(response);
        }
        let Some(route) = route else {
            let (dialect, failure) = routes::not_found(head.uri.path());
            return Err(reply::error(failure, dialect, access));
        };
        if head.method == Method::OPTIONS {
            return Err(reply::options(route.methods(), access));
        }
        if !route.allows(&head.method) {
            return Err(method_not_allowed(&route, &head.method, access));
        }
        let keys = &self.config.api_keys;
        let authorized = match self.session(&head.headers) {
            Some(session) => auth::authorize_session(keys, &head.headers, &session),
            None => auth::authorize(keys, &head.headers),
        };
        let client = match authorized {
            Ok(client) => client,
            Err(_) if !route.needs_key() => ClientKey::default(),
            Err(failure) => return Err(reply::error(failure, dialect, access)),
        };
        // hyper moves the future of a request several times. It stays small since those of the routes are on the heap.
        Err(match route {
            Route::Generate(_) => {
                return Box::pin(self.generate((dialect, client), (&head.headers, body), rest, access)).await;
            }
            Route::CountTokens(_) => {
                Box::pin(self.count_tokens(dialect, (&head.headers, body), rest, access)).await
            }
            Route::Stored(_, id) if head.method == stored::DELETE => {
                Box::pin(self.delete(dialect, (self.owner(&head.headers), &id), access)).await
            }
            Route::Stored(_, id) => {
                Box::pin(self.stored(dialect, (self.owner(&head.headers), &id), Part::Response, access)).await
            }
            Route::StoredInput(_, id) => {
                Box::pin(self.stored(dialect, (self.owner(&head.headers), &id), Part::Input, access)).await
            }
            Route::Passthrough(path) => Box::pin(self.pass_through(&path, (&head, body), rest, access)).await,
            Route::Programs(path) => Box::pin(self.program(&path, (&head, body), rest, access)).await,
            // It was answered before, or there is none.
            Route::Admin => {
                let (dialect, failure) = routes::not_found(head.uri.path());
                reply::error(failure, dialect, access)
            }
            Route::Root => text(StatusCode::OK, routes::directions() + "\n", access),
            Route::Models => reply::json(&self.models.list().await, access),
            Route::Model(id) => match self.models.find(&id).await {
                Some(model) => reply::json(&model, access),
                None => reply::error(dialect.side().unknown_model(&id), dialect, access),
            },
            Route::Image(name) => {
                let files = self.execution.as_ref().and_then(|execution| execution.files());
                Box::pin(images::respond(files, name, access)).await
            }
            Route::Health => text(StatusCode::OK, "ok\n", access),
            Route::Ready if self.drain.is_serving() => text(StatusCode::OK, "ready\n", access),
            Route::Ready => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n", access),
            Route::Metrics => {
                let content_type = HeaderValue::from_static(Metrics::CONTENT_TYPE);
                reply::plain(StatusCode::OK, content_type, self.metrics.text(), access)
            }
        })
    }

    /// Whether there is something at the route in this configuration.
    fn has(&self, route: &Route) -> bool {
        match route {
            Route::Admin => self.admin.is_some(),
            Route::Programs(_) => {
                self.execution.as_ref().is_some_and(|execution| !execution.registrations().is_empty())
            }
            _ => true,
        }
    }

    /// Whose stored responses a client may read.
    fn owner(&self, headers: &HeaderMap) -> Owner {
        match self.session(headers) {
            Some(session) => auth::owner_of_session(&session),
            None => auth::owner(&self.config.api_keys, headers),
        }
    }

    /// The session of the client's own account, if the request has one and there is an upstream for it.
    fn session(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        self.config.takes_sessions().then(|| dialect::brought(headers)).flatten()
    }

    /// A request for a stored response, or for its input.
    async fn stored(
        &self,
        dialect: ClientDialect,
        id: (Owner, &str),
        part: Part,
        access: Access,
    ) -> Response<ReplyBody> {
        match self.responses.find(dialect, id, part, unix_time()).await {
            Ok(body) => reply::json_text(body, access),
            Err(failure) => reply::error(failure, dialect, access),
        }
    }

    /// A request to delete a stored response.
    async fn delete(
        &self,
        dialect: ClientDialect,
        (owner, id): (Owner, &str),
        access: Access,
    ) -> Response<ReplyBody> {
        match self.responses.delete(owner, id, unix_time()).await {
            Ok(()) => {
                reply::json(&serde_json::json!({"id": id, "object": "response", "deleted": true}), access)
            }
            Err(failure) => reply::error(failure, dialect, access),
        }
    }

    /// A request for a model's response, up to the point where its upstream is asked.
    async fn generate(
        &self,
        (dialect, client): (ClientDialect, ClientKey),
        (headers, body): (&HeaderMap, Incoming),
        rest: &mut Rest,
        mut access: Access,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        if !self.drain.is_serving() {
            return Err(reply::error(drain::refusal(), dialect, access));
        }
        let bounds = intake::Bounds { limits: &self.config.limits, budget: &self.budget, drain: &self.drain };
        let (body, memory) = match intake::read(headers, body, bounds).await {
            Ok(read) => read,
            Err(failure) => return Err(reply::error(failure, dialect, access)),
        };
        *rest = Rest::None;
        let (owner, now) = (self.owner(headers), unix_time());
        let body = match self.responses.with_history(dialect, owner, body, now).await {
            Ok(body) => body,
            Err(failure) => return Err(reply::error(failure, dialect, access)),
        };
        match self.exchange(dialect, (client, owner), (headers, &body), &mut access).await {
            Ok((mut exchange, client)) => {
                let wanted = exchange.answering.stored;
                let keeper = wanted.then(|| self.responses.keeper(dialect, owner, &body, now)).flatten();
                exchange.answering.stored = keeper.is_some();
                Ok(self.answer(exchange, (client, keeper, owner), &body, memory, access).await)
            }
            Err(failure) => Err(reply::error(failure, dialect, access)),
        }
    }

    /// A request for the number of tokens that a request for a model's response would take.
    async fn count_tokens(
        &self,
        dialect: ClientDialect,
        (headers, body): (&HeaderMap, Incoming),
        rest: &mut Rest,
        mut access: Access,
    ) -> Response<ReplyBody> {
        let bounds = intake::Bounds { limits: &self.config.limits, budget: &self.budget, drain: &self.drain };
        let (body, _memory) = match intake::read(headers, body, bounds).await {
            Ok(read) => read,
            Err(failure) => return reply::error(failure, dialect, access),
        };
        *rest = Rest::None;
        let counted = exchange::decode(dialect, &body).and_then(|mut conversation| {
            access.asked(&conversation.model, false);
            let model = exchange::model(&self.config, dialect, &conversation)?;
            if let Some(execution) = self.execution.as_deref() {
                exchange::host((execution, model), &mut conversation, (self.owner(headers), access.id()));
            }
            exchange::settle_choice(model, &mut conversation)?;
            let (_, means) = self.learned.about(model, &conversation.model);
            Ok(count::tokens(&*exchange::sent(model, &conversation, (&means, unix_time()))?))
        });
        match counted {
            Ok(tokens) => reply::json(&dialect.side().token_count(tokens), access),
            Err(failure) => reply::error(failure, dialect, access),
        }
    }

    /// A request that goes to the upstream unread.
    async fn pass_through(
        &self,
        path: &str,
        (head, body): (&request::Parts, Incoming),
        rest: &mut Rest,
        mut access: Access,
    ) -> Response<ReplyBody> {
        let fail = |failure: Failure, access| {
            reply::error(failure.redacted(&*self.redactor), routes::DEFAULT_DIALECT, access)
        };
        if !self.drain.is_serving() {
            return fail(drain::refusal(), access);
        }
        if let Err(failure) = passthrough::check(head) {
            return fail(failure, access);
        }
        let bounds = intake::Bounds { limits: &self.config.limits, budget: &self.budget, drain: &self.drain };
        let (body, memory) = match intake::read(&head.headers, body, bounds).await {
            Ok(read) => read,
            Err(failure) => return fail(failure, access),
        };
        *rest = Rest::None;
        let prepared = match passthrough::prepare(&self.config, path, head, body) {
            Ok(prepared) => prepared,
            Err(failure) => return fail(failure, access),
        };
        let Prepared { model, asked, request } = prepared;
        if let Some(asked) = asked {
            access.asked(&asked, false);
        }
        let upstream = &model.upstream;
        let Some(client) = self.clients.get(&upstream.name) else {
            let message = format!("there is no client for upstream `{}`", upstream.name);
            return fail(Failure::new(Kind::Internal, message), access);
        };
        access.routed(&model.name, &upstream.name, upstream.dialect());
        let (begun, mut cut) = (tokio::time::Instant::now(), pin!(self.drain.when_cut()));
        let passed = tokio::select! {
            passed = client.pass(request) => passed,
            () = &mut cut => Err(drain::refusal()),
        };
        // The upstream has the request now.
        drop(memory);
        let passed = passed.and_then(|opened| Ok((passthrough::response_headers(&opened.head)?, opened)));
        let (headers, opened) = match passed {
            Ok(passed) => passed,
            Err(failure) => return fail(failure, access),
        };
        let status = opened.head.status;
        if status.is_client_error() || status.is_server_error() {
            let (bytes, failure) = client.error_of(opened).await;
            let bytes = passthrough::covered(bytes, |text| self.redactor.redact(text));
            return reply::passed_error((status, headers), bytes, failure.redacted(&*self.redactor), access);
        }
        access.status(status.as_u16());
        let timeouts = upstream.timeouts.clone();
        reply::passed(
            status,
            headers,
            PassedBody::new(opened, timeouts, begun, self.drain.when_cut(), access),
        )
    }

    async fn exchange(
        &self,
        dialect: ClientDialect,
        client: (ClientKey, Owner),
        (headers, body): (&HeaderMap, &Bytes),
        access: &mut Access,
    ) -> Result<(Exchange<'_>, Arc<Client>), Failure> {
        let reasoning = checks::reasoning(headers)?;
        let mut conversation = exchange::decode(dialect, body)?;
        access.asked(&conversation.model, conversation.stream);
        let is_completed = match &self.execution {
            Some(execution) => execution.complete(&mut conversation, client.1).await,
            None => false,
        };
        let is_described = self.describe_images(&mut conversation, client.1).await;
        let known = Known {
            config: &self.config,
            learned: &self.learned,
            states: &self.states,
            execution: self.execution.as_deref().map(|started| &**started),
        };
        // Later hops must find what was added, too, and the images not again.
        let body = (!is_completed && !is_described).then_some(body);
        let (asked, how) = ((body, conversation), (reasoning, self.stamp()));
        let who = Who { key: client.0, owner: client.1, request: access.id() };
        let exchange = exchange::prepare(known, who, dialect, asked, how)?;
        let upstream = &exchange.model.upstream;
        let client = self.clients.get(&upstream.name).ok_or_else(|| {
            Failure::new(Kind::Internal, format!("there is no client for upstream `{}`", upstream.name))
        })?;
        access.routed(&exchange.model.name, &upstream.name, upstream.dialect());
        self.metrics.dropped_fields(&upstream.name, &exchange.request.dropped);
        if !exchange.left_out.is_empty() {
            let model = exchange.model.name.as_str();
            self.metrics.tools_left_out(model, exchange.left_out.len());
            access.left_out(model, &exchange.left_out);
        }
        let client = client.of_request(self.session(headers).as_ref())?;
        Ok((exchange, client))
    }

    /// Puts descriptions in place of the images if the model cannot see. Returns whether there were any.
    async fn describe_images(&self, conversation: &mut Conversation, client: Owner) -> bool {
        let model = self.config.model(&conversation.model);
        let Some(describer) = model.and_then(|model| model.vision.as_deref()) else { return false };
        let execution = self.execution.as_ref();
        let is_command =
            || execution.is_some_and(|execution| Command::parts(execution, conversation).is_some());
        if !vision::has_images(conversation) || is_command() {
            return false;
        }
        self.vision.describe(conversation, (&self.asking, describer), client).await;
        true
    }

    /// Time and randomness for the core, which has no access to either. By the ids of calls, results of hosted tools are found
    /// later, so that these must be secret.
    fn stamp(&self) -> Stamp {
        let seed = if self.execution.is_some() { secret_seed() } else { seed() };
        Stamp { seed, created: unix_time() }
    }

    /// Sends the request to the upstream, then prepares what the response needs while the upstream works.
    async fn answer(
        &self,
        exchange: Exchange<'_>,
        (client, store, owner): (Arc<Client>, Option<ResponseKeeper>, Owner),
        body: &Bytes,
        memory: Reservation,
        access: Access,
    ) -> Pin<Box<AnswerBody>> {
        let Exchange {
            model,
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
        } = exchange;
        let rules = || exchange::rules(model, &conversation.model, &answering, starts_in_reasoning);
        let hosted_rules = hosted.as_ref().map(|hosted| hosted.rules());
        // What no upstream was asked cannot be replayed.
        let tap = self.tap.as_ref().filter(|_| command.is_none());
        let watch = tap.and_then(|tap| {
            tap.begin(&Opening {
                id: access.id(),
                body,
                conversation: &conversation,
                model,
                dialect,
                upstream: client.upstream(),
                request: &request,
                rules: &rules(),
                hosted: hosted_rules.as_ref(),
                answering: &answering,
            })
        });
        let report = self.audit.as_ref().map(|audit| {
            let opening = report::Opening {
                exchange: access.id(),
                model: &conversation.model,
                key: key_mark(owner),
                client: dialect,
                upstream: &client.upstream().name,
                upstream_model: model.upstream_name(&conversation.model),
                tools: hosted.as_ref().map_or_else(Vec::new, |hosted| hosted.tool_names()),
            };
            ExchangeReport::new(audit, opening, command.is_none())
        });
        let begun = Instant::now();
        let (prefill, key) = (request.prefill.clone(), request.key.clone());
        let is_command = command.is_some();
        let (opening, pipeline) = match command {
            Some(command) => {
                let pipeline = command::pipeline(model, dialect, &conversation, &answering);
                (command.open(&client, seed()), pipeline)
            }
            None => {
                let opening = Arc::clone(&client).begin(request).await;
                (opening, exchange::pipeline((model, &rules()), dialect, &conversation, &answering))
            }
        };
        let mut pipeline = pipeline.redacting(self.redactor.clone());
        pipeline.expect_prefill(prefill);
        pipeline.expect_key(key.filter(|_| !is_command));
        pipeline.leaves_out(&left_out);
        if let Some(rules) = hosted_rules {
            pipeline.host(rules);
            pipeline.keep_state(model.wants_back());
        } else if let Some(keeper) = &keeper {
            pipeline.keep_state(keeper.wants());
        }
        if let Some(report) = &report {
            pipeline.observe_text(report.kept_text());
        }
        let parts = answer::Parts {
            begun,
            client,
            opening,
            hops,
            store,
            keeper,
            pipeline,
            stream: answering.stream,
            watch,
            report,
            access,
            memory,
        };
        Box::pin(AnswerBody::new(parts, self.config.limits.keep_alive, self.drain.when_cut()))
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>, access: Access) -> Response<ReplyBody> {
    reply::plain(status, HeaderValue::from_static("text/plain; charset=utf-8"), text, access)
}

fn method_not_allowed(route: &Route, method: &Method, access: Access) -> Response<ReplyBody> {
    let allow = route.methods();
    let failure =
        Failure::new(Kind::Method, format!("{method} is not allowed for this path; it allows {allow}"));
    let mut response = reply::error(failure, route.dialect(), access);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// The request id that the client sent, if it is safe to log; otherwise a new one.
fn request_id(headers: &HeaderMap) -> String {
    let sane = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    headers
        .get(reply::REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| !id.is_empty() && id.len() <= MAX_REQUEST_ID && id.bytes().all(sane))
        .map_or_else(|| Ids::new(seed(), 0).next("req_"), str::to_owned)
}

pub(super) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Ids must differ, not be secret.
pub(super) fn seed() -> u64 {
    fastrand::u64(..)
}

/// A seed that nobody can guess from earlier ones.
fn secret_seed() -> u64 {
    let mut bytes = [0; 8];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => seed(),
    }
}
