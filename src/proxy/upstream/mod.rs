//! [`Client`]: asks one upstream.
//!
//! ```text
//! queue (a place) ─▶ connection (pooled or new) ─▶ request ─▶ headers ─▶ Opened: the body to be read
//!                                                                └────▶ OpenError: refused, its error body read
//! ```
//!
//! All of it is one future, [`Client::open`]. Whoever drops it leaves the queue, or closes the connection.

mod body;
mod connection;
mod connector;
mod head;
mod http2;
mod listing;
mod pool;
mod stream;
mod trust;
mod unanswered;

#[cfg(test)]
mod tests;

use std::{
    error::Error,
    future::{poll_fn, ready},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header, response::Parts};
use http_body_util::Full;
use prometheus_client::metrics::counter::Counter;
use secrecy::ExposeSecret;
use tokio::time::{error::Elapsed, timeout};

pub(super) use self::{
    body::{Broken, UpstreamBody},
    listing::Listing,
};
use self::{
    connector::{Connect, ConnectError, Connector},
    http2::Free,
    pool::{Lease, Pool},
    trust::Trust,
    unanswered::Unanswered,
};
use super::permits::{Permit, Queue};
use crate::{
    config::Upstream,
    dialect::UpstreamRequest,
    failure::{self, Failure, Kind},
};

/// Bytes of a refusal's body that are read. Beyond: ignored; an error object is small.
const MAX_REFUSAL: usize = 64 << 10;

/// An upstream, ready to be asked: its connections, its queue, and what every request to it says.
#[derive(Debug)]
pub(super) struct Client {
    upstream: Arc<Upstream>,
    queue: Arc<Queue>,
    pool: Arc<Pool>,
    /// Address and headers.
    request: Request<()>,
    /// The same as HTTP/1.1 has it.
    head: Bytes,
}

/// An upstream's request on its way.
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<Opened, OpenError>> + Send>>;

/// An answer has begun.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) head: Parts,
    pub(super) body: UpstreamBody,
    pub(super) permit: Permit,
}

/// An answer has not begun.
#[derive(Debug)]
pub(super) struct OpenError {
    pub(super) failure: Failure,
    /// What the upstream said, if it said anything.
    pub(super) said: Option<(Parts, Bytes)>,
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        Self { failure, said: None }
    }
}

impl Client {
    /// A client of `upstream` without open connections. `unsolicited` counts connections on which it sent what nobody
    /// had asked for.
    ///
    /// # Errors
    /// If the configured key cannot stand in a header, or the address is too long.
    pub(super) fn new(
        upstream: Arc<Upstream>,
        queue: Arc<Queue>,
        unsolicited: Counter,
    ) -> Result<Self, http::Error> {
        let connector = Arc::new(Connector::new(&upstream));
        Self::with_connector(upstream, queue, unsolicited, connector)
    }

    fn with_connector(
        upstream: Arc<Upstream>,
        queue: Arc<Queue>,
        unsolicited: Counter,
        connector: Arc<dyn Connect>,
    ) -> Result<Self, http::Error> {
        let trust = Arc::new(Trust::new(upstream.name.clone(), unsolicited));
        let pool = Arc::new(Pool::new(connector, trust));
        let mut request = Request::post(upstream.endpoint()?).body(())?;
        *request.headers_mut() = standing_headers(&upstream)?;
        let head = head::write(&request).freeze();
        Ok(Self { upstream, queue, pool, request, head })
    }

    /// A client of the same upstream, with the same queue before it, that has connections of its own.
    pub(super) fn sibling(&self) -> Self {
        Self {
            upstream: Arc::clone(&self.upstream),
            queue: Arc::clone(&self.queue),
            pool: Arc::new(self.pool.sibling()),
            request: self.request.clone(),
            head: self.head.clone(),
        }
    }

    /// Lets go of connections that have been idle for long.
    pub(super) fn sweep(&self) {
        self.pool.sweep();
    }

    /// The upstream that is asked.
    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Asks without waiting: what can be done at once is done, which mostly is to send `asked`. What it gives does the
    /// rest, as [`Client::open`] has it.
    pub(super) async fn begin(self: Arc<Self>, asked: UpstreamRequest) -> Opening {
        let mut opening: Opening = Box::pin(self.open(asked, None));
        match poll_fn(|cx| Poll::Ready(opening.as_mut().poll(cx))).await {
            Poll::Ready(opened) => Box::pin(ready(opened)),
            Poll::Pending => opening,
        }
    }

    /// Waits for a place unless there is one already (`permit`), sends `asked`, and waits for the headers of the
    /// answer.
    ///
    /// # Errors
    /// Whatever keeps an answer from beginning; an upstream's refusal is read as its dialect has it.
    pub(super) async fn open(
        self: Arc<Self>,
        asked: UpstreamRequest,
        permit: Option<Permit>,
    ) -> Result<Opened, OpenError> {
        let permit = match permit {
            Some(permit) => permit,
            None => self.queue.enter().await?,
        };
        let limit = self.upstream.timeouts.first_headers(asked.stream);
        let (head, body) = self.send(asked.body, limit).await?;
        if head.status.is_client_error() || head.status.is_server_error() {
            return Err(self.refused(head, body).await);
        }
        match unreadable(&head) {
            None => Ok(Opened { head, body, permit }),
            Some(failure) => Err(OpenError { failure, said: Some((head, Bytes::new())) }),
        }
    }

