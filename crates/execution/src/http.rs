//! [`HttpClient`]: an HTTP client for providers.
//!
//! It limits the size and content type of responses, and uses the configured proxies. Callers are responsible for time
//! limits: dropping the future aborts the request. By default, the client reaches all addresses, including private
//! ones, so it must only be used with URLs from the configuration. For other URLs, use [`HttpClient::guarded`].

use std::{error::Error, sync::Arc};

use bytes::Bytes;
use http::{
    HeaderMap, Method, Request, Response, StatusCode,
    header::{
        ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION,
        PROXY_AUTHORIZATION,
    },
    uri::Scheme,
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, Client},
    rt::TokioExecutor,
};
use url::Url;

use super::{
    address::{AddressRules, Blocked},
    connect::{CheckedConnector, Lookup, system_lookup},
    tool::{ErrorCode, ToolError},
};
use toolwire_net::{causes::innermost, proxied::Proxies};

const MAX_REDIRECTS: usize = 5;

/// Maximum size of a response's head in bytes, for URLs that are not from the configuration.
const MAX_HEAD: usize = 64 << 10;

/// An HTTP client. Clones share their connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    client: Client<HttpsConnector<CheckedConnector>, Full<Bytes>>,
    rules: Option<Arc<AddressRules>>,
    proxies: Arc<Proxies>,
}

#[derive(Clone)]
pub(crate) struct Download<'a> {
    pub(crate) url: &'a str,
    /// Headers for this server. They are not sent to other servers after a redirect.
    pub(crate) headers: HeaderMap,
    /// Maximum size of the body, in bytes.
    pub(crate) max_body: usize,
    /// Accepted content types, such as `image/png`, or `text/` for all text types. If empty, any type is accepted.
    pub(crate) content_types: &'a [&'a str],
    /// Whether a redirect to this address is followed. If `None`, all are.
    pub(crate) admits: Option<&'a (dyn Fn(&Url) -> bool + Sync)>,
}

/// Why there is no response. The message may name the server, so it is only for the log.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// There was no connection, so nothing was sent.
    #[error("{}", innermost(.0))]
    Connect(#[source] legacy::Error),
    #[error("{}", innermost(.0.as_ref()))]
    Broken(#[source] Box<dyn Error + Send + Sync>),
    #[error("the response is too large")]
    TooLarge,
    /// The content type is not accepted, or the response is compressed.
    #[error("the response has an unexpected content type")]
    ContentType,
    /// There are too many redirects, or one without a valid target.
    #[error("the redirects do not end")]
    Redirect,
    /// A redirect leads to an address that the caller does not admit.
    #[error("a redirect leads to another address")]
    Elsewhere(Url),
    #[error("HTTP status {0}")]
    Status(StatusCode),
}

impl From<HttpError> for ToolError {
    /// Describes the error without naming the server.
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Blocked(blocked) => blocked.into(),
            HttpError::Connect(_) => Self::new(ErrorCode::ProviderError, "The server could not be reached."),
            HttpError::Broken(_) => {
                Self::new(ErrorCode::ProviderError, "The connection to the server broke off.")
            }
            HttpError::TooLarge => Self::new(ErrorCode::TooLarge, "The server's response is too large."),
            HttpError::ContentType => Self::new(
                ErrorCode::UnsupportedContent,
                "The server's response is of another type than expected.",
            ),
            HttpError::Elsewhere(_) => {
                Self::new(ErrorCode::BlockedUrl, "The page redirects to an address that is not allowed.")
            }
            HttpError::Redirect => Self {
                is_retryable: false,
                ..Self::new(ErrorCode::ProviderError, "The server redirects without end.")
            },
            HttpError::Status(_) => Self::new(ErrorCode::ProviderError, "The server refused the request."),
        }
    }
}

impl HttpClient {
    /// Creates a client for URLs from the configuration, without a proxy. It trusts the system's certificates, or
    /// Mozilla's if there are none.
    pub fn direct() -> Self {
        Self::through(Proxies::One(None))
    }

    /// Like [`HttpClient::direct`], but with these proxies.
    pub(crate) fn through(proxies: Proxies) -> Self {
        Self::with(None, Arc::new(proxies), system_lookup())
    }

    /// Returns a client with the same proxies that only reaches addresses allowed by `rules`.
    pub(crate) fn guarded(&self, rules: AddressRules) -> Self {
        Self::with(Some(Arc::new(rules)), Arc::clone(&self.proxies), system_lookup())
    }

    /// Like [`HttpClient::guarded`], but each request has a connection of its own, so that none is used for two clients.
    #[cfg(feature = "mcp")]
    pub(crate) fn guarded_for_one_request(&self, rules: AddressRules) -> Self {
        Self::with_idle(Some(Arc::new(rules)), Arc::clone(&self.proxies), system_lookup(), 0)
    }

    fn with(rules: Option<Arc<AddressRules>>, proxies: Arc<Proxies>, lookup: Lookup) -> Self {
        Self::with_idle(rules, proxies, lookup, usize::MAX)
    }

