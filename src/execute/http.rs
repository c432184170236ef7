//! [`HttpClient`]: HTTP requests of providers.
//!
//! It follows no redirects and limits what a response may contain. Time limits are the caller's: dropping the future aborts the
//! exchange. The addresses are those of the configuration, which may be private ones.

use std::{error::Error, fmt};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

/// Sends requests. Clones share their connections.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// Why there is no response. The words are for the log; they may name the server.
#[derive(Debug)]
pub(crate) enum HttpError {
    /// No connection: nothing was sent.
    Connect(String),
    /// The exchange broke off.
    Broken(String),
    /// The response is larger than it may be.
    TooLarge,
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(reason) | Self::Broken(reason) => f.write_str(reason),
            Self::TooLarge => f.write_str("the response is too large"),
        }
    }
}

impl HttpClient {
    /// A client that trusts the system's certificates, or Mozilla's if there are none.
    pub(crate) fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let roots = HttpsConnectorBuilder::new().with_native_roots();
        let tls = roots.unwrap_or_else(|_| HttpsConnectorBuilder::new().with_webpki_roots());
        let connector = tls.https_or_http().enable_all_versions().wrap_connector(tcp);
        Self { client: Client::builder(TokioExecutor::new()).build(connector) }
    }

    /// The response to `request`, whose body has at most `max_body` bytes.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
        max_body: usize,
    ) -> Result<Response<Bytes>, HttpError> {
        let response = self.client.request(request.map(Full::new)).await.map_err(|error| {
            let reason = innermost(&error).to_string();
            if error.is_connect() { HttpError::Connect(reason) } else { HttpError::Broken(reason) }
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, max_body).collect().await.map_err(|error| {
            match error.is::<http_body_util::LengthLimitError>() {
                true => HttpError::TooLarge,
                false => HttpError::Broken(innermost(error.as_ref()).to_string()),
            }
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

/// The error that caused all others.
fn innermost<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error
}
