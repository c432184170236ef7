//! [`Route`]: the paths of the API, and the methods that each of them accepts.

use std::borrow::Cow;

use http::Method;

use super::reply::DEFAULT_DIALECT;
use crate::observe::untrusted_text::clip;
use toolwire_config::{Passthrough, percent::percent_decoded};
use toolwire_execution::files;
use toolwire_pipeline::{
    dialect::ClientDialect,
    failure::{Failure, Kind},
};

/// All methods that any path accepts, in the format of an `Allow` header.
pub(super) const ANY_METHOD: &str = "GET, HEAD, POST, DELETE, OPTIONS";

/// A path for model requests in one dialect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// The path below [`BASE`].
    path: &'static str,
    /// The route's name in logs and metrics.
    name: &'static str,
    /// The dialect of clients that use this path.
    dialect: ClientDialect,
}

/// The paths for model requests. All accept POST.
const ENDPOINTS: &[Endpoint] = &[
    Endpoint { path: "/chat/completions", name: "chat_completions", dialect: ClientDialect::Chat },
    Endpoint { path: "/responses", name: "responses", dialect: ClientDialect::Responses },
    Endpoint { path: "/messages", name: "messages", dialect: ClientDialect::Messages },
];

/// The paths below [`BASE`] that count the tokens of a request. All accept POST.
const COUNTS: &[(&str, ClientDialect)] = &[
    ("/messages/count_tokens", ClientDialect::Messages),
    ("/responses/input_tokens", ClientDialect::Responses),
];

/// The paths below [`BASE`] that compact a conversation. All accept POST.
const COMPACTIONS: &[(&str, ClientDialect)] = &[("/responses/compact", ClientDialect::Responses)];

/// The paths below [`BASE`] of stored responses, which are followed by an id.
const STORED: &[(&str, ClientDialect)] = &[("/responses/", ClientDialect::Responses)];

/// The path below [`BASE`] of messages in threads, and the start of their ids. They can only be deleted.
const MESSAGES: &str = "/messages/";
const HELD: &str = "msg_";

/// Methods of Gemini's API, which follow a model's path and a colon.
const GEMINI_METHODS: [&str; 10] = [
    "generateContent",
    "streamGenerateContent",
    "batchGenerateContent",
    "generateAnswer",
    "countTokens",
    "embedContent",
    "batchEmbedContents",
    "asyncBatchEmbedContent",
    "predict",
    "predictLongRunning",
];

/// Suffix of the path of a stored response's input.
const INPUT_ITEMS: &str = "/input_items";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// A request for a model's response.
    Generate(&'static Endpoint),
    /// A request to count the tokens of a model request.
    CountTokens(ClientDialect),
    /// A request to replace a conversation with a summary.
    Compact(ClientDialect),
    /// A stored response, by id.
    Stored(ClientDialect, String),
    /// The input of a stored response, by its id.
    StoredInput(ClientDialect, String),
    /// `/`, which some clients request to see whether the server exists.
    Root,
    Models,
    Model(String),
    /// A configured path whose requests are passed through unparsed.
    Passthrough(String),
    Extension(ExtensionRoute),
    /// A path at which programs register their tools.
    Programs(ProgramPath),
    /// `GET /api/images/{name}`: a generated image. The name is still as it is written in the path.
    Image(String),
    /// `GET /healthz`: whether the process is alive.
    Health,
    /// `GET /readyz`: whether the server accepts requests.
    Ready,
    Metrics,
}

