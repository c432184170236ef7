//! [`Small`]: sends small requests, such as those for lists of models.
//!
//! Such requests are rare and bypass the upstream's queue. hyper's client sends each of them on a new connection and
//! does not follow redirects.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::{client::legacy, rt::TokioExecutor};
use tokio::time::timeout;

use super::{connector::Connector, innermost};
use toolwire_net::proxied::TcpConnector;

#[derive(Debug)]
pub(super) struct Small {
    http: legacy::Client<HttpsConnector<TcpConnector>, Full<Bytes>>,
    limit: Duration,
    /// Maximum size of a response in bytes.
    max_body: usize,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum GetError {
    /// The upstream did not respond.
    #[error("{}", innermost(.0.as_ref()))]
    NoAnswer(#[source] Box<dyn Error + Send + Sync>),
    #[error("status {0}")]
    Status(StatusCode),
    /// The body of the response cannot be read.
    #[error("{}", innermost(.0.as_ref()))]
    Answer(#[source] Box<dyn Error + Send + Sync>),
}

impl Small {
    /// Sends requests over connections from `connector`. `limit` applies to each exchange, and `max_body` to the bytes
    /// of each response.
    pub(super) fn new(connector: Connector, limit: Duration, max_body: usize) -> Self {
        let connector = connector.https();
        let http = legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Self { http, limit, max_body }
    }

    /// Returns the response to `request`, whatever its status. Dropping the future aborts the exchange.
    ///
    /// # Errors
    /// If there is no complete response.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, GetError> {
        let exchange = async {
            let response = self.http.request(request.map(Full::new)).await;
            let response = response.map_err(|error| GetError::NoAnswer(error.into()))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, self.max_body).collect().await;
            Ok(Response::from_parts(head, body.map_err(GetError::Answer)?.to_bytes()))
        };
        let late = |_elapsed| Err(GetError::NoAnswer(format!("no response within {:?}", self.limit).into()));
        timeout(self.limit, exchange).await.unwrap_or_else(late)
    }
}
