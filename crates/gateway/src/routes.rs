//! [`Route`]: the paths of the API, and the methods that each of them accepts.

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

use http::Method;

use super::{reply::DEFAULT_DIALECT, site::Site};
use crate::observe::untrusted_text::clip;
use toolwire_config::{Passthrough, percent::percent_decoded};
use toolwire_execution::files;
use toolwire_pipeline::{
    dialect::{ClientDialect, Endpoint, Operation, StoredOperation, Target},
    failure::{Failure, Kind},
};

/// All methods that any path accepts, in the format of an `Allow` header.
pub(super) const ANY_METHOD: &str = "GET, HEAD, POST, DELETE, OPTIONS";

/// A path of a client's API, as a request names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiPath {
    pub(super) dialect: ClientDialect,
    pub(super) endpoint: &'static Endpoint,
    /// The model's name in the path, decoded. Empty if the path has none.
    pub(super) model: String,
}

/// The endpoints of all dialects.
struct Endpoints {
    /// Those whose paths are always the same, by path.
    fixed: HashMap<&'static str, (ClientDialect, &'static Endpoint)>,
    /// Those whose paths name a model, by what precedes the name.
    of_models: Vec<(&'static str, ClientDialect, &'static Endpoint)>,
}

static ENDPOINTS: LazyLock<Endpoints> = LazyLock::new(|| {
    let mut endpoints = Endpoints { fixed: HashMap::new(), of_models: Vec::new() };
    for dialect in ClientDialect::all() {
        for endpoint in dialect.side().endpoints() {
            if endpoint.names_model() {
                endpoints.of_models.push((endpoint.beginning(), dialect, endpoint));
            } else {
                endpoints.fixed.insert(endpoint.path, (dialect, endpoint));
            }
        }
    }
    endpoints
});

impl ApiPath {
    /// Finds the endpoint of `path`. If several match, the one that says most of the path is meant.
    fn find(path: &str) -> Option<Self> {
        if let Some(&(dialect, endpoint)) = ENDPOINTS.fixed.get(path) {
            return Some(Self { dialect, endpoint, model: String::new() });
        }
        let possible = ENDPOINTS.of_models.iter().filter(|(beginning, ..)| path.starts_with(beginning));
        let matched =
            possible.filter_map(|&(_, dialect, endpoint)| Some((dialect, endpoint, endpoint.matched(path)?)));
        let (dialect, endpoint, model) = matched.max_by_key(|(_, endpoint, _)| endpoint.weight())?;
        if endpoint.operation == Operation::Model && names_method(model) {
            return None;
        }
        Some(Self { dialect, endpoint, model: percent_decoded(model)? })
    }

    /// What the path and `query` say.
    pub(super) fn target<'t>(&'t self, query: Option<&'t str>) -> Target<'t> {
        Target { endpoint: self.endpoint, model: &self.model, query }
    }

