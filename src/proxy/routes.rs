//! What paths there are, and what may be done with them.

use std::borrow::Cow;

use http::Method;

/// The methods that some path takes, as an `Allow` header lists them.
pub(super) const ANY_METHOD: &str = "GET, HEAD, POST, OPTIONS";

/// A path that toolwire knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// POST `/v1/chat/completions`
    ChatCompletions,
    /// GET `/v1/models`
    Models,
    /// GET `/v1/models/{id}`
    Model(String),
    /// GET `/healthz`: the process is alive.
    Health,
    /// GET `/readyz`: it takes requests.
    Ready,
    /// GET `/metrics`
    Metrics,
}

impl Route {
    /// The route of a URL's path.
    pub(super) fn find(path: &str) -> Option<Self> {
        // A base URL that was written with a slash at its end makes two of it.
        let path = path.strip_prefix("//").map_or(Cow::Borrowed(path), |rest| Cow::Owned(format!("/{rest}")));
        match path.as_ref() {
            "/v1/chat/completions" => Some(Self::ChatCompletions),
            "/v1/models" | "/v1/models/" => Some(Self::Models),
            "/healthz" => Some(Self::Health),
            "/readyz" => Some(Self::Ready),
            "/metrics" => Some(Self::Metrics),
            path => path.strip_prefix("/v1/models/").and_then(percent_decoded).map(Self::Model),
        }
    }

    /// The name in logs and metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Models => "models",
            Self::Model(_) => "model",
            Self::Health => "healthz",
            Self::Ready => "readyz",
            Self::Metrics => "metrics",
        }
    }

    /// The methods, as an `Allow` header lists them.
    pub(super) fn methods(&self) -> &'static str {
        match self {
            Self::ChatCompletions => "POST, OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }

    /// Whether `method` is one of [`Route::methods`].
    pub(super) fn allows(&self, method: &Method) -> bool {
        self.methods().split(", ").any(|allowed| allowed == method.as_str())
    }

    /// Whether a client must show a key.
    pub(super) fn needs_key(&self) -> bool {
        matches!(self, Self::ChatCompletions | Self::Models | Self::Model(_))
    }
}

/// `%2F` is `/`. `None` if it is not UTF-8 then.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = tail.split_at_checked(2).filter(|_| first == b'%');
        let decoded = escaped.and_then(|(digits, after)| Some((hex(digits)?, after)));
        let (byte, after) = decoded.unwrap_or((first, tail));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_ids_may_hold_slashes_and_escapes() {
        let model = |id: &str| Some(Route::Model(id.to_owned()));
        assert_eq!(Route::find("/v1/models/qwen/qwen3"), model("qwen/qwen3"));
        assert_eq!(Route::find("/v1/models/qwen%2Fqwen3"), model("qwen/qwen3"));
        assert_eq!(Route::find("/v1/models/100%"), model("100%"));
        assert_eq!(Route::find("/v1/models/%+f"), model("%+f"));
        assert_eq!(Route::find("/v1/models/%ff"), None);
        assert_eq!(Route::find("/v1/models/"), Some(Route::Models));
    }

    #[test]
    fn paths_are_exact_but_for_a_doubled_slash() {
        assert_eq!(Route::find("//v1/chat/completions"), Some(Route::ChatCompletions));
        assert_eq!(Route::find("/v1/chat/completions/x"), None);
        assert_eq!(Route::find("/"), None);
        assert_eq!(Route::find(""), None);
    }

    #[test]
    fn methods_are_compared_whole() {
        assert!(Route::ChatCompletions.allows(&Method::POST));
        assert!(!Route::ChatCompletions.allows(&Method::GET));
        assert!(Route::Models.allows(&Method::HEAD));
        assert!(!Route::Models.allows(&Method::from_bytes(b"GE").unwrap()));
    }
}
