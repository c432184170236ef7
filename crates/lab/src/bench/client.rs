//! [`Client`]: sends requests to a target and follows its streams, as cheaply as possible.
//!
//! ```text
//! run: connection (idle or new) ─▶ one POST ─▶ head ─▶ body, frame by frame ─▶ Follower ─▶ Sample
//! ```
//!
//! A request's task also drives the connection, so that a token costs one wake-up and one read, and its timestamp is the
//! time of that read. Idle connections are not driven, so the client notices only on reuse that the target has closed one.
//! It then opens a new connection, once; this does not count as an error.

use std::{
    error::Error,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode, Uri,
    header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT},
    uri::Scheme,
};
use http_body::Body;
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection, SendRequest},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tower_service::Service;

use super::target::Target;
use crate::{
    clients,
    clock::now,
    follow::{
        Follower,
        sample::{Outcome, Sample},
    },
};
use toolwire_net::{causes::causes, redact::Redactor};
use toolwire_pipeline::dialect::ClientDialect;

/// How long a target may take to end the body after the end of the stream, before the connection is closed.
const LINGER: Duration = Duration::from_secs(1);

/// Maximum number of bytes read from an error response.
const MAX_REFUSAL: usize = 16 << 10;

/// Maximum number of characters reported from an error response.
const TOLD: usize = 200;

/// Maximum number of idle connections in the pool.
const MAX_IDLE: usize = 16 << 10;

/// Sends requests to one target, many of them concurrently.
#[derive(Debug)]
pub(crate) struct Client {
    target: Arc<Target>,
    dialect: ClientDialect,
    timeout: Duration,
    path: Uri,
    headers: HeaderMap,
    /// Masks the target's keys, which servers may repeat in their errors.
    secrets: Redactor,
    connector: HttpsConnector<HttpConnector>,
    idle: Mutex<Vec<Link>>,
}

/// A connection with its request sender.
#[derive(Debug)]
struct Link {
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<MaybeHttpsStream<TokioIo<TcpStream>>, Full<Bytes>>,
    closed: bool,
}

/// Why a request got no response.
enum Fault {
    /// The target had closed the idle connection.
    Stale,
    /// Anything else, as a message.
    Broken(String),
}

impl Client {
    /// Creates a client for `target` in `dialect`, whose requests are for `model` if their path names one. A request that
    /// has not ended after `timeout` counts as broken.
    pub(crate) fn new(target: Arc<Target>, dialect: ClientDialect, model: &str, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let builder = HttpsConnectorBuilder::new();
        let tls = match &target.tls {
            Some(config) => builder.with_tls_config(config.clone()),
            None if target.url.scheme() == Some(&Scheme::HTTPS) => builder
                .with_native_roots()
                .unwrap_or_else(|_| HttpsConnectorBuilder::new().with_webpki_roots()),
            None => builder.with_webpki_roots(),
        };
        let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
        let (path, headers, secrets) =
            (path(&target.url, dialect, model), headers(&target), secrets(&target));
        Self { target, dialect, timeout, path, headers, secrets, connector, idle: Mutex::default() }
    }

    /// Sends `body` and follows the response to its end. `intended` is the start time according to the load's schedule.
    pub(crate) async fn run(&self, body: Bytes, intended: u64) -> Sample {
        let mut sample = Sample { intended, ..Sample::default() };
        let exchange = timeout(self.timeout, self.exchange(body, &mut sample)).await;
        if exchange.is_err() {
            let limit = humantime::format_duration(self.timeout);
            close(&mut sample, Outcome::Broken(format!("no end within {limit}")));
        }
        sample
    }

    async fn exchange(&self, body: Bytes, sample: &mut Sample) {
        let mut answer = None;
        if let Some(link) = self.idle_link().await {
            match self.ask(link, body.clone(), sample).await {
                Err(Fault::Stale) => {}
                other => answer = Some(other),
            }
        }
        let answer = match answer {
            Some(answer) => answer,
            None => match self.connect().await {
                Ok(link) => {
                    sample.connected = true;
                    self.ask(link, body, sample).await
                }
                Err(fault) => Err(fault),
            },
        };
        match answer {
            Ok((link, response)) if response.status() == StatusCode::OK => {
                self.follow(link, response, sample).await;
            }
            Ok((link, response)) => self.refused(link, response, sample).await,
            Err(Fault::Broken(why)) => close(sample, Outcome::Broken(why)),
            Err(Fault::Stale) => close(sample, Outcome::Broken("the connection was closed".to_owned())),
        }
    }

