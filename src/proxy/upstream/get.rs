//! [`Get`]: small requests to an upstream beside those for responses.
//!
//! They are rare and do not wait in the upstream's queue. hyper's client sends them, each on a connection of its own. It
//! does not follow redirects.

use std::{error::Error, fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::{client::legacy, rt::TokioExecutor};
use tokio::time::timeout;

use super::{connector::Connector, innermost, proxied::TcpConnector, standing_headers};
use crate::config::Upstream;

/// Sends `GET` requests to one upstream.
#[derive(Debug)]
pub(in crate::proxy) struct Get {
    http: legacy::Client<HttpsConnector<TcpConnector>, Empty<Bytes>>,
    headers: HeaderMap,
    /// How long a whole exchange may take.
    limit: Duration,
    /// Bytes that an answer may have.
    max_body: usize,
}

/// Why there is no body.
#[derive(Debug)]
pub(in crate::proxy) enum GetError {
    /// The upstream did not answer.
    NoAnswer(String),
    /// It answered with another status than 200.
    Status(StatusCode),
    /// Its answer has no body that can be read.
    Answer(String),
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer(reason) | Self::Answer(reason) => f.write_str(reason),
            Self::Status(status) => write!(f, "status {status}"),
        }
    }
}

impl Get {
    /// For `upstream`. An exchange takes at most `limit`, and an answer has at most `max_body` bytes.
    ///
    /// # Errors
    /// If the configured key contains characters that no header may have.
    pub(in crate::proxy) fn new(
        upstream: &Upstream,
        limit: Duration,
        max_body: usize,
    ) -> Result<Self, http::Error> {
        let mut headers = standing_headers(upstream)?;
        headers.remove(header::CONTENT_TYPE);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let connector = Connector::new(upstream).https();
        let http = legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { http, headers, limit, max_body })
    }

    /// The body at `address`. Dropping the future aborts the exchange.
    ///
    /// # Errors
    /// Why no answer arrived, in words.
    pub(in crate::proxy) async fn fetch(&self, address: Uri) -> Result<Bytes, GetError> {
        let exchange = async {
            let mut request = Request::new(Empty::new());
            *request.uri_mut() = address;
            *request.headers_mut() = self.headers.clone();
            let response = self.http.request(request).await;
            let response = response.map_err(|error| GetError::NoAnswer(innermost(&error).to_string()))?;
            if response.status() != StatusCode::OK {
                return Err(GetError::Status(response.status()));
            }
            let body = Limited::new(response.into_body(), self.max_body).collect().await;
            let failed =
                |error: Box<dyn Error + Send + Sync>| GetError::Answer(innermost(error.as_ref()).to_string());
            Ok(body.map_err(failed)?.to_bytes())
        };
        let late = |_elapsed| Err(GetError::NoAnswer(format!("no response within {:?}", self.limit)));
        timeout(self.limit, exchange).await.unwrap_or_else(late)
    }
}