    fn methods(&self) -> &'static str {
        match self.endpoint.operation {
            Operation::Models | Operation::Facts => "GET, HEAD, OPTIONS",
            Operation::Model if self.endpoint.names_model() => "GET, HEAD, OPTIONS",
            Operation::Refuse(_) => ANY_METHOD,
            _ => "POST, OPTIONS",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// A path of a client's API.
    Api(ApiPath),
    /// A stored response, by id, and what is asked of it.
    Stored(ClientDialect, StoredOperation, String),
    /// `/`, which some clients request to see whether the server exists.
    Root,
    /// A configured path whose requests are passed through unparsed.
    Passthrough(String),
    Extension(ExtensionRoute),
    /// A path at which programs register their tools.
    Programs(ProgramPath),
    /// `POST /mcp`: the hosted tools, for clients of the Model Context Protocol.
    Mcp,
    /// `GET /api/images/{name}`: a generated image. The name is still as it is written in the path.
    Image(String),
    /// `GET /healthz`: whether the process is alive.
    Health,
    /// `GET /readyz`: whether the server accepts requests.
    Ready,
    Metrics,
}

impl Route {
    /// Returns the route for requests for a stream in `dialect`, and its path.
    pub(super) fn generating(dialect: ClientDialect) -> Option<(Self, &'static str)> {
        let endpoint = dialect.side().endpoint(true)?;
        Some((Self::Api(ApiPath { dialect, endpoint, model: String::new() }), endpoint.path))
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
        if let Some(api) = ApiPath::find(&path) {
            return Some(Self::Api(api));
        }
        for dialect in ClientDialect::all() {
            let mut matched =
                dialect.side().stored_paths().iter().map(|stored| (stored.operation, stored.matched(&path)));
            if let Some((operation, id)) = matched.find_map(|(operation, id)| Some((operation, id?))) {
                return percent_decoded(id).map(|id| Self::Stored(dialect, operation, id));
            }
        }
        if let Some(program) = path.strip_prefix(BASE).and_then(ProgramPath::find) {
            return Some(Self::Programs(program));
        }
        if let Some(name) = path.strip_prefix(files::PATH).filter(|name| !name.is_empty()) {
            return Some(Self::Image(name.to_owned()));
        }
        match path.as_ref() {
            "/" => Some(Self::Root),
            "/mcp" => Some(Self::Mcp),
            "/healthz" => Some(Self::Health),
            "/readyz" => Some(Self::Ready),
            "/metrics" => Some(Self::Metrics),
            _ => None,
        }
    }

    /// What is asked of a client's API.
    fn operation(&self) -> Option<Operation> {
        match self {
            Self::Api(api) => Some(api.endpoint.operation),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Api(api) => api.endpoint.name,
            Self::Stored(_, StoredOperation::Response | StoredOperation::Delete, _) => "stored",
            Self::Stored(_, StoredOperation::Input, _) => "stored_input",
            Self::Stored(_, StoredOperation::Cancel, _) => "stored_cancel",
            Self::Root => "root",
            Self::Passthrough(_) => "passthrough",
            Self::Extension(route) => route.name,
            Self::Programs(_) => "providers",
            Self::Mcp => "mcp",
            Self::Image(_) => "image",
            Self::Health => "healthz",
            Self::Ready => "readyz",
            Self::Metrics => "metrics",
        }
    }

    /// Whether several APIs have their list of models at this path.
    pub(super) fn is_shared_list(&self) -> bool {
        let is_list = matches!(self.operation(), Some(Operation::Models | Operation::Model));
        is_list && self.dialect() == DEFAULT_DIALECT
    }

    /// Whether requests for this route are sent to a model and are therefore counted in the statistics.
    pub(super) fn asks_model(&self) -> bool {
        matches!(self.operation(), Some(Operation::Generate | Operation::Compact | Operation::Pass))
            || matches!(self, Self::Passthrough(_))
    }

    /// Whether clients may send requests for this route over a WebSocket.
    pub(super) fn opens_websocket(&self) -> bool {
        self.operation() == Some(Operation::Generate) && self.dialect().side().socket().is_some()
    }

    /// Whether requests for this route have a JSON body that toolwire parses.
    pub(super) fn takes_json(&self) -> bool {
        matches!(self, Self::Api(_) | Self::Mcp)
    }