    /// Returns an idle connection that is still open.
    async fn idle_link(&self) -> Option<Link> {
        loop {
            let mut link = self.idle.lock().pop()?;
            let ready = poll_fn(|cx| {
                link.drive(cx);
                Poll::Ready(!link.closed && matches!(link.sender.poll_ready(cx), Poll::Ready(Ok(()))))
            });
            if ready.await {
                return Some(link);
            }
        }
    }

    async fn connect(&self) -> Result<Link, Fault> {
        let told = |why: &(dyn Error + 'static)| Fault::Broken(format!("no connection: {}", causes(why)));
        let mut connector = self.connector.clone();
        poll_fn(|cx| connector.poll_ready(cx)).await.map_err(|error| told(&*error))?;
        let stream = connector.call(self.target.url.clone()).await.map_err(|error| told(&*error))?;
        let (sender, connection) = http1::handshake(stream).await.map_err(|error| told(&error))?;
        Ok(Link { sender, connection, closed: false })
    }

    /// Sends the request and waits for the head of the response.
    async fn ask(
        &self,
        mut link: Link,
        body: Bytes,
        sample: &mut Sample,
    ) -> Result<(Link, Response<Incoming>), Fault> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = self.headers.clone();
        sample.sent = now();
        let mut response = pin!(link.sender.send_request(request));
        let answer = poll_fn(|cx| {
            drive_for(&mut link.connection, &mut link.closed, cx, |cx| response.as_mut().poll(cx))
        });
        match answer.await {
            Ok(response) => {
                sample.status = Some(response.status().as_u16());
                Ok((link, response))
            }
            Err(error) if !sample.connected && !error.is_parse() => Err(Fault::Stale),
            Err(error) => Err(Fault::Broken(format!("no response: {}", causes(&error)))),
        }
    }

    async fn follow(&self, mut link: Link, response: Response<Incoming>, sample: &mut Sample) {
        let kind =
            response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().escape_ascii().to_string());
        if !kind.as_deref().is_some_and(|kind| clients::api(self.dialect).is_stream_type(kind)) {
            let kind = kind.unwrap_or_else(|| "of no type".to_owned());
            return close(
                sample,
                Outcome::Broken(format!("the response is not an event stream, but {kind}")),
            );
        }
        let mut follower = Follower::new(self.dialect);
        let mut body = response.into_body();
        let mut linger = None;
        loop {
            let frame = poll_fn(|cx| link.poll_body(&mut body, cx));
            let frame = match linger.as_mut() {
                None => frame.await,
                Some(linger) => match within(linger, frame).await {
                    Some(frame) => frame,
                    None => return follower.break_off("it stays open", now(), sample),
                },
            };
            match frame {
                Some(Ok(bytes)) => follower.push(&bytes, now(), sample),
                None => break,
                Some(Err(error)) => return follower.break_off(&broken_body(&error), now(), sample),
            }
            if linger.is_none() && sample.outcome != Outcome::Open {
                linger = Some(Box::pin(sleep(LINGER)));
            }
        }
        follower.finish(now(), sample);
        self.keep(link);
    }

    async fn refused(&self, mut link: Link, response: Response<Incoming>, sample: &mut Sample) {
        let mut body = response.into_body();
        let mut said = BytesMut::new();
        let whole = loop {
            match poll_fn(|cx| link.poll_body(&mut body, cx)).await {
                Some(Ok(bytes)) if said.len() + bytes.len() <= MAX_REFUSAL => {
                    sample.first_byte.get_or_insert_with(now);
                    sample.bytes += bytes.len() as u64;
                    said.extend_from_slice(&bytes);
                }
                None => break true,
                Some(_) => break false,
            }
        };
        sample.refusal = refusal(&said, &self.secrets);
        close(sample, Outcome::Refused);
        if whole {
            self.keep(link);
        }
    }

    fn keep(&self, link: Link) {
        let mut idle = self.idle.lock();
        if !link.closed && idle.len() < MAX_IDLE {
            idle.push(link);
        }
    }
}

