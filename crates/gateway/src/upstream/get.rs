//! [`Get`]: small `GET` requests to an upstream.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use parking_lot::Mutex;

use super::{
    connector::{Connect, ConnectError, Connector},
    small::{GetError, Small},
    standing_headers,
};
use toolwire_config::Upstream;

/// Opens a connection to `upstream`, with TLS if configured, and closes it.
///
/// # Errors
/// If the connection cannot be opened.
pub(crate) async fn connect(upstream: &Upstream) -> Result<(), ConnectError> {
    Connector::new(upstream).connect().await.map(drop)
}

#[derive(Debug)]
pub(crate) struct Get {
    small: Small,
    headers: HeaderMap,
    /// How far this machine's clock is ahead of the server's, in seconds, as of the last response.
    ahead: Mutex<Option<i64>>,
}

impl Get {
    /// Sends requests to `upstream`. `limit` applies to each exchange, and `max_body` to the bytes of each response.
    ///
    /// # Errors
    /// If the configured key contains characters that are not allowed in a header.
    pub(crate) fn new(upstream: &Upstream, limit: Duration, max_body: usize) -> Result<Self, http::Error> {
        let mut headers = standing_headers(upstream)?;
        headers.remove(header::CONTENT_TYPE);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        Ok(Self {
            small: Small::new(Connector::new(upstream), limit, max_body),
            headers,
            ahead: Mutex::default(),
        })
    }

    /// How far this machine's clock is ahead of that of the server which sent the last response, in seconds. `None` if
    /// the server did not say its time.
    pub(crate) fn seconds_ahead(&self) -> Option<i64> {
        *self.ahead.lock()
    }

    /// Fetches the body at `address`. Dropping the future aborts the exchange.
    ///
    /// # Errors
    /// If there is no response, or if its status is not 200.
    pub(crate) async fn fetch(&self, address: Uri) -> Result<Bytes, GetError> {
        self.send(address, Request::new(Bytes::new())).await
    }

    /// Like [`Get::fetch`], but posts this JSON.
    ///
    /// # Errors
    /// See [`Get::fetch`].
    pub(crate) async fn post(&self, address: Uri, json: Bytes) -> Result<Bytes, GetError> {
        let mut request = Request::new(json);
        *request.method_mut() = Method::POST;
        self.send(address, request).await
    }

    async fn send(&self, address: Uri, mut request: Request<Bytes>) -> Result<Bytes, GetError> {
        let is_post = request.method() == Method::POST;
        *request.uri_mut() = address;
        *request.headers_mut() = self.headers.clone();
        if is_post {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        let response = self.small.send(request).await?;
        *self.ahead.lock() = seconds_ahead(response.headers(), SystemTime::now());
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            status => Err(GetError::Status(status)),
        }
    }
}

/// How far `now` is ahead of the header `Date`, in seconds.
fn seconds_ahead(headers: &HeaderMap, now: SystemTime) -> Option<i64> {
    let said = httpdate::parse_http_date(headers.get(header::DATE)?.to_str().ok()?).ok()?;
    let seconds = |difference: Duration| i64::try_from(difference.as_secs()).ok();
    match now.duration_since(said) {
        Ok(ahead) => seconds(ahead),
        Err(behind) => seconds(behind.duration()).map(|seconds| -seconds),
    }
}
