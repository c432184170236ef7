//! What paths there are, and what may be done with them.

use std::borrow::Cow;

use http::Method;

use crate::observe::untrusted::clip;

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

/// What the paths of the API have in common, and clients' base URLs end in.
const BASE: &str = "/v1";

/// What a client is told that asked for a path that is no route: most often its base URL is not quite right, or it speaks
/// another API.
pub(super) fn unknown(path: &str) -> String {
    let shown = clip(path, MAX_SHOWN);
    let path = path.trim_end_matches('/');
    let base = format!("a client's base URL ends in `{BASE}`, such as `http://127.0.0.1:8787{BASE}`");
    let known = ["/chat/completions", "/models"];
    let meant =
        known.into_iter().find(|known| path.ends_with(known) || path.starts_with(&format!("{known}/")));
    match meant {
        Some(meant) => format!("there is no {shown} here; did you mean {BASE}{meant}? {base}"),
        None if path.is_empty() || path == BASE => {
            format!(
                "there is nothing at {shown} itself; {base}, and has POST {BASE}/chat/completions and GET {BASE}/models"
            )
        }
        None => format!(
            "there is no {shown} here; toolwire speaks OpenAI Chat Completions: POST {BASE}/chat/completions, \
             GET {BASE}/models; {base}"
        ),
    }
}

/// Bytes of a path that are shown to the client.
const MAX_SHOWN: usize = 128;

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
    fn an_unknown_path_is_told_the_base_url() {
        for (path, meant) in [
            ("/chat/completions", "did you mean /v1/chat/completions?"),
            ("/models", "did you mean /v1/models?"),
            ("/models/qwen3", "did you mean /v1/models?"),
            ("/v1/v1/chat/completions", "did you mean /v1/chat/completions?"),
            ("/api/v1/models/", "did you mean /v1/models?"),
            ("/", "POST /v1/chat/completions"),
            ("/v1/", "POST /v1/chat/completions"),
            ("/api/chat", "POST /v1/chat/completions"),
            ("/v1/responses", "POST /v1/chat/completions"),
        ] {
            assert_eq!(Route::find(path), None, "{path}");
            let told = unknown(path);
            assert!(told.contains(meant) && told.contains("http://127.0.0.1:8787/v1"), "{told}");
        }
        assert!(unknown(&format!("/{}", "x".repeat(9_000))).len() < 500);
    }

    #[test]
    fn methods_are_compared_whole() {
        assert!(Route::ChatCompletions.allows(&Method::POST));
        assert!(!Route::ChatCompletions.allows(&Method::GET));
        assert!(Route::Models.allows(&Method::HEAD));
        assert!(!Route::Models.allows(&Method::from_bytes(b"GE").unwrap()));
    }
}