    /// Returns the path to log. Images are shown to anyone who knows their name, so the name is hidden.
    pub(super) fn shown<'p>(&self, path: &'p str) -> &'p str {
        if matches!(self, Self::Image(_)) { files::PATH } else { path }
    }

    pub(super) fn dialect(&self) -> ClientDialect {
        match self {
            Self::Api(api) => api.dialect,
            Self::Stored(dialect, ..) => *dialect,
            _ => DEFAULT_DIALECT,
        }
    }

    /// The allowed methods in the format of an `Allow` header.
    pub(super) fn methods(&self) -> &'static str {
        match self {
            Self::Api(api) => api.methods(),
            Self::Stored(_, StoredOperation::Delete, _) => "DELETE, OPTIONS",
            Self::Stored(_, StoredOperation::Response, _) => "GET, HEAD, DELETE, OPTIONS",
            Self::Stored(_, StoredOperation::Cancel, _) => "POST, OPTIONS",
            Self::Passthrough(_) => "GET, POST, DELETE, OPTIONS",
            Self::Programs(program) => program.methods(),
            Self::Mcp => "POST, OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }

    pub(super) fn allows(&self, method: &Method) -> bool {
        self.methods().split(", ").any(|allowed| allowed == method.as_str())
    }

    /// Whether the route serves models' responses or related resources.
    pub(super) fn is_of_models(&self) -> bool {
        match self.operation() {
            Some(operation) => matches!(
                operation,
                Operation::Generate | Operation::CountTokens | Operation::Compact | Operation::Pass
            ),
            None => matches!(self, Self::Stored(..) | Self::Passthrough(_)),
        }
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

/// Whether `id` is a model's id followed by a method of an API.
fn names_method(id: &str) -> bool {
    let Some((_, method)) = id.rsplit_once(':') else { return false };
    ClientDialect::all().any(|dialect| dialect.side().model_methods().contains(&method))
}

/// Removes one of two leading slashes, which result from a client's base URL that ends with a slash.
pub fn without_doubled_slash(path: &str) -> Cow<'_, str> {
    path.strip_prefix("//").map_or(Cow::Borrowed(path), |rest| Cow::Owned(format!("/{rest}")))
}

/// The prefix of all paths of the API. Clients' base URLs end with it.
pub(super) const BASE: &str = "/v1";

/// The first parts of the paths of the console and of the admin API.
const ADMIN: [&str; 2] = ["/console", "/admin"];

/// Returns the failure for an unknown path, and the dialect that the client probably uses. The usual cause is a
/// slightly wrong base URL, or an API that toolwire does not serve.
pub fn not_found(path: &str, site: &Site) -> (ClientDialect, Failure) {
    let shown = clip(path, MAX_SHOWN);
    let owner = |path: &str| {
        let prefix =
            |dialect: &ClientDialect| dialect.side().own_prefix().filter(|own| path.starts_with(own));
        let owners = ClientDialect::all().filter(|dialect| prefix(dialect).is_some());
        owners.max_by_key(|dialect| prefix(dialect).map(str::len))
    };
    let owner = owner(&without_doubled_slash(path));
    let path = path.trim_end_matches('/');
    let base = site.base_url();
    let generating = || ClientDialect::all().flat_map(generating);
    let endpoint = generating().find(|(_, endpoint)| is_meant(path, endpoint.path));
    let meant = endpoint.map(|(_, endpoint)| endpoint.path);
    let meant = meant.or(is_meant(path, MODELS).then_some(MODELS));
    let message = match meant {
        Some(meant) => format!("there is no {shown} here; did you mean {meant}? {base}"),
        None if path.is_empty() || path == BASE => {
            let posts: Vec<_> = generating().map(|(_, endpoint)| format!("POST {}", endpoint.path)).collect();
            format!(
                "there is nothing at {shown} itself; {base}, and has {} and GET {MODELS}",
                posts.join(", ")
            )
        }
        None if !site.has_admin && ADMIN.iter().any(|admin| is_below(path, admin)) => {
            format!(
                "there is no {shown} here: the configuration has no table [admin], which adds the console"
            )
        }
        None => format!("there is no {shown} here; {}", site.directions()),
    };
    let dialect = owner.or(endpoint.map(|(dialect, _)| dialect)).unwrap_or(DEFAULT_DIALECT);
    (dialect, Failure::new(Kind::NotFound, message))
}

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a client that asks for `path` probably means the endpoint `known` under another base URL.
fn is_meant(path: &str, known: &str) -> bool {
    match known.split_once("{model}") {
        Some((_, method)) => path.ends_with(method),
        None => {
            let known = known.strip_prefix(BASE).unwrap_or(known);
            path.ends_with(known) || path.starts_with(&format!("{known}/"))
        }
    }
}

/// The endpoints of a dialect for model requests.
fn generating(dialect: ClientDialect) -> impl Iterator<Item = (ClientDialect, &'static Endpoint)> {
    let endpoints = dialect.side().endpoints().iter();
    endpoints
        .filter(|endpoint| endpoint.operation == Operation::Generate)
        .map(move |endpoint| (dialect, endpoint))
}

/// The path of the list of models.
pub(super) const MODELS: &str = "/v1/models";

/// Maximum number of bytes of a path in an error message.
pub(super) const MAX_SHOWN: usize = 128;

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn model_ids_may_contain_slashes_and_escapes() {
        let model = |id: &str| Some(id.to_owned());
        let found = |path: &str| match Route::find(path)? {
            Route::Api(api) if api.endpoint.operation == Operation::Model => Some(api.model),
            _ => None,
        };
        assert_eq!(found("/v1/models/qwen/qwen3"), model("qwen/qwen3"));
        assert_eq!(found("/v1/models/qwen%2Fqwen3"), model("qwen/qwen3"));
        assert_eq!(found("/v1/models/100%"), model("100%"));
        assert_eq!(found("/v1/models/%+f"), model("%+f"));
        assert_eq!(found("/v1/models/%ff"), None);
        let name = |path: &str| Route::find(path).map(|route| route.name());
        assert_eq!(name("/v1/models/"), Some("models"));
        assert_eq!(found("/v1/models/qwen3:8b"), model("qwen3:8b"));
        assert_eq!(found("/v1/models/qwen3:8b:generateContent"), None);
        assert_eq!(found("/v1/models/x:streamGenerateContent"), None);
    }

    #[test]
    fn own_paths_are_never_passed_through() {
        let endpoints = ClientDialect::all().flat_map(|dialect| dialect.side().endpoints());
        for path in endpoints.map(|endpoint| endpoint.path.replace("{model}", "x")) {
            if path.starts_with(toolwire_config::passthrough::BASE) && !path.ends_with('/') {
                let error = Passthrough::parse(&[&path]).unwrap_err().to_string();
                assert!(error.contains("itself"), "{path}: {error}");
            }
        }
    }

    #[test]
    fn paths_match_exactly_except_for_a_doubled_slash() {
        assert_eq!(Route::find("//v1/chat/completions"), Route::find("/v1/chat/completions"));
        assert!(matches!(Route::find("/v1/chat/completions"), Some(Route::Api(_))));
        assert_eq!(Route::find("/v1/chat/completions/x"), None);
        assert_eq!(Route::find("/"), Some(Route::Root));
        assert_eq!(Route::find(""), None);
    }

    fn site(host: &str) -> Site {
        let (head, ()) = Request::builder().header("host", host).body(()).unwrap().into_parts();
        Site::new(&head, "http", false)
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
            ("/v1/api/chat", "did you mean /api/chat?"),
            ("/api/other", "POST /v1/chat/completions"),
            ("/v1/responses/", "did you mean /v1/responses?"),
            ("/responses", "did you mean /v1/responses?"),
        ] {
            assert_eq!(Route::find(path), None, "{path}");
            let message = not_found(path, &site("h.example:1")).1.message().to_owned();
            assert!(message.contains(meant) && message.contains("`http://h.example:1/v1`"), "{message}");
        }
        let not_found = |path: &str| not_found(path, &site("h.example"));
        assert_eq!(not_found("/api/other").0, ClientDialect::Ollama);
        assert_eq!(not_found("/v1/api/chat").0, ClientDialect::Ollama);
        assert_eq!(not_found("/apis").0, DEFAULT_DIALECT);
        assert!(not_found(&format!("/{}", "x".repeat(9_000))).1.message().len() < 1_000);
        for path in ["/console/", "/admin/state", "/console"] {
            assert!(not_found(path).1.message().contains("no table [admin]"), "{path}");
        }
        assert!(!not_found("/consoles").1.message().contains("[admin]"));
    }

    #[test]
    fn methods_match_exactly() {
        let completions = Route::find("/v1/chat/completions").unwrap();
        assert!(completions.allows(&Method::POST));
        assert!(!completions.allows(&Method::GET));
        let models = Route::find("/v1/models").unwrap();
        assert!(models.allows(&Method::HEAD));
        assert!(!models.allows(&Method::from_bytes(b"GE").unwrap()));
    }
}