impl Route {
    /// Returns the route for model requests in `dialect`, and its path.
    pub(super) fn generating(dialect: ClientDialect) -> Option<(Self, String)> {
        let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.dialect == dialect)?;
        Some((Self::Generate(endpoint), format!("{BASE}{}", endpoint.path)))
    }

    /// Finds the route of a URL path among toolwire's own and those in `passthrough`.
    pub(super) fn find_with(path: &str, passthrough: &Passthrough) -> Option<Self> {
        Self::find(path).or_else(|| {
            let path = without_doubled_slash(path);
            passthrough.covers(&path).then(|| Self::Passthrough(path.into_owned()))
        })
    }

    /// Finds toolwire's own route of a URL path.
    pub(super) fn find(path: &str) -> Option<Self> {
        let path = without_doubled_slash(path);
        let below = path.strip_prefix(BASE);
        if let Some(endpoint) = ENDPOINTS.iter().find(|endpoint| below == Some(endpoint.path)) {
            return Some(Self::Generate(endpoint));
        }
        if let Some((_, dialect)) = COUNTS.iter().find(|(path, _)| below == Some(path)) {
            return Some(Self::CountTokens(*dialect));
        }
        if let Some((_, dialect)) = COMPACTIONS.iter().find(|(path, _)| below == Some(path)) {
            return Some(Self::Compact(*dialect));
        }
        let stored = |(folder, dialect): &(&str, _)| Some((below?.strip_prefix(folder)?, *dialect));
        if let Some((id, dialect)) = STORED.iter().find_map(stored).filter(|(id, _)| !id.is_empty()) {
            return match id.strip_suffix(INPUT_ITEMS) {
                Some(id) => percent_decoded(id).map(|id| Self::StoredInput(dialect, id)),
                None if id.contains('/') => None,
                None => percent_decoded(id).map(|id| Self::Stored(dialect, id)),
            };
        }
        let held = below.and_then(|below| below.strip_prefix(MESSAGES));
        if let Some(id) = held.filter(|id| id.starts_with(HELD) && !id.contains('/')) {
            return percent_decoded(id).map(|id| Self::Stored(ClientDialect::Messages, id));
        }
        if let Some(program) = below.and_then(ProgramPath::find) {
            return Some(Self::Programs(program));
        }
        if let Some(name) = path.strip_prefix(files::PATH).filter(|name| !name.is_empty()) {
            return Some(Self::Image(name.to_owned()));
        }
        match path.as_ref() {
            "/" => Some(Self::Root),
            "/v1/models" | "/v1/models/" => Some(Self::Models),
            "/healthz" => Some(Self::Health),
            "/readyz" => Some(Self::Ready),
            "/metrics" => Some(Self::Metrics),
            path => {
                let id = path.strip_prefix("/v1/models/").filter(|id| !is_of_gemini(id));
                id.and_then(percent_decoded).map(Self::Model)
            }
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Generate(endpoint) => endpoint.name,
            Self::CountTokens(_) => "count_tokens",
            Self::Compact(_) => "compact",
            Self::Stored(..) => "stored",
            Self::StoredInput(..) => "stored_input",
            Self::Root => "root",
            Self::Models => "models",
            Self::Model(_) => "model",
            Self::Passthrough(_) => "passthrough",
            Self::Extension(route) => route.name,
            Self::Programs(_) => "providers",
            Self::Image(_) => "image",
            Self::Health => "healthz",
            Self::Ready => "readyz",
            Self::Metrics => "metrics",
        }
    }

    /// Whether requests for this route are sent to a model and are therefore counted in the statistics.
    pub(super) fn asks_model(&self) -> bool {
        matches!(self, Self::Generate(_) | Self::Compact(_) | Self::Passthrough(_))
    }

    /// Whether clients may send requests for this route over a WebSocket.
    pub(super) fn opens_websocket(&self) -> bool {
        matches!(self, Self::Generate(endpoint) if endpoint.dialect.side().socket().is_some())
    }

    /// Whether requests for this route have a JSON body that toolwire parses.
    pub(super) fn takes_json(&self) -> bool {
        matches!(self, Self::Generate(_) | Self::CountTokens(_) | Self::Compact(_))
    }

    /// Returns the path to log. Images are shown to anyone who knows their name, so the name is hidden.
    pub(super) fn shown<'p>(&self, path: &'p str) -> &'p str {
        if matches!(self, Self::Image(_)) { files::PATH } else { path }
    }

    pub(super) fn dialect(&self) -> ClientDialect {
        match self {
            Self::Generate(endpoint) => endpoint.dialect,
            Self::CountTokens(dialect)
            | Self::Compact(dialect)
            | Self::Stored(dialect, _)
            | Self::StoredInput(dialect, _) => *dialect,
            _ => DEFAULT_DIALECT,
        }
    }

    /// The allowed methods in the format of an `Allow` header.
    pub(super) fn methods(&self) -> &'static str {
        match self {
            Self::Generate(_) | Self::CountTokens(_) | Self::Compact(_) => "POST, OPTIONS",
            Self::Stored(ClientDialect::Messages, _) => "DELETE, OPTIONS",
            Self::Stored(..) => "GET, HEAD, DELETE, OPTIONS",
            Self::Passthrough(_) => "GET, POST, DELETE, OPTIONS",
            Self::Programs(program) => program.methods(),
            _ => "GET, HEAD, OPTIONS",
        }
    }

    pub(super) fn allows(&self, method: &Method) -> bool {
        self.methods().split(", ").any(|allowed| allowed == method.as_str())
    }

    /// Whether the route serves models' responses or related resources.
    pub(super) fn is_of_models(&self) -> bool {
        matches!(
            self,
            Self::Generate(_)
                | Self::CountTokens(_)
                | Self::Compact(_)
                | Self::Stored(..)
                | Self::StoredInput(..)
                | Self::Passthrough(_)
        )
    }

    pub(super) fn needs_key(&self) -> bool {
        !matches!(
            self,
            Self::Extension(_)
                | Self::Programs(_)
                | Self::Root
                | Self::Image(_)
                | Self::Health
                | Self::Ready
                | Self::Metrics
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtensionRoute {
    pub name: &'static str,
    pub kind: ExtensionRouteKind,
}

/// Which checks are made before the extension responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtensionRouteKind {
    /// Only that the head is well-formed. The extension checks everything else, including the method.
    Api,
    /// Also that the method is GET or HEAD. No key is needed.
    Page,
}

/// A path below `/v1/providers`. Strings are ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProgramPath {
    Register,
    Registration(String),
    Heartbeat(String),
    /// The stream of a registration's calls.
    Calls(String),
    Result(String, String),
}

