//! [`Target`]: the address and the headers of requests to an upstream.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, uri::Scheme};
use secrecy::ExposeSecret;

use toolwire_config::{HttpProxy, Upstream};
use toolwire_http1::RequestHead;
use toolwire_pipeline::{
    dialect::KeyHeader,
    failure::{Failure, Kind},
};

#[derive(Debug)]
pub(super) struct Target {
    pub(super) request: Request<()>,
    /// The same for HTTP/1.1.
    pub(super) head: RequestHead,
}

impl Target {
    pub(super) fn new(
        upstream: &Upstream,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
    ) -> Result<Self, http::Error> {
        let mut request = Request::builder().method(method).uri(uri).body(())?;
        *request.headers_mut() = headers;
        let head = match forwarding(upstream) {
            Some(_) => RequestHead::for_proxy(&request),
            None => RequestHead::new(&request),
        };
        Ok(Self { request, head })
    }
}

/// Returns the headers of all requests: fixed headers, the key, and configured headers. A client's headers are
/// forwarded only if its request is passed through ([`Client::pass`](super::Client::pass)), or if they name beta features
/// ([`Client::with_betas`](super::Client::with_betas)).
pub(super) fn standing_headers(upstream: &Upstream) -> Result<HeaderMap, http::Error> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    // Compression is declined, because compressors hold tokens back to fill their blocks.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(
        header::USER_AGENT,
        HeaderValue::from_static(concat!("toolwire/", env!("CARGO_PKG_VERSION"))),
    );
    let side = upstream.options.side();
    for (name, value) in side.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(key) = &upstream.api_key {
        let (name, value) = match side.key_header() {
            KeyHeader::Bearer => (header::AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
            KeyHeader::Named(name) => (HeaderName::from_static(name), key.expose_secret().to_owned()),
        };
        let mut value = HeaderValue::try_from(value)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers.extend(upstream.headers.clone());
    if let Some(authorization) = forwarding(upstream).and_then(|proxy| proxy.authorization.clone()) {
        headers.insert(header::PROXY_AUTHORIZATION, authorization);
    }
    Ok(headers)
}

/// Returns the proxy that can see requests to `upstream` because it forwards them. `None` for a proxy that only opens a
/// tunnel.
fn forwarding(upstream: &Upstream) -> Option<&HttpProxy> {
    upstream.proxy.as_ref().filter(|_| upstream.base_url.scheme() != Some(&Scheme::HTTPS))
}

pub(super) fn no_address(error: http::Error) -> Failure {
    let message = format!("the request has no valid address at the upstream: {error}");
    Failure::new(Kind::Request, message).with_cause(error)
}