impl Link {
    fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.closed {
            self.closed = Pin::new(&mut self.connection).poll(cx).is_ready();
        }
    }

    /// Returns the next bytes of the body.
    fn poll_body(&mut self, body: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            let frame = drive_for(&mut self.connection, &mut self.closed, cx, |cx| {
                Pin::new(&mut *body).poll_frame(cx)
            });
            match frame {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    // The connection can be reused only after it has read the end of the body.
                    self.drive(cx);
                    return Poll::Ready(None);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Polls `part`, which makes progress only when the connection does. If it is pending, polls the connection and then
/// `part` again, so that no extra wake-up is needed between the two.
fn drive_for<C: Future + Unpin, T>(
    connection: &mut C,
    closed: &mut bool,
    cx: &mut Context<'_>,
    mut part: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    let mut quiet = Context::from_waker(Waker::noop());
    if let Poll::Ready(value) = part(&mut quiet) {
        return Poll::Ready(value);
    }
    if !*closed {
        *closed = Pin::new(connection).poll(cx).is_ready();
    }
    match *closed {
        false => part(&mut quiet),
        // The connection has ended, so only `part` can still make progress.
        true => part(cx),
    }
}

/// Returns the output of `future`, or `None` if `limit` elapses first.
async fn within<T>(limit: &mut Pin<Box<tokio::time::Sleep>>, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = limit.as_mut() => None,
    }
}

/// Records the outcome of a stream, unless the stream already has one.
fn close(sample: &mut Sample, outcome: Outcome) {
    if sample.outcome == Outcome::Open {
        sample.outcome = outcome;
        sample.end = now();
    }
}

/// Returns the path for requests: the base URL's path, plus the dialect's path unless the base URL already ends with it.
fn path(base: &Uri, dialect: ClientDialect, model: &str) -> Uri {
    let own = clients::api(dialect).path_at(base.path(), model, true);
    let mark = if own.contains('?') { '&' } else { '?' };
    let query = base.query().map_or_else(String::new, |query| format!("{mark}{query}"));
    let path = format!("{own}{query}");
    path.parse().unwrap_or_default()
}

fn headers(target: &Target) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let host = target.url.authority().and_then(|authority| authority.as_str().parse().ok());
    headers.insert(HOST, host.unwrap_or_else(|| HeaderValue::from_static("localhost")));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers
        .insert(USER_AGENT, HeaderValue::from_static(concat!("toolwire-bench/", env!("CARGO_PKG_VERSION"))));
    for (name, value) in &target.headers {
        headers.insert(name, value.clone());
    }
    headers
}

fn secrets(target: &Target) -> Redactor {
    let secret = target.headers.iter().filter(|(_, value)| value.is_sensitive());
    let values = secret.filter_map(|(_, value)| value.to_str().ok());
    // Only the key is secret, not a scheme such as `Bearer` before it.
    Redactor::new(values.filter_map(|value| value.rsplit(' ').next()))
}

/// Returns the message of an error response, or the start of its body, without `secrets`. Redacts before it truncates,
/// since a truncated secret would not be recognized.
fn refusal(body: &[u8], secrets: &Redactor) -> Option<String> {
    let text = str::from_utf8(body).ok()?.trim();
    let json: Value = serde_json::from_str(text).unwrap_or_default();
    let error = json.get("error").unwrap_or(&json);
    let message = error.get("message").unwrap_or(error).as_str().unwrap_or(text);
    (!message.is_empty()).then(|| secrets.text(message).chars().take(TOLD).collect())
}

fn broken_body(error: &hyper::Error) -> String {
    format!("the body was interrupted: {}", causes(error))
}

#[cfg(test)]
mod tests;
