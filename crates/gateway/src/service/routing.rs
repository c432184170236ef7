//! Finds the handler of each request, after the checks that all requests need.

use std::{future::ready, net::IpAddr, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header, request};
use hyper::body::{Body as _, Incoming};

use super::{Rest, Service};
use crate::{
    answer::AnswerBody,
    auth::Caller,
    cors::{self, Grant},
    extension::{ExtensionRequest, RequestBody, Responding},
    images, models,
    observe::{Access, Metrics},
    reply::{self, ReplyBody},
    request as checks,
    routes::{self, ExtensionRoute, ExtensionRouteKind, Route},
    site::Site,
    stamp::{seed, unix_time},
    stored_responses,
};
use toolwire_net::{store::Owner, telemetry};
use toolwire_pipeline::{
    dialect::{ClientDialect, Ids, StoredOperation},
    failure::{Failure, Kind},
};

/// Maximum length in bytes of a request id that is accepted from a client.
const MAX_REQUEST_ID: usize = 128;

/// Returns the method if it is a standard one, since clients may invent methods.
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

/// The head of a request, and what follows from it for the response.
#[derive(Clone, Copy)]
pub(super) struct Arrived<'r> {
    pub(super) head: &'r request::Parts,
    pub(super) dialect: ClientDialect,
    /// Whether the head says more about the dialect than the path.
    is_told: bool,
    /// Whether no key is needed.
    is_open: bool,
    /// Which web pages may read the response.
    grant: &'r Grant,
}

impl<'r> Arrived<'r> {
    fn new(head: &'r request::Parts, route: Option<&Route>, is_open: bool, grant: &'r Grant) -> Self {
        let told = models::asking_dialect(route, head);
        let dialect = told.unwrap_or_else(|| route.map_or(reply::DEFAULT_DIALECT, Route::dialect));
        Self { head, dialect, is_told: told.is_some(), is_open, grant }
    }
}

