//! [`Service`]: the state that requests share, and the handling of each request.

mod admission;
mod assembly;
mod generate;
mod opening;
mod own;
mod programs;

use std::{
    collections::HashMap,
    convert::Infallible,
    future::{poll_fn, ready},
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header, request};
use hyper::body::{Body as _, Incoming};
use tokio_rustls::rustls::ServerConfig;

use crate::observe::{Access, Metrics};
use toolwire_config::{Changes, Config, Limits, Upstream};
use toolwire_execution::{Audit, ExchangeId, Started, ask::Ask, vision::Vision};
use toolwire_net::{
    redact::Redactor,
    store::{Owner, Stores},
    telemetry::{self, Tracer},
    tls::Certificates,
};
use toolwire_pipeline::{
    conversation::Conversation,
    dialect::{self, ClientDialect, Ids},
    failure::{Failure, Kind, Redact},
};

use super::{
    answer::AnswerBody,
    asking::NewestModels,
    auth::{Caller, Keys},
    budget::Budget,
    cors::{self, Grant},
    count,
    drain::{self, Drain},
    exchange::{self, RequestContext},
    extension::{ConfiguredExtension, Extension, ExtensionRequest, RequestBody, Responding},
    failover::Failover,
    images, intake, large,
    limits::{Account, Allowance, Limited, RequestDemand},
    models::{self, Models},
    passthrough::{self, PassedBody, Prepared},
    reloads::Reloads,
    reply::{self, ReplyBody},
    request as checks,
    routes::{self, ExtensionRoute, ExtensionRouteKind, Route},
    stamp::{seed, unix_time},
    stored_responses::{self, Part, Responses},
    tap::Tap,
    turn_states::TurnStates,
    upstream::Client,
    upstream_capabilities::UpstreamCapabilities,
};

pub use self::own::{MadeResponse, OwnExchange};

/// Maximum length in bytes of a request id that is accepted from a client.
const MAX_REQUEST_ID: usize = 128;

/// The method, if it is a standard one: clients may invent methods.
fn standard_method(method: &Method) -> Option<&str> {
    let known = [
        Method::GET,
        Method::POST,
        Method::HEAD,
        Method::DELETE,
        Method::OPTIONS,
        Method::PUT,
        Method::PATCH,
    ];
    known.contains(method).then(|| method.as_str())
}

/// Whether bytes of a request may still be unread. They must not be interpreted as the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    None,
    Unread,
}

/// The reason why a request does not get an upstream's response.
#[derive(Debug)]
enum Refused {
    Failure(Failure),
    /// The request would exceed a limit of its client.
    Limited(Box<Limited>),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Refused {
    fn into_failure(self) -> Failure {
        match self {
            Self::Failure(failure) => failure,
            Self::Limited(limited) => limited.into_parts().0,
        }
    }

    fn response(self, dialect: ClientDialect, access: Access) -> Response<ReplyBody> {
        match self {
            Self::Failure(failure) => reply::error(failure, dialect, access),
            Self::Limited(limited) => {
                let (failure, headers) = limited.into_parts();
                let mut response = reply::error(failure, dialect, access);
                response.headers_mut().extend(headers);
                response
            }
        }
    }
}

/// Admits a request from `caller`. `None` if the caller has no name, and so no limits.
async fn admit(
    caller: &Caller,
    demand: impl FnOnce(&Account) -> RequestDemand,
    dialect: ClientDialect,
) -> Result<Option<Box<Allowance>>, Refused> {
    let Some(account) = &caller.account else { return Ok(None) };
    let admitted = account.admit(demand(account), dialect, unix_time()).await;
    admitted.map(Some).map_err(Refused::Limited)
}

/// Adds the headers with the remaining amounts of a client's limits.
fn put_rates(allowance: Option<&Allowance>, headers: &mut HeaderMap) {
    if let Some(allowance) = allowance {
        allowance.put_headers(headers, unix_time());
    }
}

/// The state that all requests of a thread share. Except for the connections, all threads share it.
#[derive(Debug)]
pub struct Service {
    config: Arc<Config>,
    /// The clients by upstream name.
    clients: HashMap<String, Arc<Client>>,
    keys: Arc<Keys>,
    models: Arc<Models>,
    capabilities: Arc<UpstreamCapabilities>,
    /// Place of the state that outlives a request.
    stores: Stores,
    responses: Responses,
    states: Arc<TurnStates>,
    /// State for the models that may answer instead of another model.
    failover: Arc<Failover>,
    /// The stage that runs hosted tools, if it exists.
    execution: Option<Arc<Started>>,
    /// The models that hosted tools ask, on the stage's thread.
    stage_models: Option<Arc<NewestModels>>,
    /// Describes images for models that do not accept images.
    vision: Arc<Vision>,
    /// Sends toolwire's own questions to models, on this thread.
    asking: Arc<dyn Ask>,
    /// The bus of events, if there may be subscribers.
    audit: Option<Arc<Audit>>,
    /// The program's extension of the server.
    extension: Option<Arc<dyn Extension>>,
    /// The extension in this configuration, if it is enabled.
    configured: Option<Arc<dyn ConfiguredExtension>>,
    metrics: Arc<Metrics>,
    tap: Option<Arc<dyn Tap>>,
    redactor: Arc<Redactor>,
    drain: Arc<Drain>,
    /// The memory budget for request bodies.
    budget: Arc<Budget>,
    reloads: Reloads,
    /// Begins traces, if there is a collector.
    tracer: Option<Arc<Tracer>>,
    /// The certificate of the listeners, if they use TLS.
    certificates: Option<Arc<Certificates>>,
    /// TLS configuration of the listeners, if they use TLS.
    tls: Option<Arc<ServerConfig>>,
}

impl Service {
    /// The execution stage, if it is configured.
    pub(super) fn execution(&self) -> Option<&Arc<Started>> {
        self.execution.as_ref()
    }

