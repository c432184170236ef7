//! [`Get`]: small `GET` requests to an upstream.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};

use super::{
    connector::{Connect, ConnectError, Connector},
    small::{GetError, Small},
    standing_headers,
};
use toolwire_config::Upstream;

/// Opens a connection to `upstream`, with TLS if configured, and closes it.
///
/// # Errors
/// If the connection failed.
pub(crate) async fn connect(upstream: &Upstream) -> Result<(), ConnectError> {
    Connector::new(upstream).connect().await.map(drop)
}

/// Sends `GET` requests to one upstream.
#[derive(Debug)]
pub(crate) struct Get {
    small: Small,
    headers: HeaderMap,
}

impl Get {
    /// Sends requests to `upstream`. An exchange takes at most `limit`, and a response has at most `max_body` bytes.
    ///
    /// # Errors
    /// If the configured key contains characters that a header must not contain.
    pub(crate) fn new(upstream: &Upstream, limit: Duration, max_body: usize) -> Result<Self, http::Error> {
        let mut headers = standing_headers(upstream)?;
        headers.remove(header::CONTENT_TYPE);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        Ok(Self { small: Small::new(Connector::new(upstream), limit, max_body), headers })
    }

    /// Returns the body at `address`. Dropping the future aborts the exchange.
    ///
    /// # Errors
    /// If no response arrived, or one with another status than 200.
    pub(crate) async fn fetch(&self, address: Uri) -> Result<Bytes, GetError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = address;
        *request.headers_mut() = self.headers.clone();
        let response = self.small.send(request).await?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            status => Err(GetError::Status(status)),
        }
    }
}
