//! [`Endpoint`]: a path of a client's API. [`Target`]: what the path and the query of a request say.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

/// A path of a client's API, and what toolwire does with requests for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The complete path. It may contain `{model}`, which stands for a model's name.
    pub path: &'static str,
    /// The route's name in logs and metrics.
    pub name: &'static str,
    /// What requests for this path ask for.
    pub operation: Operation,
}

/// What requests for a path ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// POST: a model's response.
    Generate,
    /// POST: the number of tokens of a model request.
    CountTokens,
    /// POST: a summary that replaces a conversation.
    Compact,
    /// GET: the list of models.
    Models,
    /// The entry of one model. GET if the path names the model, POST if the body does.
    Model,
    /// GET: [`ClientSide::facts`](crate::ClientSide::facts), which need no model.
    Facts,
    /// POST: passed to upstreams of the dialect unread, at the same path without its leading slash.
    Pass,
    /// Any method: refused. The text says why.
    Refuse(&'static str),
}

/// What stands for a model's name in an [`Endpoint::path`].
const MODEL: &str = "{model}";

impl Endpoint {
    /// Whether this is the endpoint of `path`. Returns the model's name as it is written in the path, or `""`
    /// if the endpoint's path contains none.
    pub fn matched<'p>(&self, path: &'p str) -> Option<&'p str> {
        match self.path.split_once(MODEL) {
            None => (path == self.path).then_some(""),
            Some((before, after)) => {
                let model = path.strip_prefix(before)?.strip_suffix(after)?;
                (!model.is_empty()).then_some(model)
            }
        }
    }

    /// The number of bytes that a matching path shares with this endpoint's. If several endpoints match, the
    /// one with most of them is meant.
    pub fn weight(&self) -> usize {
        self.path.len() - if self.names_model() { MODEL.len() } else { 0 }
    }

    /// Whether the path contains the model's name.
    pub fn names_model(&self) -> bool {
        self.path.contains(MODEL)
    }

    /// The part of the path that is the same in all requests: up to the model's name.
    pub fn beginning(&self) -> &'static str {
        self.path.split_once(MODEL).map_or(self.path, |(before, _)| before)
    }
}

/// A path of stored responses, which contains the id of one.
#[derive(Debug, PartialEq, Eq)]
pub struct StoredPath {
    /// What precedes the id.
    pub before: &'static str,
    /// How ids begin. Other ids are not served at this path.
    pub id: &'static str,
    /// What follows the id.
    pub after: &'static str,
    /// What requests for this path ask for.
    pub operation: StoredOperation,
}

/// What requests for a stored response ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredOperation {
    /// GET: the response. DELETE: that it is deleted.
    Response,
    /// GET: the response's input.
    Input,
    /// DELETE: that the response, which cannot be read, is deleted.
    Delete,
    /// POST: that the response ends. Only complete responses are stored, so this is always refused.
    Cancel,
}

impl StoredPath {
    /// Whether this is the path of `path`. Returns the id as it is written in the path.
    pub fn matched<'p>(&self, path: &'p str) -> Option<&'p str> {
        let id = path.strip_prefix(self.before)?.strip_suffix(self.after)?;
        (id.starts_with(self.id) && !id.is_empty() && !id.contains('/')).then_some(id)
    }
}

/// What the path and the query of a request say, for dialects whose bodies do not say all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'t> {
    /// The endpoint of the path.
    pub endpoint: &'static Endpoint,
    /// The model's name in the path, decoded. Empty if the path has none.
    pub model: &'t str,
    /// The query as it was sent, without `?`.
    pub query: Option<&'t str>,
}

impl<'t> Target<'t> {
    /// A request for `model` at `endpoint`, without a query.
    pub fn new(endpoint: &'static Endpoint, model: &'t str) -> Self {
        Self { endpoint, model, query: None }
    }

    /// The first value of `name` in the query, as it was sent.
    pub fn parameter(&self, name: &str) -> Option<&'t str> {
        parameter(self.query?, name)
    }
}

/// The first value of `name` in a query, as it was sent.
pub fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// The member of a request's body that contains what its path said.
pub(crate) const PATH_MEMBER: &str = "toolwire_path";

/// Adds the member [`PATH_MEMBER`] to a request's body. It comes last, so it takes precedence over a member of
/// this name that the client sent. Bodies that are not objects remain unchanged.
///
/// Everything that later uses the request, such as another attempt or a fixture, then needs only its body.
pub(crate) fn with_path(body: &Bytes, said: Map<String, Value>) -> Bytes {
    let trimmed = body.trim_ascii_end();
    let Some(inside) = trimmed.strip_suffix(b"}") else { return body.clone() };
    let said = Value::Object(said).to_string();
    let mut written = BytesMut::with_capacity(body.len() + PATH_MEMBER.len() + said.len() + 8);
    written.extend_from_slice(inside);
    if inside.trim_ascii() != b"{" {
        written.put_u8(b',');
    }
    written.extend_from_slice(format!("\"{PATH_MEMBER}\":{said}}}").as_bytes());
    written.freeze()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CALL: Endpoint = Endpoint {
        path: "/v1beta/models/{model}:generateContent",
        name: "generate_content",
        operation: Operation::Generate,
    };

    #[test]
    fn paths_name_models() {
        assert_eq!(CALL.matched("/v1beta/models/gemini-3:generateContent"), Some("gemini-3"));
        assert_eq!(CALL.matched("/v1beta/models/a/b%2fc:x:generateContent"), Some("a/b%2fc:x"));
        for path in
            ["/v1beta/models/:generateContent", "/v1beta/models/x", "/v1beta/models/x:generateContents", ""]
        {
            assert_eq!(CALL.matched(path), None, "{path}");
        }
        assert_eq!((CALL.weight(), CALL.beginning()), (31, "/v1beta/models/"));
    }

    #[test]
    fn queries_are_searched_by_name() {
        assert_eq!(parameter("a=1&alt=sse&alt=json", "alt"), Some("sse"));
        assert_eq!(parameter("salt=sse&alt", "alt"), None);
        assert_eq!(parameter("alt=", "alt"), Some(""));
    }

    #[test]
    fn body_says_what_the_path_says() {
        let said = || Map::from_iter([("model".to_owned(), json!("x"))]);
        for (body, whole) in [
            ("{}", r#"{"toolwire_path":{"model":"x"}}"#),
            (" { } \n", r#" { "toolwire_path":{"model":"x"}}"#),
            (r#"{"a":{}}"#, r#"{"a":{},"toolwire_path":{"model":"x"}}"#),
            ("[1]", "[1]"),
            ("", ""),
        ] {
            assert_eq!(with_path(&Bytes::from_static(body.as_bytes()), said()), whole);
        }
    }
}