impl Service {
    /// Handles the part of a request from `peer` that does not depend on an upstream.
    ///
    /// # Errors
    /// The response, if it does not come from an upstream. Otherwise the upstream has been asked, and the request
    /// itself has been dropped.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        let id = request_id(request.headers());
        let path = request.uri().path();
        let route = self.route(path);
        let name = route.as_ref().map_or("unknown", Route::name);
        let shown = route.as_ref().map_or(path, |route| route.shown(path));
        let trace = self.trace(route.as_ref(), request.headers(), request.method(), shown, &id);
        let mut access = Access::new(
            Arc::clone(&self.shared.monitors.metrics),
            id.clone(),
            request.method().clone(),
            shown,
            name,
        )
        .traced(trace);
        // A WebSocket's requests are counted instead of its handshake.
        let is_websocket = checks::asks_websocket(request.method(), request.version(), request.headers());
        if route.as_ref().is_some_and(Route::asks_model) && !is_websocket {
            access.asks_model();
        }
        let head = request.method() == Method::HEAD;
        let grant = match route {
            Some(Route::Extension(_)) => Grant::default(),
            _ => Grant::new(&self.shared.config.cors_origins, request.headers()),
        };
        let version = request.version();
        let mut rest = if request.body().is_end_stream() { Rest::None } else { Rest::Unread };
        match self.respond(route, request, peer, &grant, &mut rest, access).await {
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

    /// Begins the span of a request for a model or its responses. Other requests, such as health probes, have no span:
    /// theirs would outnumber all others.
    pub(super) fn trace(
        &self,
        route: Option<&Route>,
        headers: &HeaderMap,
        method: &Method,
        path: &str,
        id: &str,
    ) -> telemetry::Span {
        let traced = self.shared.monitors.tracer.as_ref().zip(route.filter(|route| route.is_of_models()));
        let Some((tracer, route)) = traced else { return telemetry::Span::default() };
        tracer.begin(headers, || {
            let (method, name) = (standard_method(method), route.name());
            let attributes = vec![
                ("http.request.method", method.unwrap_or("_OTHER").into()),
                ("url.path", path.into()),
                ("url.scheme", self.shared.config.scheme().into()),
                ("toolwire.route", name.into()),
                ("toolwire.request_id", id.into()),
            ];
            (format!("{} {name}", method.unwrap_or("HTTP")), attributes)
        })
    }

    async fn respond(
        self: &Arc<Self>,
        route: Option<Route>,
        request: Request<Incoming>,
        peer: IpAddr,
        grant: &Grant,
        rest: &mut Rest,
        access: Access,
    ) -> Result<Pin<Box<AnswerBody>>, Response<ReplyBody>> {
        let (head, body) = request.into_parts();
        let body = RequestBody { body, rest };
        let is_open = self.shared.keys.are_not_needed();
        let arrived = Arrived::new(&head, route.as_ref(), is_open, grant);
        let dialect = arrived.dialect;
        if let Err(failure) = checks::check(&head) {
            *body.rest = Rest::Unread;
            return Err(reply::error(failure, dialect, access));
        }
        if let Some(Route::Extension(own)) = &route
            && own.kind == ExtensionRouteKind::Api
        {
            return Err(Box::pin(self.extended(*own, &head, peer, body, access)).await);
        }
        let (route, mut access) = self.permitted(arrived, route, access).map_err(|refused| *refused)?;
        let client = match self.identify(is_open, &route, &head, peer, &mut access).await {
            Ok(client) => Caller { peer: Some(peer), ..client },
            Err(failure) => return Err(reply::error(failure, dialect, access)),
        };
        // hyper moves a request's future several times. The futures of the routes are on the heap to keep it small.
        Err(match route {
            Route::Api(api) => return Box::pin(self.api(&api, client, arrived, peer, body, access)).await,
            Route::Stored(_, operation, id) => {
                Box::pin(self.stored(dialect, client.owner, &id, operation, &head, access)).await
            }
            Route::Passthrough(path) => {
                Box::pin(self.pass_through(&path, dialect, client, &head, body, access)).await
            }
            Route::Programs(path) => Box::pin(self.program(&path, &head, peer, body, access)).await,
            Route::Mcp => Box::pin(self.mcp(client, &head, body, access)).await,
            Route::Extension(own) => Box::pin(self.extended(own, &head, peer, body, access)).await,
            // Clients of Ollama look for these words.
            Route::Root => {
                text(StatusCode::OK, self.site(&head).directions() + "\nOllama is running\n", access)
            }
            Route::Image(name) => {
                let files = self.shared.hosting.image_files();
                Box::pin(images::respond(files, name, &head.headers, access)).await
            }
            Route::Health => text(StatusCode::OK, "ok\n", access),
            Route::Ready if self.shared.drain.is_ready() => text(StatusCode::OK, "ready\n", access),
            Route::Ready => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n", access),
            Route::Metrics => self.metrics(access),
        })
    }

    /// How the client of this request reaches the server.
    pub fn site(&self, head: &request::Parts) -> Site {
        Site::new(head, self.shared.config.scheme(), self.shared.config.admin.is_some())
    }

    fn metrics(&self, access: Access) -> Response<ReplyBody> {
        self.shared.failover.show_ejected();
        let content_type = HeaderValue::from_static(Metrics::CONTENT_TYPE);
        reply::plain(StatusCode::OK, content_type, self.shared.monitors.metrics.text(), access)
    }

    /// Runs the checks that do not depend on the sender. Returns the request's route and its record.
    ///
    /// # Errors
    /// The response, if the request is refused or asks for options (`OPTIONS`, CORS preflights).
    fn permitted(
        &self,
        arrived: Arrived<'_>,
        route: Option<Route>,
        access: Access,
    ) -> Result<(Route, Access), Box<Response<ReplyBody>>> {
        let Arrived { head, dialect, is_told, is_open, grant } = arrived;
        if let Some(failure) = self.refuse_page(is_open, route.as_ref(), head, grant) {
            return Err(Box::new(reply::error(failure, dialect, access)));
        }
        if grant.is_preflight(&head.method, &head.headers) {
            let methods = route.as_ref().map_or(routes::ANY_METHOD, Route::methods);
            let mut response = reply::options(methods, access);
            cors::put_preflight(response.headers_mut(), methods, &head.headers);
            return Err(Box::new(response));
        }
        let Some(route) = route else {
            let (guessed, failure) = routes::not_found(head.uri.path(), &self.site(head));
            let dialect = if is_told { dialect } else { guessed };
            return Err(Box::new(reply::error(failure, dialect, access)));
        };
        if checks::asks_websocket(&head.method, head.version, &head.headers) {
            if route.opens_websocket() {
                return Ok((route, access));
            }
            return Err(Box::new(reply::upgrade_required(dialect, access)));
        }
        if head.method == Method::OPTIONS {
            return Err(Box::new(reply::options(route.methods(), access)));
        }
        if !route.allows(&head.method) {
            if checks::was_handshake(head.version, &head.headers) {
                return Err(Box::new(reply::upgrade_required(dialect, access)));
            }
            return Err(Box::new(method_not_allowed(&route, dialect, &head.method, access)));
        }
        Ok((route, access))
    }

    /// Handles a request for a stored response.
    async fn stored(
        &self,
        dialect: ClientDialect,
        owner: Owner,
        id: &str,
        operation: StoredOperation,
        head: &request::Parts,
        access: Access,
    ) -> Response<ReplyBody> {
        let (responses, now) = (&self.shared.stored.responses, unix_time());
        let found = if head.method == stored_responses::DELETE {
            responses.delete(dialect, owner, id, now).await
        } else {
            responses.find(dialect, owner, id, operation, head.uri.query(), now).await
        };
        match found {
            Ok(body) => reply::json_text(body, access),
            Err(failure) => reply::error(failure, dialect, access),
        }
    }

    /// Returns the route for a URL's path, if this configuration serves it.
    fn route(&self, path: &str) -> Option<Route> {
        let known = Route::find_with(path, &self.shared.config.passthrough);
        known.filter(|route| self.has(route)).or_else(|| {
            let route =
                self.shared.extensions.configured.as_ref()?.route(&routes::without_doubled_slash(path))?;
            Some(Route::Extension(route))
        })
    }

    /// Whether this configuration serves the route.
    fn has(&self, route: &Route) -> bool {
        match route {
            Route::Programs(_) => self
                .shared
                .hosting
                .execution
                .as_ref()
                .is_some_and(|execution| !execution.registrations().is_empty()),
            _ => true,
        }
    }

    /// Handles a request for a path of the extension.
    fn extended<'r>(
        self: &'r Arc<Self>,
        route: ExtensionRoute,
        head: &'r request::Parts,
        peer: IpAddr,
        body: RequestBody<'r>,
        access: Access,
    ) -> Responding<'r> {
        match &self.shared.extensions.configured {
            Some(extension) => {
                extension.respond(ExtensionRequest { route, service: self, head, peer, body, access })
            }
            // Only an extension has such routes.
            None => {
                let (dialect, failure) = routes::not_found(head.uri.path(), &self.site(head));
                Box::pin(ready(reply::error(failure, dialect, access)))
            }
        }
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>, access: Access) -> Response<ReplyBody> {
    reply::plain(status, HeaderValue::from_static("text/plain; charset=utf-8"), text, access)
}

fn method_not_allowed(
    route: &Route,
    dialect: ClientDialect,
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
