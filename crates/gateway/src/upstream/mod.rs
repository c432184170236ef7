//! [`Client`]: sends requests to one upstream.
//!
//! ```text
//! queue (a permit) ─▶ connection (pooled or new) ─▶ request ─▶ headers ─▶ Opened: the body to be read
//!                                                                └────▶ OpenError: refused, with its error body
//! ```
//!
//! All of this is one future, [`Client::open`]. Dropping it leaves the queue or closes the connection.

mod account;
mod authorization;
mod body;
mod body_read;
mod connection;
mod connector;
mod get;
mod http2;
mod listing;
mod no_response;
mod pool;
mod refusal;
#[cfg(feature = "bedrock")]
mod signer;
mod small;
mod stream;
mod target;
mod trust;

#[cfg(test)]
pub(super) mod tests;

use std::{
    future::{poll_fn, ready},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, response::Parts};
use http_body_util::Full;
use prometheus_client::metrics::counter::Counter;
use tokio::time::{error::Elapsed, timeout};

pub use self::account::{Managed, SessionError, Status};
pub(super) use self::authorization::ReplacedAccount;
pub(super) use self::get::connect;
use self::{
    account::Live,
    authorization::Authorization,
    connector::{Connect, ConnectError, Connector},
    http2::Free,
    no_response::NoResponse,
    pool::{Lease, Pool},
    refusal::unreadable,
    target::{Target, no_address, standing_headers},
    trust::Trust,
};
pub(super) use self::{
    body::UpstreamBody,
    body_read::{BodyError, BodyRead},
    get::Get,
    listing::Listing,
    small::GetError,
};
use super::{
    betas::Betas,
    permits::{Claimant, Permit, Queue},
};
use crate::observe::Metrics;
use toolwire_config::Upstream;
use toolwire_net::{causes::innermost, redact::Redactor, telemetry::SpanContext};
use toolwire_pipeline::{
    dialect::UpstreamRequest,
    failure::{self, Failure, Kind},
};

/// An upstream with its connections, its queue, and the head that all requests to it share.
#[derive(Debug)]
pub(super) struct Client {
    upstream: Arc<Upstream>,
    queue: Arc<Queue>,
    pool: Arc<Pool>,
    /// Address and headers of most requests.
    target: Arc<Target>,
    authorization: Authorization,
}

/// A request to an upstream, up to the headers of the response.
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<Opened, OpenError>> + Send>>;

#[derive(Debug)]
pub(super) enum Admission {
    /// The request is the first of its response.
    New(Claimant),
    /// The request is for a later hop of its response, which may still hold its permit.
    Again(Option<Permit>, Claimant),
}

/// A request that is passed through.
#[derive(Debug)]
pub(super) struct RawRequest {
    pub(super) method: Method,
    /// The path below the upstream's base URL, and the query.
    pub(super) path: String,
    /// Headers that replace the default ones, but not the configured ones.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// A response whose headers have arrived.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) head: Parts,
    pub(super) body: UpstreamBody,
    /// `None` if no upstream was asked.
    pub(super) permit: Option<Permit>,
}

#[derive(Debug)]
pub(super) struct OpenError {
    pub(super) failure: Failure,
    /// The upstream's response, if there was one.
    pub(super) said: Option<(Parts, Bytes)>,
    /// The permit, if the request was refused.
    pub(super) permit: Option<Permit>,
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        Self { failure, said: None, permit: None }
    }
}

impl Client {
    /// Creates a client for `upstream` without open connections. Adds the tokens of the upstream's account to
    /// `redactor`.
    ///
    /// # Errors
    /// If the configured key contains characters that are not allowed in a header, or if the address is too long.
    pub(super) fn new(
        upstream: Arc<Upstream>,
        queue: Arc<Queue>,
        metrics: &Metrics,
        redactor: &Arc<Redactor>,
    ) -> Result<Self, http::Error> {
        let connector = Arc::new(Connector::new(&upstream));
        let authorization = Authorization::of(&upstream, redactor, metrics)?;
        let unsolicited = metrics.unsolicited(&upstream.name);
        Ok(Self { authorization, ..Self::with_connector(upstream, queue, unsolicited, connector)? })
    }

    fn with_connector(
        upstream: Arc<Upstream>,
        queue: Arc<Queue>,
        unsolicited: Counter,
        connector: Arc<dyn Connect>,
    ) -> Result<Self, http::Error> {
        let trust = Arc::new(Trust::new(upstream.name.clone(), unsolicited));
        let pool = Arc::new(Pool::new(connector, trust));
        let headers = standing_headers(&upstream)?;
        let target = Arc::new(Target::new(&upstream, Method::POST, upstream.endpoint()?, headers)?);
        Ok(Self { upstream, queue, pool, target, authorization: Authorization::Target })
    }

