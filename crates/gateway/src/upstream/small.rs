//! [`Small`]: sends small requests, such as those for model lists.
//!
//! Such requests are rare and do not wait in the upstream's queue. hyper's client sends them, each on its own
//! connection, and does not follow redirects.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::{client::legacy, rt::TokioExecutor};
use tokio::time::timeout;

use super::{connector::Connector, innermost};
use toolwire_net::proxied::TcpConnector;

/// Sends small requests.
#[derive(Debug)]
pub(super) struct Small {
    http: legacy::Client<HttpsConnector<TcpConnector>, Full<Bytes>>,
    /// Timeout of a whole exchange.
    limit: Duration,
    /// Maximum size of a response in bytes.
    max_body: usize,
}

/// The reason why there is no body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GetError {
    /// The upstream did not answer.
    #[error("{}", innermost(.0.as_ref()))]
    NoAnswer(#[source] Box<dyn Error + Send + Sync>),
    /// The upstream answered with a status other than 200.
    #[error("status {0}")]
    Status(StatusCode),
    /// The response has no readable body.
    #[error("{}", innermost(.0.as_ref()))]
    Answer(#[source] Box<dyn Error + Send + Sync>),
}

impl Small {
    /// Opens connections with `connector`. An exchange takes at most `limit`, and a response has at most `max_body`
    /// bytes.
    pub(super) fn new(connector: Connector, limit: Duration, max_body: usize) -> Self {
        let connector = connector.https();
        let http = legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Self { http, limit, max_body }
    }

    /// Returns the response to `request`, whatever its status. Dropping the future aborts the exchange.
    ///
    /// # Errors
    /// If no complete response arrived.
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