impl ProgramPath {
    /// Parses the part of a path after [`BASE`].
    fn find(below: &str) -> Option<Self> {
        let segments: Vec<_> = below.strip_prefix("/providers")?.split('/').collect();
        let id = |written: &str| percent_decoded(written).filter(|id| !id.is_empty());
        Some(match segments.as_slice() {
            [""] => Self::Register,
            ["", registration] => Self::Registration(id(registration)?),
            ["", registration, "heartbeat"] => Self::Heartbeat(id(registration)?),
            ["", registration, "calls"] => Self::Calls(id(registration)?),
            ["", registration, "results", call] => Self::Result(id(registration)?, id(call)?),
            _ => return None,
        })
    }

    /// The allowed methods in the format of an `Allow` header.
    fn methods(&self) -> &'static str {
        match self {
            Self::Register | Self::Heartbeat(_) | Self::Result(..) => "POST, OPTIONS",
            Self::Registration(_) => "DELETE, OPTIONS",
            Self::Calls(_) => "GET, OPTIONS",
        }
    }
}

/// Whether `id` is a model's id followed by a method of Gemini's API.
fn is_of_gemini(id: &str) -> bool {
    id.rsplit_once(':').is_some_and(|(_, method)| GEMINI_METHODS.contains(&method))
}

/// Removes one of two leading slashes, which result from a client's base URL that ends with a slash.
pub fn without_doubled_slash(path: &str) -> Cow<'_, str> {
    path.strip_prefix("//").map_or(Cow::Borrowed(path), |rest| Cow::Owned(format!("/{rest}")))
}

/// The prefix of all paths of the API. Clients' base URLs end with it.
const BASE: &str = "/v1";

/// Returns the failure for an unknown path, and the dialect that the client probably uses. The usual cause is a
/// slightly wrong base URL, or an API that toolwire does not serve.
pub fn not_found(path: &str) -> (ClientDialect, Failure) {
    let shown = clip(path, MAX_SHOWN);
    let path = path.trim_end_matches('/');
    let base = base_url();
    let is_meant = |known: &str| path.ends_with(known) || path.starts_with(&format!("{known}/"));
    let endpoint = ENDPOINTS.iter().find(|endpoint| is_meant(endpoint.path));
    let meant = endpoint.map(|endpoint| endpoint.path).or(is_meant(MODELS).then_some(MODELS));
    let message = match meant {
        Some(meant) => format!("there is no {shown} here; did you mean {BASE}{meant}? {base}"),
        None if path.is_empty() || path == BASE => {
            let posts: Vec<_> =
                ENDPOINTS.iter().map(|endpoint| format!("POST {BASE}{}", endpoint.path)).collect();
            format!(
                "there is nothing at {shown} itself; {base}, and has {} and GET {BASE}{MODELS}",
                posts.join(", ")
            )
        }
        None => format!("there is no {shown} here; {}", directions()),
    };
    let dialect = endpoint.map_or(DEFAULT_DIALECT, |endpoint| endpoint.dialect);
    (dialect, Failure::new(Kind::NotFound, message))
}