    /// The server's shutdown.
    pub fn drain(&self) -> &Arc<Drain> {
        &self.drain
    }

    /// Records the addresses on which the server listens, for links to generated images.
    pub(super) fn listens_on(&self, addresses: &[SocketAddr]) {
        let files = self.execution.as_ref().and_then(|execution| execution.files());
        if let (Some(files), Some(address)) = (files, addresses.first()) {
            files.reached_at(&images::base_url(self.config.scheme(), *address));
        }
    }

    /// The names of the hosted tools, and of the providers whose tools are not known yet.
    pub(super) fn hosted_tools(&self) -> (Vec<String>, Vec<String>) {
        self.execution.as_ref().map(|execution| execution.registry().names()).unwrap_or_default()
    }

    /// The configuration.
    pub(super) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// The keys of clients.
    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The bus of events, if there may be subscribers.
    pub(super) fn audit(&self) -> Option<&Arc<Audit>> {
        self.audit.as_ref()
    }

    /// Called when a service with these `changes` has replaced this one.
    pub(super) fn replaced(&self, changes: &Changes) {
        if let Some(extension) = &self.configured {
            extension.replaced(changes);
        }
    }

    /// The redactor, which masks secrets.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The metrics.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Whether exchanges are recorded.
    pub(super) fn is_tapped(&self) -> bool {
        self.tap.is_some()
    }

    /// The configured limits.
    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// Whether a request waits for a slot at an upstream.
    pub(super) fn is_waited_for(&self) -> bool {
        self.clients.values().any(|client| client.queue().is_waited_in())
    }

    /// Maximum time for which a client may read nothing while others wait for a slot at an upstream.
    pub(super) fn patience(&self) -> std::time::Duration {
        let patience = self.clients.values().map(|client| client.queue().patience()).min();
        patience.unwrap_or(self.limits().write_timeout)
    }

    /// Counts a connection or HTTP/2 stream that is closed because the client read nothing for too long.
    pub(super) fn client_stalled(&self) {
        self.metrics.client_stalled();
    }

    /// The tracer, if there is a collector.
    pub(super) fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    /// The configuration for accepting TLS connections, if there is one.
    pub(super) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.clone()
    }

    /// The certificate of the listeners, if they use TLS.
    pub(super) fn certificates(&self) -> Option<&Arc<Certificates>> {
        self.certificates.as_ref()
    }

