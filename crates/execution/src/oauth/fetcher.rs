//! [`Fetcher`]: sends the requests of a login, to addresses that the server may name.
//!
//! The origins that the operator has configured are reached like any configured URL. All others follow the rules for
//! addresses that somebody else has chosen: a public server must not lead to a private address, nor a server with
//! `https` to one without.

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, LOCATION, USER_AGENT},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use url::{Origin, Url};

use super::error::{OAuthError, plain};
use crate::{
    address::{AddressRules, Blocked},
    http::HttpClient,
};

/// Maximum size of a document, in bytes.
const MAX_DOCUMENT: usize = 256 << 10;

/// Time limit for one response.
const LIMIT: Duration = Duration::from_secs(15);

const MAX_REDIRECTS: usize = 3;

pub(super) const FORM: &str = "application/x-www-form-urlencoded";
pub(super) const JSON: &str = "application/json";

#[derive(Debug, Clone)]
pub(super) struct Fetcher {
    configured: HttpClient,
    guarded: HttpClient,
    rules: AddressRules,
    /// The origins that the operator has configured.
    origins: Vec<Origin>,
    may_be_plain: bool,
}

impl Fetcher {
    /// Creates a fetcher for the login of the server at `server`. `issuer` is the configured authorization server.
    pub(super) fn new(http: &HttpClient, server: &Url, issuer: Option<&Url>) -> Self {
        let is_private = matches!(AddressRules::default().check_url(server), Err(Blocked::Private));
        let ports = [443, 8443].into_iter().chain(server.port_or_known_default()).collect();
        let rules = AddressRules { allow_private: is_private, ports, ..AddressRules::default() };
        Self {
            configured: http.clone(),
            guarded: http.guarded(rules.clone()),
            rules,
            origins: issuer.into_iter().chain([server]).map(Url::origin).collect(),
            may_be_plain: server.scheme() == "http",
        }
    }

    /// Parses a URL from a document, and checks that it may be used.
    ///
    /// # Errors
    /// Why it may not be used.
    pub(super) fn checked(&self, text: &str) -> Result<Url, OAuthError> {
        let wrong = |reason: &dyn ToString| OAuthError::Address(plain(text), reason.to_string());
        let url = Url::parse(text).map_err(|error| wrong(&error))?;
        if self.origins.contains(&url.origin()) && url.username().is_empty() && url.password().is_none() {
            return Ok(url);
        }
        self.rules.check_url(&url).map_err(|blocked| wrong(&blocked))?;
        match url.scheme() == "https" || self.may_be_plain {
            true => Ok(url),
            false => Err(wrong(&Blocked::Downgrade)),
        }
    }

    /// Fetches a JSON document. `None` if the server does not have it.
    ///
    /// # Errors
    /// The server cannot be reached, or the document is invalid.
    pub(super) async fn document<T: DeserializeOwned>(&self, url: &Url) -> Result<Option<T>, OAuthError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.sent(&url, Method::GET, HeaderMap::new(), Bytes::new()).await?;
            let status = response.status();
            // Some sites have a page for any address.
            if status.is_client_error() || (status.is_success() && is_page(&response)) {
                return Ok(None);
            }
            if status.is_redirection()
                && let Some(location) = response.headers().get(LOCATION)
            {
                let target = location.to_str().ok().and_then(|location| url.join(location).ok());
                let target = target
                    .ok_or_else(|| OAuthError::Invalid(url.clone(), "an invalid redirect".to_owned()))?;
                url = self.checked(target.as_str())?;
                continue;
            }
            if !status.is_success() {
                return Err(OAuthError::Invalid(url, format!("HTTP status {status}")));
            }
            return match serde_json::from_slice(response.body()) {
                Ok(document) => Ok(Some(document)),
                Err(_) => Err(OAuthError::Invalid(url, "an invalid document".to_owned())),
            };
        }
        Err(OAuthError::Invalid(url, "too many redirects".to_owned()))
    }

    /// Sends a body. Redirects are not followed, since the body may contain secrets.
    ///
    /// # Errors
    /// There is no response.
    pub(super) async fn post(
        &self,
        url: &Url,
        content_type: &'static str,
        mut headers: HeaderMap,
        body: String,
    ) -> Result<Response<Bytes>, OAuthError> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.sent(url, Method::POST, headers, body.into()).await
    }

    async fn sent(
        &self,
        url: &Url,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, OAuthError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = url
            .as_str()
            .parse()
            .map_err(|_| OAuthError::Address(plain(url.as_str()), "it is not a valid URL".to_owned()))?;
        *request.headers_mut() = headers;
        let own = HeaderValue::from_static(concat!("toolwire/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, own);
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static(JSON));
        let http = if self.origins.contains(&url.origin()) { &self.configured } else { &self.guarded };
        match timeout(LIMIT, http.send(request, MAX_DOCUMENT)).await {
            Ok(sent) => sent.map_err(|error| OAuthError::of_http(url, error)),
            Err(_) => Err(OAuthError::Silent(url.clone())),
        }
    }
}

fn is_page(response: &Response<Bytes>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.get(..9).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/html"))
}