    /// Sends `content`, and sends it once more if it has no answer and may be sent once more.
    async fn send(&self, content: Bytes, limit: Duration) -> Result<(Parts, UpstreamBody), Failure> {
        let lease = self.pool.lease().await.map_err(|error| self.unconnected(error))?;
        let used = lease.is_used();
        let unanswered = match self.ask(lease, content.clone(), limit).await? {
            Ok(answered) => return Ok(answered),
            Err(unanswered) => unanswered,
        };
        if let Unanswered::Unsolicited = unanswered {
            self.pool.distrust();
        }
        if !self.may_repeat(used, &unanswered) {
            return Err(unanswered.failure(&self.upstream.name));
        }
        tracing::debug!(upstream = self.upstream.name, %unanswered, "asked once more");
        let lease = Box::pin(self.pool.connect()).await.map_err(|error| self.unconnected(error))?;
        self.ask(lease, content, limit).await?.map_err(|unanswered| unanswered.failure(&self.upstream.name))
    }

    /// Whether a request that has no answer may be sent once more, on a new connection.
    ///
    /// An upstream may close a kept connection just when it is used again, and nobody can tell that from an upstream
    /// that has begun to work and then fell over. A model's answer is worth money and its calls have effects, so such a
    /// request is repeated only where the configuration says so.
    fn may_repeat(&self, used: bool, unanswered: &Unanswered) -> bool {
        unanswered.is_unprocessed() || (self.upstream.retry_unanswered && used && unanswered.is_silent())
    }

    /// Asks on `lease`, and waits for the answer's head for at most `limit`.
    async fn ask(
        &self,
        lease: Lease,
        content: Bytes,
        limit: Duration,
    ) -> Result<Result<(Parts, UpstreamBody), Unanswered>, Failure> {
        let late = |_elapsed| failure::timed_out("response headers", limit);
        match lease {
            Lease::Http1(connection) => {
                let asked = timeout(limit, connection.ask(&self.head, content)).await.map_err(late)?;
                Ok(asked
                    .map(|(head, incoming)| (head, UpstreamBody::http1(incoming, Arc::clone(&self.pool)))))
            }
            Lease::Http2(free) => Box::pin(self.ask_http2(free, content, limit)).await.map_err(late),
        }
    }

    async fn ask_http2(
        &self,
        mut free: Free,
        content: Bytes,
        limit: Duration,
    ) -> Result<Result<(Parts, UpstreamBody), Unanswered>, Elapsed> {
        let request = self.request.clone().map(|()| Full::new(content));
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
            ConnectError::Late => failure::timed_out("connection", self.upstream.timeouts.connect),
            ConnectError::Failed(error) => {
                let (name, cause) = (&self.upstream.name, innermost(error.as_ref()));
                Failure::new(Kind::Connect, format!("upstream `{name}` cannot be reached: {cause}"))
            }
        }
    }

    async fn refused(&self, head: Parts, body: UpstreamBody) -> OpenError {
        let body = self.refusal_body(body).await;
        let retry_after = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let failure = self.upstream.options.side().refusal(head.status.as_u16(), retry_after, &body);
        OpenError { failure, said: Some((head, body)) }
    }

    /// What can be read of it in time: a refusal whose body breaks off is still a refusal.
    async fn refusal_body(&self, mut body: UpstreamBody) -> Bytes {
        let mut read = BytesMut::new();
        let reading = async {
            let mut goes_on = true;
            while goes_on && read.len() < MAX_REFUSAL {
                let step = poll_fn(|cx| {
                    body.poll_data(cx, |data| {
                        let room = MAX_REFUSAL - read.len();
                        read.extend_from_slice(data.get(..room).unwrap_or(data));
                    })
                });
                goes_on = step.await.is_ok_and(|goes_on| goes_on);
            }
        };
        // Out of time: what came must do.
        if timeout(self.upstream.timeouts.idle, reading).await.is_err() {
            body.retire();
        }
        read.freeze()
    }
}

/// The headers of every request: fixed ones, the configured ones, the key.
fn standing_headers(upstream: &Upstream) -> Result<HeaderMap, http::Error> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    // Compressed streams come in lumps.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(
        header::USER_AGENT,
        HeaderValue::from_static(concat!("toolwire/", env!("CARGO_PKG_VERSION"))),
    );
    if let Some(key) = &upstream.api_key {
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()))?;
        bearer.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, bearer);
    }
    headers.extend(upstream.headers.clone());
    Ok(headers)
}

/// How the content type of a web page begins.
const HTML: &[u8] = b"text/html";

/// A good status before a body that no reader can read.
fn unreadable(head: &Parts) -> Option<Failure> {
    let protocol = |message: String| Some(Failure::new(Kind::Protocol, message));
    if !head.status.is_success() {
        let hint = if head.status.is_redirection() { "; is its base_url right?" } else { "" };
        return protocol(format!("the upstream answered with status {}{hint}", head.status));
    }
    if head.status == StatusCode::NO_CONTENT {
        return protocol("the upstream answered without content".to_owned());
    }
    if let Some(encoding) =
        head.headers.get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity")
    {
        return protocol(format!(
            "the upstream's answer is compressed ({encoding:?}), which was not asked for"
        ));
    }
    let content_type = head.headers.get(header::CONTENT_TYPE)?.as_bytes().trim_ascii_start();
    if content_type.get(..HTML.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(HTML)) {
        return protocol(
            "the upstream answered with a web page, not with a stream; is its base_url right?".into(),
        );
    }
    None
}

/// The last of an error's sources: the one that says what happened.
fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    std::iter::successors(Some(error), |&error| error.source()).last().unwrap_or(error)
}