/// Lists the APIs that toolwire serves, with their paths.
pub(super) fn directions() -> String {
    let spoken = ENDPOINTS
        .iter()
        .map(|Endpoint { path, dialect, .. }| format!("{}: POST {BASE}{path}", dialect.dialect().title()));
    let spoken = spoken.collect::<Vec<_>>().join("; ");
    format!("toolwire speaks {spoken}, GET {BASE}{MODELS}; {}", base_url())
}

fn base_url() -> String {
    let local = "http://127.0.0.1:8787";
    format!(
        "a client's base URL ends in `{BASE}`, such as `{local}{BASE}`, unless the client adds `{BASE}` itself, as Anthropic's do"
    )
}

/// The path of the list of models below [`BASE`].
const MODELS: &str = "/models";

/// Maximum number of bytes of a path in an error message.
const MAX_SHOWN: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_ids_may_contain_slashes_and_escapes() {
        let model = |id: &str| Some(Route::Model(id.to_owned()));
        assert_eq!(Route::find("/v1/models/qwen/qwen3"), model("qwen/qwen3"));
        assert_eq!(Route::find("/v1/models/qwen%2Fqwen3"), model("qwen/qwen3"));
        assert_eq!(Route::find("/v1/models/100%"), model("100%"));
        assert_eq!(Route::find("/v1/models/%+f"), model("%+f"));
        assert_eq!(Route::find("/v1/models/%ff"), None);
        assert_eq!(Route::find("/v1/models/"), Some(Route::Models));
        assert_eq!(Route::find("/v1/models/qwen3:8b"), model("qwen3:8b"));
        assert_eq!(Route::find("/v1/models/qwen3:8b:generateContent"), None);
        assert_eq!(Route::find("/v1/models/x:streamGenerateContent"), None);
    }

    #[test]
    fn own_paths_are_never_passed_through() {
        let endpoints = ENDPOINTS.iter().map(|endpoint| endpoint.path);
        for path in endpoints
            .chain(COUNTS.iter().chain(COMPACTIONS).map(|(path, _)| *path))
            .chain([MODELS, "/models/x"])
        {
            let error = Passthrough::parse(&[&format!("{BASE}{path}")]).unwrap_err().to_string();
            assert!(error.contains("itself"), "{path}: {error}");
        }
    }

    #[test]
    fn paths_match_exactly_except_for_a_doubled_slash() {
        assert_eq!(Route::find("//v1/chat/completions"), Route::find("/v1/chat/completions"));
        assert!(matches!(Route::find("/v1/chat/completions"), Some(Route::Generate(_))));
        assert_eq!(Route::find("/v1/chat/completions/x"), None);
        assert_eq!(Route::find("/"), Some(Route::Root));
        assert_eq!(Route::find(""), None);
    }

    #[test]
    fn not_found_names_the_base_url() {
        for (path, meant) in [
            ("/chat/completions", "did you mean /v1/chat/completions?"),
            ("/models", "did you mean /v1/models?"),
            ("/models/qwen3", "did you mean /v1/models?"),
            ("/v1/v1/chat/completions", "did you mean /v1/chat/completions?"),
            ("/api/v1/models/", "did you mean /v1/models?"),
            ("/v1/", "POST /v1/chat/completions"),
            ("/api/chat", "POST /v1/chat/completions"),
            ("/v1/responses/", "did you mean /v1/responses?"),
            ("/responses", "did you mean /v1/responses?"),
        ] {
            assert_eq!(Route::find(path), None, "{path}");
            let message = not_found(path).1.message().to_owned();
            assert!(message.contains(meant) && message.contains("http://127.0.0.1:8787/v1"), "{message}");
        }
        assert!(not_found(&format!("/{}", "x".repeat(9_000))).1.message().len() < 500);
    }

    #[test]
    fn methods_match_exactly() {
        let completions = Route::find("/v1/chat/completions").unwrap();
        assert!(completions.allows(&Method::POST));
        assert!(!completions.allows(&Method::GET));
        assert!(Route::Models.allows(&Method::HEAD));
        assert!(!Route::Models.allows(&Method::from_bytes(b"GE").unwrap()));
    }
}
