//! [`Listing`]: fetches the list of an upstream's models.
//!
//! It is one small request now and then, and does not wait in the upstream's queue. hyper's client sends it, on a
//! connection of its own.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::time::timeout;

use super::{connector::Connector, innermost, standing_headers};
use crate::config::Upstream;

/// How long the whole exchange may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Bytes that a list may have. The longest known ones have less than one MiB.
const MAX_BODY: usize = 4 << 20;

/// A request for an upstream's models, ready to be sent.
#[derive(Debug)]
pub(in crate::proxy) struct Listing {
    http: legacy::Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    request: Request<()>,
}

impl Listing {
    /// For `upstream`; `None` if its dialect has no list of models.
    ///
    /// # Errors
    /// If the configured key contains characters that no header may have, or the address is too long.
    pub(in crate::proxy) fn new(upstream: &Upstream) -> Result<Option<Self>, http::Error> {
        let Some(address) = upstream.models_endpoint() else { return Ok(None) };
        let mut request = Request::get(address?).body(())?;
        let mut headers = standing_headers(upstream)?;
        headers.remove(header::CONTENT_TYPE);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        *request.headers_mut() = headers;
        let connector = Connector::new(upstream).https();
        let http = legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Some(Self { http, request }))
    }

    /// Sends the request and returns the body of the response. Dropping the future aborts the exchange.
    ///
    /// # Errors
    /// The reason why there is no list, in words.
    pub(in crate::proxy) async fn fetch(&self) -> Result<Bytes, String> {
        let exchange = async {
            let request = self.request.clone().map(|()| Empty::new());
            let response = self.http.request(request).await.map_err(|error| innermost(&error).to_string())?;
            if !response.status().is_success() {
                return Err(format!("status {}", response.status()));
            }
            let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
            let failed = |error: Box<dyn Error + Send + Sync>| innermost(error.as_ref()).to_string();
            Ok(body.map_err(failed)?.to_bytes())
        };
        timeout(LIMIT, exchange).await.unwrap_or_else(|_elapsed| Err(format!("no response within {LIMIT:?}")))
    }
}
