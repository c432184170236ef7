//! [`Client`]: asks one upstream.
//!
//! ```text
//! line (a place) ─▶ connection (pooled or new) ─▶ request ─▶ headers ─▶ Opened: the body to be read
//!                                                                └────▶ Unopened: refused, its error body read
//! ```
//!
//! All of it is one future, [`Client::open`]. Whoever drops it leaves the line, or closes the connection.

use std::{
    error::Error,
    io::{self, ErrorKind},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, response::Parts};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{client::legacy, client::legacy::connect::capture_connection, rt::TokioExecutor};
use secrecy::ExposeSecret;
use tokio::time::timeout;

use crate::{
    config::Upstream,
    dialect::UpstreamRequest,
    failure::{self, Failure, Kind},
};

use super::{
    connector::{ConnectTimeout, Connector},
    exchange,
    permits::{Line, Permit},
};

/// Bytes of a refusal's body that are read. Beyond: ignored; an error object is small.
const MAX_REFUSAL: usize = 64 << 10;

/// Bytes that hyper buffers a connection, each way. Beyond: the other side waits.
const CONNECTION_BUFFER: usize = 64 << 10;

/// Bytes of one HTTP/2 stream that the upstream may send ahead of a slow client.
const STREAM_WINDOW: u32 = 64 << 10;

/// Bytes of all streams of an HTTP/2 connection together: slow clients must not stop the others.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Idle connections are kept for so long: below the minute after which many servers close them.
const POOL_IDLE: Duration = Duration::from_secs(50);

/// A connection that closes within this time is taken to have closed before the request reached the upstream's program.
const AT_ONCE: Duration = Duration::from_secs(1);

/// An upstream, ready to be asked: its connections, its line and its configured headers.
#[derive(Debug)]
pub(super) struct Client {
    upstream: Arc<Upstream>,
    line: Line,
    http: legacy::Client<Connector, Full<Bytes>>,
    headers: HeaderMap,
}

/// An answer has begun.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) head: Parts,
    pub(super) body: Incoming,
    pub(super) permit: Permit,
}

/// An answer has not begun.
#[derive(Debug)]
pub(super) struct Unopened {
    pub(super) failure: Failure,
    /// What the upstream said, if it said anything.
    pub(super) said: Option<(Parts, Bytes)>,
}

/// Why a request has no answer.
enum Unanswered {
    /// `header_timeout` has passed.
    Late,
    Error(legacy::Error),
}

impl From<Failure> for Unopened {
    fn from(failure: Failure) -> Self {
        Self { failure, said: None }
    }
}

impl Client {
    /// A client of `upstream` without open connections.
    ///
    /// # Errors
    /// If the configured key cannot stand in a header.
    pub(super) fn new(upstream: Arc<Upstream>, line: Line) -> Result<Self, header::InvalidHeaderValue> {
        let connector = Connector::new(&upstream);
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(hyper_util::rt::TokioTimer::new())
            .pool_timer(hyper_util::rt::TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .http1_max_buf_size(CONNECTION_BUFFER)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .build(connector);
        let headers = standing_headers(&upstream)?;
        Ok(Self { upstream, line, http, headers })
    }

    /// The upstream that is asked.
    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
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
    ) -> Result<Opened, Unopened> {
        let permit = match permit {
            Some(permit) => permit,
            None => self.line.enter().await?,
        };
        let request = self.request(asked)?;
        let (head, body) = self.send(request).await?.into_parts();
        if head.status.is_client_error() || head.status.is_server_error() {
            return Err(self.refused(head, body).await);
        }
        match unreadable(&head) {
            None => Ok(Opened { head, body, permit }),
            Some(failure) => Err(Unopened { failure, said: Some((head, Bytes::new())) }),
        }
    }

    fn request(&self, asked: UpstreamRequest) -> Result<Request<Full<Bytes>>, Failure> {
        let internal = |error: http::Error| {
            Failure::new(Kind::Internal, format!("the upstream's request cannot be written: {error}"))
        };
        let uri = self.upstream.endpoint(asked.path).map_err(internal)?;
        let mut builder = Request::post(uri);
        for (name, value) in asked.headers {
            builder = builder.header(name, value);
        }
        let mut request = builder.body(Full::new(Bytes::from(asked.body))).map_err(internal)?;
        // Configured headers replace the dialect's.
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        Ok(request)
    }

