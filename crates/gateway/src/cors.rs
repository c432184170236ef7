//! Cross-origin resource sharing (<https://fetch.spec.whatwg.org/#http-cors-protocol>): which web pages may read
//! responses.
//!
//! `Origin` is compared with the configured origins, and only configured origins are ever sent back. Pages send keys in
//! headers that they set themselves, so browsers' own credentials, such as cookies, are not allowed.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use toolwire_config::Origins;
use toolwire_http1::list_items;

/// How long a browser may cache a preflight response, in seconds. Chromium's maximum is two hours.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Response headers that pages may read in addition to the safelisted ones.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, request-id, retry-after, retry-after-ms, x-should-retry, x-toolwire-left-out, \
     x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, \
     x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, \
     anthropic-ratelimit-requests-limit, anthropic-ratelimit-requests-remaining, anthropic-ratelimit-requests-reset, \
     anthropic-ratelimit-tokens-limit, anthropic-ratelimit-tokens-remaining, anthropic-ratelimit-tokens-reset",
);

/// Request headers that pages may always send. Others are allowed if the preflight request names them.
const ALLOWED: [&str; 6] =
    ["authorization", "content-type", "x-api-key", "api-key", "x-goog-api-key", "x-toolwire-reasoning"];

/// Maximum number of headers read from a preflight request.
const MAX_ASKED: usize = 64;

/// Sent by Chromium before a public page may reach a private address.
const ASKS_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

#[derive(Debug, Clone, Default)]
pub(super) struct Grant {
    /// The request's origin, if it may read the response.
    origin: Option<HeaderValue>,
    /// Whether the response depends on the request's origin.
    varies: bool,
}

impl Grant {
    pub(super) fn new(origins: &Origins, headers: &HeaderMap) -> Self {
        let asks = || {
            let mut asking = headers.get_all(header::ORIGIN).into_iter();
            asking.next().filter(|_| asking.next().is_none())
        };
        match origins {
            Origins::None => Self::default(),
            Origins::Any => Self { origin: asks().map(|_| HeaderValue::from_static("*")), varies: false },
            Origins::Listed(listed) => {
                let origin = asks().and_then(|origin| listed.iter().find(|listed| *listed == origin));
                Self { origin: origin.cloned(), varies: true }
            }
        }
    }

    pub(super) fn is_some(&self) -> bool {
        self.origin.is_some()
    }

    /// Whether this is a preflight request from an allowed origin.
    pub(super) fn is_preflight(&self, method: &Method, headers: &HeaderMap) -> bool {
        self.origin.is_some()
            && method == Method::OPTIONS
            && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    }

    /// Adds the headers that tell browsers what is allowed.
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        if self.varies {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = &self.origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }
}

/// Adds the headers of the response to the preflight request `asked`: the allowed `methods` and the allowed request
/// headers.
pub(super) fn put_preflight(headers: &mut HeaderMap, methods: &'static str, asked: &HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    let mut allowed: Vec<HeaderName> = ALLOWED.iter().map(|name| HeaderName::from_static(name)).collect();
    for name in list_items(asked, &header::ACCESS_CONTROL_REQUEST_HEADERS).take(MAX_ASKED) {
        allowed.extend(HeaderName::from_bytes(name).ok().filter(|name| !allowed.contains(name)));
    }
    let allowed = allowed.iter().map(HeaderName::as_str).collect::<Vec<_>>().join(", ");
    // Infallible: names of headers, joined by commas, form a valid value.
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    if asked.get(ASKS_PRIVATE_NETWORK).is_some_and(|asks| asks == "true") {
        headers.insert(ALLOWS_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(origins: &[&str], sent: &[&'static str]) -> Option<String> {
        let origins = Origins::parse(origins).unwrap();
        let asked = sent.iter().map(|origin| (header::ORIGIN, HeaderValue::from_static(origin))).fold(
            HeaderMap::new(),
            |mut headers, (name, value)| {
                headers.append(name, value);
                headers
            },
        );
        let mut headers = HeaderMap::new();
        Grant::new(&origins, &asked).put(&mut headers);
        let origin = headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN);
        origin.map(|origin| origin.to_str().unwrap().to_owned())
    }

    #[test]
    fn only_listed_origins_are_named() {
        let listed = ["https://ui.example", "http://localhost:3000"];
        assert_eq!(granted(&listed, &["https://ui.example"]).as_deref(), Some("https://ui.example"));
        assert_eq!(granted(&listed, &["http://localhost:3000"]).as_deref(), Some("http://localhost:3000"));
        for other in [
            "http://ui.example",
            "https://ui.example:444",
            "https://ui.example/",
            "https://ui.example.evil",
            "https://evil-ui.example",
            "https://sub.ui.example",
            "http://localhost",
            "null",
            "*",
            "",
        ] {
            assert_eq!(granted(&listed, &[other]), None, "{other}");
        }
        assert_eq!(granted(&listed, &[]), None);
        assert_eq!(granted(&listed, &["https://ui.example", "https://evil.example"]), None);
        assert_eq!(granted(&["*"], &["null"]).as_deref(), Some("*"));
        assert_eq!(granted(&[], &["https://ui.example"]), None);
    }

    #[test]
    fn asked_headers_are_reflected_as_names_only() {
        let mut asked = HeaderMap::new();
        let names = "X-Stainless-OS, content-type,, bad name, x:y, \u{e9}";
        asked.insert(
            header::ACCESS_CONTROL_REQUEST_HEADERS,
            HeaderValue::from_bytes(names.as_bytes()).unwrap(),
        );
        let mut headers = HeaderMap::new();
        put_preflight(&mut headers, "POST", &asked);
        let allowed = headers.get(header::ACCESS_CONTROL_ALLOW_HEADERS).unwrap();
        assert_eq!(
            allowed,
            "authorization, content-type, x-api-key, api-key, x-goog-api-key, x-toolwire-reasoning, x-stainless-os"
        );
    }
}