    /// Creates a client for the same upstream, with the same queue but its own connections.
    pub(super) fn sibling(&self) -> Self {
        Self {
            upstream: Arc::clone(&self.upstream),
            queue: Arc::clone(&self.queue),
            pool: Arc::new(self.pool.sibling()),
            target: Arc::clone(&self.target),
            authorization: self.authorization.clone(),
        }
    }

    /// Whether both clients have the same upstream and settings, possibly on different threads.
    pub(super) fn is_sibling(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.target, &other.target)
    }

    pub(super) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Returns the account of this client, which is being replaced.
    pub(super) fn replaced_account(&self) -> Option<ReplacedAccount> {
        self.authorization.replaced()
    }

    /// Returns the client for a request that may contain its sender's session. If the upstream takes such sessions,
    /// this is a new client with the same queue and connections.
    ///
    /// # Errors
    /// [`Kind::Unauthorized`] if the session is missing.
    pub(super) fn of_request(self: &Arc<Self>, session: Option<&HeaderMap>) -> Result<Arc<Self>, Failure> {
        let Authorization::Client(redactor) = &self.authorization else { return Ok(Arc::clone(self)) };
        let session = session.ok_or_else(|| self.unauthorized())?;
        let token = session.get(header::AUTHORIZATION).and_then(|token| token.to_str().ok());
        if let Some((_scheme, token)) = token.and_then(|token| token.split_once(' ')) {
            redactor.learn(token.trim());
        }
        let mut headers = self.target.request.headers().clone();
        headers.extend(session.clone());
        let target = self.upstream.endpoint();
        let target = target.and_then(|uri| Target::new(&self.upstream, Method::POST, uri, headers));
        let target = target.map_err(no_address)?;
        Ok(Arc::new(Self {
            upstream: Arc::clone(&self.upstream),
            queue: Arc::clone(&self.queue),
            pool: Arc::clone(&self.pool),
            target: Arc::new(target),
            authorization: Authorization::Target,
        }))
    }

    /// Returns a client with the same queue and connections whose requests name the trace to which they belong.
    pub(super) fn traced(self: &Arc<Self>, context: Option<&SpanContext>) -> Arc<Self> {
        let Some(context) = context else { return Arc::clone(self) };
        self.with_headers(|headers| context.put(headers))
    }

    /// Returns a client whose requests name these beta features, if the upstream accepts them.
    pub(super) fn with_betas(self: Arc<Self>, betas: Option<&Betas>) -> Arc<Self> {
        match betas {
            Some(betas) if self.takes(betas) => self.with_headers(|headers| betas.put(headers)),
            _ => self,
        }
    }

    fn takes(&self, betas: &Betas) -> bool {
        let side = self.upstream.options.side();
        side.dialect() == betas.dialect() && side.takes_betas()
    }

    /// Returns a client with the same queue and connections but other headers.
    fn with_headers(self: &Arc<Self>, put: impl FnOnce(&mut HeaderMap)) -> Arc<Self> {
        let Target { request, .. } = &*self.target;
        let mut headers = request.headers().clone();
        put(&mut headers);
        let (method, uri) = (request.method().clone(), request.uri().clone());
        // The original request was valid, and a few more headers cannot make it invalid.
        let Ok(target) = Target::new(&self.upstream, method, uri, headers) else { return Arc::clone(self) };
        Arc::new(Self {
            upstream: Arc::clone(&self.upstream),
            queue: Arc::clone(&self.queue),
            pool: Arc::clone(&self.pool),
            target: Arc::new(target),
            authorization: self.authorization.clone(),
        })
    }

    /// The failure of a request that lacks the client's own session.
    fn unauthorized(&self) -> Failure {
        let message = format!(
            "upstream `{}` takes the session of your own account: send `x-pm-uid`, `x-pm-appversion` and \
             `Authorization: Bearer TOKEN` with the request, and a key of this proxy as `x-api-key`",
            self.upstream.name
        );
        Failure::new(Kind::Unauthorized, message).with_code("upstream_session_required")
    }

    pub(super) fn sweep(&self) {
        self.pool.sweep();
    }

    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Starts a request and does everything that is possible without waiting, which usually includes sending it. The
    /// returned future continues like [`Client::open`].
    pub(super) async fn begin(self: Arc<Self>, asked: UpstreamRequest, claimant: Claimant) -> Opening {
        let mut opening: Opening = Box::pin(self.open(asked, Admission::New(claimant)));
        match poll_fn(|cx| Poll::Ready(opening.as_mut().poll(cx))).await {
            Poll::Ready(opened) => Box::pin(ready(opened)),
            Poll::Pending => opening,
        }
    }

    /// Waits for a permit according to `admission`, sends `asked`, and waits for the headers of the response.
    ///
    /// # Errors
    /// If no response begins, or if its status is an error. The body of an error response is interpreted in the
    /// upstream's dialect.
    pub(super) async fn open(
        self: Arc<Self>,
        asked: UpstreamRequest,
        admission: Admission,
    ) -> Result<Opened, OpenError> {
        let permit = match admission {
            Admission::New(claimant) => self.queue.enter(claimant).await?,
            Admission::Again(Some(permit), _) => permit,
            Admission::Again(None, claimant) => self.queue.enter_again(claimant).await?,
        };
        let limit = self.upstream.timeouts.first_headers(asked.stream);
        let (head, body) = self.authorized(asked, limit).await?;
        if head.status.is_client_error() || head.status.is_server_error() {
            let refused = self.refused(head, body).await;
            return Err(OpenError { permit: Some(permit), ..refused });
        }
        match unreadable(&head) {
            None => Ok(Opened { head, body, permit: Some(permit) }),
            Some(failure) => Err(OpenError { failure, said: Some((head, Bytes::new())), permit: None }),
        }
    }

    /// Waits for a permit, sends `asked`, and waits for the headers of the response, whatever its status.
    ///
    /// # Errors
    /// If no response begins.
    pub(super) async fn pass(&self, asked: RawRequest, claimant: Claimant) -> Result<Opened, Failure> {
        let RawRequest { method, path, headers: given, body } = asked;
        let permit = self.queue.enter(claimant).await?;
        let mut headers = self.target.request.headers().clone();
        headers.remove(header::CONTENT_TYPE);
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        headers.extend(given);
        headers.extend(self.upstream.headers.clone());
        let target = self.upstream.endpoint_at(&path);
        let target = target.and_then(|uri| Target::new(&self.upstream, method, uri, headers));
        let target = target.map_err(no_address)?;
        let limit = self.upstream.timeouts.first_headers(false);
        let (head, body) = self.send(&target, body, limit).await?;
        Ok(Opened { head, body, permit: Some(permit) })
    }

    /// Creates a successful response with this body, without asking the upstream.
    pub(super) fn made(&self, body: Bytes) -> Opened {
        let (head, ()) = Response::new(()).into_parts();
        Opened { head, body: UpstreamBody::made(body, Arc::clone(&self.pool)), permit: None }
    }

    /// Returns the target for `path` below the base URL. Without `path`, this is the dialect's own path.
    fn target(&self, path: Option<&str>) -> Result<Arc<Target>, Failure> {
        let Some(path) = path else { return Ok(Arc::clone(&self.target)) };
        let headers = self.target.request.headers().clone();
        let target = self.upstream.endpoint_at(path);
        let target = target.and_then(|uri| Target::new(&self.upstream, Method::POST, uri, headers));
        target.map(Arc::new).map_err(no_address)
    }

    /// Sends `asked` with the account's session, if there is an account. If the upstream refuses the session, tries
    /// once more with a new one.
    async fn authorized(
        &self,
        asked: UpstreamRequest,
        limit: Duration,
    ) -> Result<(Parts, UpstreamBody), Failure> {
        let path = asked.path.as_deref();
        let account = match &self.authorization {
            Authorization::Target => return self.send(&*self.target(path)?, asked.body, limit).await,
            #[cfg(feature = "bedrock")]
            Authorization::Signature(signer) => {
                let target = self.target(path)?;
                let (uri, mut headers) = (target.request.uri(), target.request.headers().clone());
                headers.extend(signer.headers(uri, &asked.body, std::time::SystemTime::now())?);
                let target = Target::new(&self.upstream, Method::POST, uri.clone(), headers);
                return self.send(&target.map_err(no_address)?, asked.body, limit).await;
            }
            Authorization::Client(_) => return Err(self.unauthorized()),
            Authorization::Account(account) => account,
        };
        let live = account.current().await?;
        let target = self.target_of(path, &live)?;
        let (head, body) = self.send(&target, asked.body.clone(), limit).await?;
        if head.status != StatusCode::UNAUTHORIZED {
            return Ok((head, body));
        }
        // The body is not needed, and may occupy the connection.
        drop(body);
        let live = account.instead_of(&live).await?;
        self.send(&self.target_of(path, &live)?, asked.body, limit).await
    }

    /// Records that the response to a request sent at `asked` turned out to be a refusal of the key. The request cannot
    /// be repeated, but an account's session is refreshed for the next one.
    pub(super) fn refused_since(&self, asked: Instant) {
        if let Authorization::Account(account) = &self.authorization {
            account.refused_since(asked);
        }
    }

    /// Like [`Client::target`], but with a session.
    fn target_of(&self, path: Option<&str>, live: &Live) -> Result<Target, Failure> {
        let mut headers = self.target.request.headers().clone();
        headers.extend(live.headers.clone());
        let path = path.unwrap_or(self.upstream.options.side().path());
        let target = self
            .upstream
            .endpoint_at(path)
            .and_then(|uri| Target::new(&self.upstream, Method::POST, uri, headers));
        target.map_err(no_address)
    }

    /// Sends `content`. Sends it again if there is no response and [`Client::may_repeat`] permits that.
    async fn send(
        &self,
        target: &Target,
        content: Bytes,
        limit: Duration,
    ) -> Result<(Parts, UpstreamBody), Failure> {
        let lease = self.pool.lease().await.map_err(|error| self.unconnected(error))?;
        let used = lease.is_used();
        let unanswered = match self.ask(target, lease, content.clone(), limit).await? {
            Ok(answered) => return Ok(answered),
            Err(unanswered) => unanswered,
        };
        if let NoResponse::Unsolicited = unanswered {
            self.pool.distrust();
        }
        if !self.may_repeat(used, &unanswered) {
            return Err(unanswered.into_failure(&self.upstream.name));
        }
        tracing::debug!(upstream = self.upstream.name, %unanswered, "request is sent again");
        let lease = Box::pin(self.pool.connect()).await.map_err(|error| self.unconnected(error))?;
        self.ask(target, lease, content, limit)
            .await?
            .map_err(|unanswered| unanswered.into_failure(&self.upstream.name))
    }

    /// Whether a request without a response may be sent again on a new connection.
    ///
    /// An upstream may close an idle connection at the moment when it is reused: llama-server does so after each
    /// stream, although its header says keep-alive. An upstream that crashes while it works on the request looks the
    /// same. The first case is common and the second is rare, so the request is repeated unless the configuration
    /// forbids it (RFC 9110, section 9.2.2).
    fn may_repeat(&self, used: bool, unanswered: &NoResponse) -> bool {
        unanswered.is_unprocessed() || (self.upstream.retry_unanswered && used && unanswered.is_silent())
    }

    /// Sends the request on `lease` and waits up to `limit` for the head of the response.
    async fn ask(
        &self,
        target: &Target,
        lease: Lease,
        content: Bytes,
        limit: Duration,
    ) -> Result<Result<(Parts, UpstreamBody), NoResponse>, Failure> {
        let late = |_elapsed| failure::timed_out("response headers", limit);
        match lease {
            Lease::Http1(connection) => {
                let asked = timeout(limit, connection.ask(&target.head, content)).await.map_err(late)?;
                Ok(asked.map(|(head, body)| (head, UpstreamBody::http1(body, Arc::clone(&self.pool)))))
            }
            Lease::Http2(free) => Box::pin(self.ask_http2(target, free, content, limit)).await.map_err(late),
        }
    }

    async fn ask_http2(
        &self,
        target: &Target,
        mut free: Free,
        content: Bytes,
        limit: Duration,
    ) -> Result<Result<(Parts, UpstreamBody), NoResponse>, Elapsed> {
        let request = target.request.clone().map(|()| Full::new(content));
        let asked = timeout(limit, free.ask(request)).await;
        if asked.is_err() {
            free.retire();
        }
        Ok(asked?.map(|response| {
            let (head, incoming) = response.into_parts();
            (head, UpstreamBody::http2(incoming, free.into_slot(), Arc::clone(&self.pool)))
        }))
    }

    fn unconnected(&self, error: ConnectError) -> Failure {
        match error {
            ConnectError::TimedOut => failure::timed_out("connection", self.upstream.timeouts.connect),
            ConnectError::Failed(_) => {
                let name = &self.upstream.name;
                let proxy = self.upstream.proxy.as_ref().map(|proxy| format!(" through the proxy {proxy}"));
                let proxy = proxy.unwrap_or_default();
                let message = format!("upstream `{name}` cannot be reached{proxy}: {error}");
                Failure::new(Kind::Connect, message).with_cause(error)
            }
        }
    }
}