    /// `idle` is the maximum number of connections to a server that wait for another request.
    fn with_idle(
        rules: Option<Arc<AddressRules>>,
        proxies: Arc<Proxies>,
        lookup: Lookup,
        idle: usize,
    ) -> Self {
        let roots = HttpsConnectorBuilder::new().with_native_roots();
        let tls = roots.unwrap_or_else(|_| HttpsConnectorBuilder::new().with_webpki_roots());
        let connector = CheckedConnector::new(rules.clone(), Arc::clone(&proxies), lookup);
        let connector = tls.https_or_http().enable_all_versions().wrap_connector(connector);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_max_idle_per_host(idle);
        if rules.is_some() {
            builder.http1_max_buf_size(MAX_HEAD);
        }
        Self { client: builder.build(connector), rules, proxies }
    }

    /// Sends `request` and returns the response, whose body may have at most `max_body` bytes. Redirects are not
    /// followed.
    ///
    /// # Errors
    /// Why there is no response.
    pub async fn send(&self, request: Request<Bytes>, max_body: usize) -> Result<Response<Bytes>, HttpError> {
        if let Some(rules) = &self.rules {
            rules.check(&request.uri().to_string())?;
        }
        collected(self.exchange(request).await?, max_body).await
    }

    /// Downloads a page or file. Follows up to five redirects, each of which is checked like the initial URL. The
    /// response has its [`Url`] as an extension.
    ///
    /// # Errors
    /// Why there is no response.
    pub(crate) async fn get(&self, download: Download<'_>) -> Result<Response<Bytes>, HttpError> {
        let mut url = match &self.rules {
            Some(rules) => rules.check(download.url)?,
            None => Url::parse(download.url).map_err(|_| Blocked::Invalid)?,
        };
        let mut headers = download.headers;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::new(Bytes::new());
            *request.method_mut() = Method::GET;
            *request.uri_mut() = url.as_str().parse().map_err(|_| Blocked::Invalid)?;
            *request.headers_mut() = headers.clone();
            // Decompression could turn a small body into a large one.
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let response = self.exchange(request).await?;
            let Some(location) = redirect(&response) else {
                if response.status().is_success() {
                    check_content(response.headers(), download.content_types)?;
                }
                let mut response = collected(response, download.max_body).await?;
                response.extensions_mut().insert(url);
                return Ok(response);
            };
            let next = redirected(&url, location)?;
            if let Some(rules) = &self.rules {
                rules.check_url(&next)?;
            }
            if download.admits.is_some_and(|admits| !admits(&next)) {
                return Err(HttpError::Elsewhere(next));
            }
            if next.origin() != url.origin() {
                headers.clear();
            }
            url = next;
        }
        Err(HttpError::Redirect)
    }

    /// Sends `request` and returns the response before its body has arrived. The URL's text is not checked.
    ///
    /// # Errors
    /// Why there is no response.
    pub async fn exchange(&self, mut request: Request<Bytes>) -> Result<Response<Incoming>, HttpError> {
        // For a tunnel, the proxy received its credentials with the `CONNECT` request.
        if self.rules.is_none()
            && request.uri().scheme() == Some(&Scheme::HTTP)
            && let Some(authorization) =
                self.proxies.proxy_for(request.uri()).and_then(|proxy| proxy.authorization)
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization);
        }
        self.client.request(request.map(Full::new)).await.map_err(|error| {
            match innermost(&error).downcast_ref::<Blocked>() {
                Some(blocked) => HttpError::Blocked(*blocked),
                None if error.is_connect() => HttpError::Connect(error),
                None => HttpError::Broken(error.into()),
            }
        })
    }
}

fn redirect(response: &Response<Incoming>) -> Option<&HeaderValue> {
    let is_redirect = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    response.headers().get(LOCATION).filter(|_| is_redirect)
}

/// Resolves `location`, from a response to `url`.
fn redirected(url: &Url, location: &HeaderValue) -> Result<Url, HttpError> {
    let location = location.to_str().map_err(|_| HttpError::Redirect)?;
    let next = url.join(location).map_err(|_| HttpError::Redirect)?;
    match url.scheme() == "https" && next.scheme() == "http" {
        true => Err(HttpError::Blocked(Blocked::Downgrade)),
        false => Ok(next),
    }
}

/// Checks that the body is not compressed and that its content type is one of `types`, unless `types` is empty.
fn check_content(headers: &HeaderMap, types: &[&str]) -> Result<(), HttpError> {
    let is_plain = headers.get_all(CONTENT_ENCODING).iter().all(|encoding| encoding == "identity");
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (essence, _) = content_type.split_once(';').unwrap_or((content_type, ""));
    let essence = essence.trim().to_ascii_lowercase();
    let is_one =
        |wanted: &&str| if wanted.ends_with('/') { essence.starts_with(wanted) } else { essence == *wanted };
    match is_plain && (types.is_empty() || types.iter().any(is_one)) {
        true => Ok(()),
        false => Err(HttpError::ContentType),
    }
}

/// Reads the response's body, at most `max_body` bytes.
///
/// # Errors
/// Why there is no complete response.
pub async fn collected(response: Response<Incoming>, max_body: usize) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = response.into_parts();
    let length =
        head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > max_body) {
        return Err(HttpError::TooLarge);
    }
    let body =
        Limited::new(body, max_body).collect().await.map_err(|error| match error
            .is::<http_body_util::LengthLimitError>(
        ) {
            true => HttpError::TooLarge,
            false => HttpError::Broken(error),
        })?;
    Ok(Response::from_parts(head, body.to_bytes()))
}

#[cfg(test)]
mod tests;