    /// Counts a TLS handshake that failed.
    pub(super) fn handshake_failed(&self) {
        self.metrics.certificates().handshake_failures.inc();
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

    /// Handles the part of a request from `peer` that does not depend on an upstream.
    ///
    /// # Errors
    /// The response, if it does not come from an upstream. Otherwise the upstream has been asked, and the request
    /// itself has been dropped.
    pub(super) async fn begin(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        let id = request_id(request.headers());
        let path = request.uri().path();
        let route = self.route(path);
        let name = route.as_ref().map_or("unknown", Route::name);
        let shown = route.as_ref().map_or(path, |route| route.shown(path));
        let trace = self.trace(route.as_ref(), (request.headers(), request.method(), shown), &id);
        let mut access =
            Access::new(Arc::clone(&self.metrics), id.clone(), request.method().clone(), shown, name)
                .traced(trace);
        if route.as_ref().is_some_and(Route::asks_model) {
            access.asks_model();
        }
        let head = request.method() == Method::HEAD;
        let grant = match route {
            Some(Route::Extension(_)) => Grant::default(),
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

    /// Begins the span of a request for a model or its responses. Other requests have no span, since the spans of
    /// probes would hide all others.
    fn trace(
        &self,
        route: Option<&Route>,
        (headers, method, path): (&HeaderMap, &Method, &str),
        id: &str,
    ) -> telemetry::Span {
        let traced = self.tracer.as_ref().zip(route.filter(|route| route.is_of_models()));
        let Some((tracer, route)) = traced else { return telemetry::Span::default() };
        tracer.begin(headers, || {
            let (method, name) = (standard_method(method), route.name());
            let attributes = vec![
                ("http.request.method", method.unwrap_or("_OTHER").into()),
                ("url.path", path.into()),
                ("url.scheme", self.config.scheme().into()),
                ("toolwire.route", name.into()),
                ("toolwire.request_id", id.into()),
            ];
            (format!("{} {name}", method.unwrap_or("HTTP")), attributes)
        })
    }

    async fn respond(
        self: &Arc<Self>,
        route: Option<Route>,
        (request, peer): (Request<Incoming>, IpAddr),
        grant: &Grant,
        rest: &mut Rest,
        mut access: Access,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        let (head, body) = request.into_parts();
        let is_anthropic = models::is_asked_by_anthropic(route.as_ref(), &head.headers);
        let dialect = match &route {
            _ if is_anthropic => ClientDialect::Messages,
            Some(route) => route.dialect(),
            None => reply::DEFAULT_DIALECT,
        };
        if let Err(failure) = checks::check(&head) {
            *rest = Rest::Unread;
            return Err(reply::error(failure, dialect, access));
        }
        if let Some(Route::Extension(own)) = &route
            && own.kind == ExtensionRouteKind::Api
        {
            return Err(self.extended(*own, (&head, body, peer), rest, access).await);
        }
        let is_open = self.keys.are_not_needed();
        if let Some(failure) = self.refuse_page(is_open, route.as_ref(), &head, grant) {
            return Err(reply::error(failure, dialect, access));
        }
        if grant.is_preflight(&head.method, &head.headers) {
            let methods = route.as_ref().map_or(routes::ANY_METHOD, Route::methods);
            let mut response = reply::options(methods, access);
            cors::put_preflight(response.headers_mut(), methods, &head.headers);
            return Err(response);
        }
        let Some(route) = route else {
            let (guessed, failure) = routes::not_found(head.uri.path());
            return Err(reply::error(failure, if is_anthropic { dialect } else { guessed }, access));
        };
        if checks::asks_websocket(&head) {
            return Err(reply::upgrade_required(dialect, access));
        }
        if head.method == Method::OPTIONS {
            return Err(reply::options(route.methods(), access));
        }
        if !route.allows(&head.method) {
            return Err(method_not_allowed((&route, dialect), &head.method, access));
        }
        let client = match self.identify(is_open, (&route, &head), peer, &mut access).await {
            Ok(client) => Caller { peer: Some(peer), ..client },
            Err(failure) => return Err(reply::error(failure, dialect, access)),
        };
        // hyper moves a request's future several times. The future stays small because the futures of the routes are on
        // the heap.
        Err(match route {
            Route::Generate(_) => {
                let body = RequestBody { body, rest };
                return Box::pin(self.generate(dialect, client, &head.headers, body, access)).await;
            }
            Route::CountTokens(_) => {
                Box::pin(self.count_tokens((dialect, client), (&head.headers, body), rest, access)).await
            }
            Route::Stored(_, id) if head.method == stored_responses::DELETE => {
                Box::pin(self.delete(dialect, (client.owner, &id), access)).await
            }
            Route::Stored(..) if stored_responses::asks_stream(head.uri.query()) => {
                reply::error(stored_responses::not_streamed(), dialect, access)
            }
            Route::Stored(_, id) => {
                Box::pin(self.stored(dialect, (client.owner, &id), Part::Response, access)).await
            }
            Route::StoredInput(_, id) => {
                Box::pin(self.stored(dialect, (client.owner, &id), Part::Input, access)).await
            }
            Route::Passthrough(path) => {
                Box::pin(self.pass_through((&path, client), (&head, body), rest, access)).await
            }
            Route::Programs(path) => Box::pin(self.program(&path, (&head, body, peer), rest, access)).await,
            Route::Extension(own) => self.extended(own, (&head, body, peer), rest, access).await,
            Route::Root => text(StatusCode::OK, routes::directions() + "\n", access),
            Route::Models if is_anthropic => {
                reply::json(&models::anthropic_list(&self.models.list(&client).await), access)
            }
            Route::Models => reply::json(&self.models.list(&client).await, access),
            Route::Model(id) => match client.check_model(&id) {
                Ok(()) => match self.models.find(&id).await {
                    Some(model) if is_anthropic => reply::json(&models::anthropic(&model), access),
                    Some(model) => reply::json(&model, access),
                    None => reply::error(dialect.side().unknown_model(&id), dialect, access),
                },
                Err(failure) => reply::error(failure, dialect, access),
            },
            Route::Image(name) => {
                let files = self.execution.as_ref().and_then(|execution| execution.files());
                Box::pin(images::respond(files, name, &head.headers, access)).await
            }
            Route::Health => text(StatusCode::OK, "ok\n", access),
            Route::Ready if self.drain.is_ready() => text(StatusCode::OK, "ready\n", access),
            Route::Ready => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n", access),
            Route::Metrics => {
                self.failover.show_ejected();
                let content_type = HeaderValue::from_static(Metrics::CONTENT_TYPE);
                reply::plain(StatusCode::OK, content_type, self.metrics.text(), access)
            }
        })
    }

    /// The route for a URL's path, if this configuration serves it.
    fn route(&self, path: &str) -> Option<Route> {
        let known = Route::find_with(path, &self.config.passthrough);
        known.filter(|route| self.has(route)).or_else(|| {
            let route = self.configured.as_ref()?.route(&routes::without_doubled_slash(path))?;
            Some(Route::Extension(route))
        })
    }

    /// Whether this configuration serves the route.
    fn has(&self, route: &Route) -> bool {
        match route {
            Route::Programs(_) => {
                self.execution.as_ref().is_some_and(|execution| !execution.registrations().is_empty())
            }
            _ => true,
        }
    }

    /// Handles a request for a path of the extension.
    fn extended<'r>(
        self: &'r Arc<Self>,
        route: ExtensionRoute,
        (head, body, peer): (&'r request::Parts, Incoming, IpAddr),
        rest: &'r mut Rest,
        access: Access,
    ) -> Responding<'r> {
        let body = RequestBody { body, rest };
        match &self.configured {
            Some(extension) => {
                extension.respond(ExtensionRequest { route, service: self, head, peer, body, access })
            }
            // Only an extension has such routes.
            None => {
                let (dialect, failure) = routes::not_found(head.uri.path());
                Box::pin(ready(reply::error(failure, dialect, access)))
            }
        }
    }

    /// The limits for a request's body; see [`intake::Bounds`].
    pub(super) fn bounds(&self, own_max: Option<usize>) -> intake::Bounds<'_> {
        intake::Bounds { limits: &self.config.limits, own_max, budget: &self.budget, drain: &self.drain }
    }

    /// The session of the client's own account, if the request contains it and an upstream accepts such sessions.
    fn session(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        self.config.takes_sessions().then(|| dialect::brought(headers)).flatten()
    }

    /// Handles a request for a stored response, or for its input.
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

    /// Handles a request to delete a stored response.
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

    /// Handles a request for the number of tokens of a model request.
    async fn count_tokens(
        self: &Arc<Self>,
        (dialect, caller): (ClientDialect, Caller),
        (headers, body): (&HeaderMap, Incoming),
        rest: &mut Rest,
        mut access: Access,
    ) -> Response<ReplyBody> {
        let (body, _memory) = match intake::read(headers, body, self.bounds(None)).await {
            Ok(read) => read,
            Err(failure) => return reply::error(failure, dialect, access),
        };
        *rest = Rest::None;
        let counted = async {
            let conversation = generate::decode(dialect, &body).await?;
            access.asked(&conversation.model, false);
            caller.check_model(&conversation.model)?;
            let allowance = admit(&caller, |_| RequestDemand::PLAIN, dialect).await?;
            let id = access.id().into();
            let tokens = if large::is_large(body.len()) {
                let (own, caller) = (Arc::clone(self), caller.clone());
                large::apart(move || own.tokens((dialect, &caller), &id, conversation)).await??
            } else {
                self.tokens((dialect, &caller), &id, conversation)?
            };
            Ok::<_, Refused>((tokens, allowance))
        };
        match counted.await {
            Ok((tokens, allowance)) => {
                let mut response = reply::json(&dialect.side().token_count(tokens), access);
                put_rates(allowance.as_deref(), response.headers_mut());
                response
            }
            Err(refused) => refused.response(dialect, access),
        }
    }

    /// The estimated tokens of a model request.
    fn tokens(
        &self,
        (dialect, caller): (ClientDialect, &Caller),
        id: &ExchangeId,
        mut conversation: Conversation,
    ) -> Result<usize, Failure> {
        let model = exchange::model(&self.config, dialect, &conversation)?;
        if let Some(execution) = self.execution.as_deref() {
            exchange::host(execution, model, &mut conversation, RequestContext { caller, exchange: id });
        }
        exchange::settle_choice(model, &mut conversation)?;
        let (_, means) = self.capabilities.about(model, &conversation, caller.owner);
        let sent = exchange::sent(model, &conversation, dialect.dialect(), &means, unix_time())?;
        Ok(count::tokens(&sent))
    }

    /// Handles a request that is passed to the upstream without being parsed.
    async fn pass_through(
        &self,
        (path, caller): (&str, Caller),
        (head, body): (&request::Parts, Incoming),
        rest: &mut Rest,
        mut access: Access,
    ) -> Response<ReplyBody> {
        let fail = |failure: Failure, access| {
            reply::error(failure.redacted(&*self.redactor), reply::DEFAULT_DIALECT, access)
        };
        if !self.drain.is_serving() {
            return fail(drain::refusal(), access);
        }
        if let Err(failure) = passthrough::check(head) {
            return fail(failure, access);
        }
        let (body, memory) = match intake::read(&head.headers, body, self.bounds(None)).await {
            Ok(read) => read,
            Err(failure) => return fail(failure, access),
        };
        *rest = Rest::None;
        let prepared = match passthrough::prepare(&self.config, path, head, body).await {
            Ok(prepared) => prepared,
            Err(failure) => return fail(failure, access),
        };
        let Prepared { model, asked, request } = prepared;
        let name = asked.as_deref().unwrap_or(&model.name);
        if asked.is_some() {
            access.asked(name, false);
        }
        let allowance = match caller.check_model(name) {
            Ok(()) => match passthrough::demand(&request, caller.account.is_some()).await {
                Ok(demand) => admit(&caller, |_| demand, reply::DEFAULT_DIALECT).await,
                Err(failure) => Err(failure.into()),
            },
            Err(failure) => Err(failure.into()),
        };
        let allowance = match allowance {
            Ok(allowance) => allowance,
            Err(refused) => return refused.response(reply::DEFAULT_DIALECT, access),
        };
        let upstream = &model.upstream;
        let client = match self.client(upstream) {
            Ok(client) => client,
            Err(failure) => return fail(failure, access),
        };
        access.routed(&model.name, upstream);
        let client = client.traced(access.pass(&model.name, upstream).as_ref());
        let (begun, mut cut) = (tokio::time::Instant::now(), pin!(self.drain.when_cut()));
        let passed = tokio::select! {
            passed = client.pass(request, caller.claimant()) => passed,
            () = &mut cut => Err(drain::refusal()),
        };
        // The upstream has received the request, so the memory is no longer needed.
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
        let mut headers = headers;
        put_rates(allowance.as_deref(), &mut headers);
        let timeouts = upstream.timeouts.clone();
        reply::passed(
            status,
            headers,
            PassedBody::new((opened, allowance), timeouts, begun, self.drain.when_cut(), access),
        )
    }

    /// The client of an upstream.
    ///
    /// # Errors
    /// Never for a configured upstream.
    fn client(&self, upstream: &Upstream) -> Result<&Arc<Client>, Failure> {
        let missing = || format!("there is no client for upstream `{}`", upstream.name);
        self.clients.get(&upstream.name).ok_or_else(|| Failure::new(Kind::Internal, missing()))
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>, access: Access) -> Response<ReplyBody> {
    reply::plain(status, HeaderValue::from_static("text/plain; charset=utf-8"), text, access)
}

fn method_not_allowed(
    (route, dialect): (&Route, ClientDialect),
    method: &Method,
    access: Access,
) -> Response<ReplyBody> {
    let allow = route.methods();
    let failure =
        Failure::new(Kind::Method, format!("{method} is not allowed for this path; it allows {allow}"));
    let mut response = reply::error(failure, dialect, access);
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