    /// Sends `request`, and sends it once more if the connection closed at once without a word.
    ///
    /// An upstream may close a kept connection just when it is used again, and nobody can tell that from a refusal to
    /// answer. A client would have to send its request once more; so that is done here. Not later than at once,
    /// though: then the upstream may have worked on it.
    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let begun = Instant::now();
        let answered = match self.try_send(request.clone()).await {
            Err(Unanswered::Error(error)) if is_closed(&error) && begun.elapsed() < AT_ONCE => {
                tracing::debug!(
                    upstream = self.upstream.name,
                    "the connection closed at once: asked once more"
                );
                self.try_send(request).await
            }
            answered => answered,
        };
        answered.map_err(|unanswered| match unanswered {
            Unanswered::Late => failure::timed_out("response headers", self.upstream.timeouts.header),
            Unanswered::Error(error) => self.unreachable(&error),
        })
    }

    /// The header time begins when there is a connection: connecting has a limit of its own.
    async fn try_send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Unanswered> {
        let mut connection = capture_connection(&mut request);
        let mut response = self.http.request(request);
        tokio::select! {
            biased;
            response = &mut response => return response.map_err(Unanswered::Error),
            _ = connection.wait_for_connection_metadata() => {}
        }
        let answered = timeout(self.upstream.timeouts.header, response).await;
        answered.map_err(|_elapsed| Unanswered::Late)?.map_err(Unanswered::Error)
    }

    fn unreachable(&self, error: &legacy::Error) -> Failure {
        if find::<ConnectTimeout>(error).is_some() {
            return failure::timed_out("connection", self.upstream.timeouts.connect);
        }
        let (name, cause) = (&self.upstream.name, innermost(error));
        let (kind, what) = if error.is_connect() {
            (Kind::Connect, "cannot be reached")
        } else if find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
            (Kind::Protocol, "answered what is no HTTP")
        } else {
            (Kind::Connect, "closed the connection before it answered")
        };
        Failure::new(kind, format!("upstream `{name}` {what}: {cause}"))
    }

    async fn refused(&self, head: Parts, body: Incoming) -> Unopened {
        let body = self.refusal_body(body).await;
        let retry_after = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let failure = exchange::refusal(&self.upstream, head.status.as_u16(), retry_after, &body);
        Unopened { failure, said: Some((head, body)) }
    }

    /// What can be read of it in time: a refusal whose body breaks off is still a refusal.
    async fn refusal_body(&self, mut body: Incoming) -> Bytes {
        let mut read = BytesMut::new();
        let reading = async {
            while let Some(Ok(frame)) = body.frame().await {
                let Some(data) = frame.data_ref() else { continue };
                let room = MAX_REFUSAL - read.len();
                read.extend_from_slice(data.get(..room).unwrap_or(data));
                if read.len() == MAX_REFUSAL {
                    break;
                }
            }
        };
        // Out of time: what came must do.
        let _ = timeout(self.upstream.timeouts.idle, reading).await;
        read.freeze()
    }
}

/// The headers of every request: fixed ones, the configured ones, the key.
fn standing_headers(upstream: &Upstream) -> Result<HeaderMap, header::InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
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
    let content_type = head.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    if content_type.trim_start().to_ascii_lowercase().starts_with("text/html") {
        return protocol(
            "the upstream answered with a web page, not with a stream; is its base_url right?".into(),
        );
    }
    None
}

/// The connection closed before anything of an answer came.
fn is_closed(error: &legacy::Error) -> bool {
    let reset =
        |error: &io::Error| matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    !error.is_connect()
        && (find::<hyper::Error>(error).is_some_and(hyper::Error::is_incomplete_message)
            || find::<io::Error>(error).is_some_and(reset))
}

/// The first error of type `E` among `error` and its sources.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// The last of an error's sources: the one that says what happened.
pub(super) fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    chain(error).last().unwrap_or(error)
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
