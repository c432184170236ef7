//! [`ClientServer`]: an MCP server that a client's request names, for its API's servers to call.
//!
//! Responses has them as tools of the type `mcp`; Messages has them in `mcp_servers`, and says in tools of the type
//! `mcp_toolset`, or in `tool_configuration`, which of their tools are used. toolwire calls those that a provider of
//! `kind = "client_mcp"` admits, for this request only: what the client sends to a server is kept nowhere.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use http::{HeaderName, HeaderValue};
use ring::digest::{SHA256, digest};
use secrecy::SecretString;
use serde_json::Value;

use toolwire_pipeline::{
    conversation::Conversation,
    failure::{Failure, Kind},
    wire::hex,
};

/// Maximum number and size of the headers for one server.
const MAX_HEADERS: usize = 32;
const MAX_HEADER: usize = 8 << 10;

/// Maximum length of a server's name, in bytes.
const MAX_LABEL: usize = 64;

/// Headers that belong to the connection or to the protocol.
const OWN_HEADERS: [&str; 16] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "content-type",
    "accept",
    "accept-encoding",
    "expect",
    "last-event-id",
];

/// The types of the tools that belong to servers.
pub(super) const SERVER: &str = "mcp";
const TOOLSET: &str = "mcp_toolset";

/// A server that a request names.
#[derive(Debug)]
#[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "nothing connects to it"))]
pub struct ClientServer {
    pub(crate) label: String,
    pub(crate) url: String,
    pub(crate) authorization: Option<SecretString>,
    pub(crate) headers: Vec<(String, SecretString)>,
    tools: ToolFilter,
    /// `None` in APIs without approvals.
    approval: Option<ApprovalRule>,
}

/// Which tools of a server the client wants.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "no server's tools are listed"))]
struct ToolFilter {
    others: bool,
    named: HashMap<String, bool>,
    read_only: Option<bool>,
}

impl ToolFilter {
    fn all() -> Self {
        Self { others: true, ..Self::default() }
    }

    fn only<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        Self { named: names.map(|name| (name.to_owned(), true)).collect(), ..Self::default() }
    }
}

/// Which calls need the client's approval.
#[derive(Debug)]
struct ApprovalRule {
    always: ToolMatch,
    never: ToolMatch,
    others: bool,
}

/// Some tools of a server, for which all conditions hold. Without a condition, it is none of them.
#[derive(Debug, Default)]
struct ToolMatch {
    names: Option<HashSet<String>>,
    read_only: Option<bool>,
}

impl ToolMatch {
    fn matches(&self, tool: &str, is_read_only: bool) -> bool {
        let is_named = self.names.as_ref().is_none_or(|names| names.contains(tool));
        let is_alike = self.read_only.is_none_or(|read_only| read_only == is_read_only);
        (self.names.is_some() || self.read_only.is_some()) && is_named && is_alike
    }
}

impl ClientServer {
    /// Whether the client wants this tool of the server.
    #[cfg(feature = "mcp")]
    pub(crate) fn wants(&self, tool: &str, is_read_only: bool) -> bool {
        self.tools.named.get(tool).copied().unwrap_or(self.tools.others)
            && self.tools.read_only.is_none_or(|read_only| read_only == is_read_only)
    }

    /// Whether a call of this tool needs the client's approval.
    pub(crate) fn needs_approval(&self, tool: &str, is_read_only: bool) -> bool {
        self.approval.as_ref().is_some_and(|rule| {
            rule.always.matches(tool, is_read_only)
                || (rule.others && !rule.never.matches(tool, is_read_only))
        })
    }

    /// Whether the client's API has items for the server's tools and their calls.
    pub(crate) fn has_items(&self) -> bool {
        self.approval.is_some()
    }

    /// Distinguishes the server from others to which the client gives the same name: 64 bits, in hexadecimal.
    pub(crate) fn mark(&self) -> Arc<str> {
        let digest = digest(&SHA256, self.url.as_bytes());
        hex::encode(digest.as_ref().get(..8).unwrap_or_default()).into()
    }
}

/// Where a request names a server.
#[derive(Debug)]
pub(super) struct Declared<'c> {
    label: &'c str,
    pub(super) url: &'c str,
    value: &'c Value,
    path: String,
}

pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

fn list<'c>(conversation: &'c Conversation, key: &str) -> impl Iterator<Item = (usize, &'c Value)> {
    conversation.rest.get(key).and_then(Value::as_array).into_iter().flatten().enumerate()
}

pub(super) fn is_of_kind(tool: &Value, kind: &str) -> bool {
    text(tool, "type") == Some(kind)
}

/// The servers that a request names by a URL.
pub(super) fn declared(conversation: &Conversation) -> impl Iterator<Item = Declared<'_>> {
    let tools = list(conversation, "tools").filter(|(_, tool)| is_of_kind(tool, SERVER)).filter_map(
        |(place, value)| {
            let (label, url) = (text(value, "server_label")?, text(value, "server_url")?);
            Some(Declared { label, url, value, path: format!("tools[{place}]") })
        },
    );
    let servers = list(conversation, "mcp_servers").filter_map(|(place, value)| {
        let (label, url) = (text(value, "name")?, text(value, "url")?);
        Some(Declared { label, url, value, path: format!("mcp_servers.{place}") })
    });
    tools.chain(servers)
}

/// Refuses what a request says about a server.
pub(super) struct Refusal(String);

impl Refusal {
    pub(super) fn of(&self, member: &str, why: impl fmt::Display) -> Failure {
        let param = format!("{}.{member}", self.0);
        Failure::new(Kind::Request, format!("`{param}` {why}")).with_param(param)
    }
}

impl Declared<'_> {
    pub(super) fn refusal(&self) -> Refusal {
        Refusal(self.path.clone())
    }

    /// Reads the declaration completely.
    ///
    /// # Errors
    /// [`Kind::Request`] for what toolwire cannot do as the client says.
    pub(super) fn read(&self, conversation: &Conversation) -> Result<ClientServer, Failure> {
        let refusal = self.refusal();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let is_label =
            !self.label.is_empty() && self.label.len() <= MAX_LABEL && self.label.bytes().all(is_plain);
        if !is_label {
            let key = if self.value.get("server_label").is_some() { "server_label" } else { "name" };
            return Err(refusal.of(key, "must be 1 to 64 letters, digits, `_` and `-`"));
        }
        let keys = ["authorization", "authorization_token"];
        let authorization = keys.iter().find_map(|key| Some((*key, text(self.value, key)?)));
        if let Some((key, token)) = authorization
            && (token.len() > MAX_HEADER || HeaderValue::from_str(token).is_err())
        {
            return Err(refusal.of(key, "cannot be sent in a header"));
        }
        Ok(ClientServer {
            label: self.label.to_owned(),
            url: self.url.to_owned(),
            authorization: authorization.map(|(_, token)| token.to_owned().into()),
            headers: headers(self.value.get("headers"), &refusal)?,
            tools: self.filter(conversation, &refusal)?,
            approval: match self.value.get("server_label") {
                Some(_) => Some(approval(self.value.get("require_approval"), &refusal)?),
                None => None,
            },
        })
    }

    fn filter(&self, conversation: &Conversation, refusal: &Refusal) -> Result<ToolFilter, Failure> {
        if self.value.get("server_label").is_none() {
            return Ok(self.toolset(conversation));
        }
        match self.value.get("allowed_tools") {
            None | Some(Value::Null) => Ok(ToolFilter::all()),
            Some(filter @ Value::Object(_)) => {
                let ToolMatch { names, read_only } = tool_match(filter, "allowed_tools", refusal)?;
                let filter = match &names {
                    None => ToolFilter::all(),
                    Some(names) => ToolFilter::only(names.iter().map(String::as_str)),
                };
                Ok(ToolFilter { read_only, ..filter })
            }
            Some(names) => {
                let names = names.as_array();
                let names = names.ok_or_else(|| refusal.of("allowed_tools", "must be an array of names"))?;
                Ok(ToolFilter::only(names.iter().filter_map(Value::as_str)))
            }
        }
    }

    /// What the tools or the server's `tool_configuration` say about its tools.
    fn toolset(&self, conversation: &Conversation) -> ToolFilter {
        let is_own =
            |tool: &&Value| is_of_kind(tool, TOOLSET) && text(tool, "mcp_server_name") == Some(self.label);
        let is_on = |config: &Value| config.get("enabled").and_then(Value::as_bool).unwrap_or(true);
        if let Some(toolset) = list(conversation, "tools").map(|(_, tool)| tool).find(is_own) {
            let others = toolset.get("default_config").is_none_or(is_on);
            let named = toolset.get("configs").and_then(Value::as_object).into_iter().flatten();
            let on = |config: &Value| config.get("enabled").and_then(Value::as_bool).unwrap_or(others);
            return ToolFilter {
                others,
                named: named.map(|(name, config)| (name.clone(), on(config))).collect(),
                read_only: None,
            };
        }
        let Some(configuration) = self.value.get("tool_configuration").filter(|own| own.is_object()) else {
            return ToolFilter::all();
        };
        match configuration.get("allowed_tools").and_then(Value::as_array) {
            _ if !is_on(configuration) => ToolFilter::default(),
            Some(names) => ToolFilter::only(names.iter().filter_map(Value::as_str)),
            None => ToolFilter::all(),
        }
    }
}

/// Reads which calls need an approval. By default, all do.
fn approval(rule: Option<&Value>, refusal: &Refusal) -> Result<ApprovalRule, Failure> {
    let filter = |key: &str| match rule.and_then(|rule| rule.get(key)) {
        None | Some(Value::Null) => Ok(ToolMatch::default()),
        Some(filter) => tool_match(filter, &format!("require_approval.{key}"), refusal),
    };
    let others = match rule {
        None | Some(Value::Null | Value::Object(_)) => true,
        Some(rule) => match rule.as_str() {
            Some("always") => true,
            Some("never") => false,
            _ => {
                let why = "must be `always`, `never`, or an object with filters of these names";
                return Err(refusal.of("require_approval", why));
            }
        },
    };
    Ok(ApprovalRule { always: filter("always")?, never: filter("never")?, others })
}

/// Reads a filter of tools.
fn tool_match(filter: &Value, path: &str, refusal: &Refusal) -> Result<ToolMatch, Failure> {
    if !filter.is_object() {
        return Err(refusal.of(path, "must be an object with `tool_names` or `read_only`"));
    }
    let names = match filter.get("tool_names") {
        None | Some(Value::Null) => None,
        Some(names) => {
            let read = |name: &Value| name.as_str().map(str::to_owned);
            let names = names.as_array().and_then(|names| names.iter().map(read).collect());
            Some(
                names
                    .ok_or_else(|| refusal.of(&format!("{path}.tool_names"), "must be an array of names"))?,
            )
        }
    };
    let read_only = match filter.get("read_only") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(flag)) => Some(*flag),
        Some(_) => return Err(refusal.of(&format!("{path}.read_only"), "must be a boolean")),
    };
    Ok(ToolMatch { names, read_only })
}

/// Reads the headers for a server.
fn headers(given: Option<&Value>, refusal: &Refusal) -> Result<Vec<(String, SecretString)>, Failure> {
    let mut headers = Vec::new();
    let given = match given {
        None | Some(Value::Null) => return Ok(headers),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(refusal.of("headers", "must be an object")),
    };
    if given.len() > MAX_HEADERS {
        return Err(refusal.of("headers", format_args!("has more than {MAX_HEADERS} headers")));
    }
    for (name, value) in given {
        let refused = |why: &str| {
            let name: String = name.chars().filter(|char| !char.is_control()).take(MAX_LABEL).collect();
            Err(refusal.of(&format!("headers.{name}"), why))
        };
        let Ok(known) = HeaderName::from_bytes(name.as_bytes()) else {
            return refused("is not the name of a header");
        };
        if OWN_HEADERS.contains(&known.as_str()) || known.as_str().starts_with("mcp-") {
            return refused("is set by toolwire; leave it out");
        }
        match value.as_str().filter(|value| value.len() <= MAX_HEADER && HeaderValue::from_str(value).is_ok())
        {
            Some(value) => headers.push((known.as_str().to_owned(), value.to_owned().into())),
            None => return refused("has a value that no header can have"),
        }
    }
    Ok(headers)
}

/// The body of a request without what its client sends to MCP servers, for records.
pub fn without_secrets(body: &[u8]) -> Option<Vec<u8>> {
    let mut body: Value = serde_json::from_slice(body).ok()?;
    for key in ["tools", "mcp_servers"] {
        let servers = body.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
        for server in servers.filter_map(Value::as_object_mut) {
            server.retain(|key, _| {
                !["authorization", "authorization_token", "headers"].contains(&key.as_str())
            });
        }
    }
    serde_json::to_vec(&body).ok()
}

/// Removes the declarations of these servers.
pub(super) fn take_out(conversation: &mut Conversation, labels: &HashSet<String>) {
    let is_taken = |value: &Value, key: &str| text(value, key).is_some_and(|label| labels.contains(label));
    let mut kinds = HashSet::new();
    for (key, label) in [("tools", "server_label"), ("tools", "mcp_server_name"), ("mcp_servers", "name")] {
        let Some(Value::Array(values)) = conversation.rest.get_mut(key) else { continue };
        let is_own = |value: &Value| match label {
            "server_label" => is_of_kind(value, SERVER),
            "mcp_server_name" => is_of_kind(value, TOOLSET),
            _ => true,
        };
        values.retain(|value| !(is_own(value) && is_taken(value, label)));
        let left = values.iter().filter_map(|value| text(value, "type")).map(str::to_owned);
        if key == "tools" {
            kinds = left.collect();
        }
        if values.is_empty() {
            conversation.rest.remove(key);
        }
    }
    let is_served = |kind: &str| matches!(kind, SERVER | TOOLSET) && !kinds.contains(kind);
    conversation.server_tools.retain(|tool| !is_served(&tool.kind));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The tools `look`, which is read-only, and `add` that need an approval by this rule.
    fn asked(rule: Option<&Value>) -> Vec<&'static str> {
        let rule = approval(rule, &Refusal("tools[0]".to_owned())).unwrap();
        let server = ClientServer {
            label: "s".to_owned(),
            url: String::new(),
            authorization: None,
            headers: Vec::new(),
            tools: ToolFilter::all(),
            approval: Some(rule),
        };
        let tools = [("look", true), ("add", false)].into_iter();
        tools
            .filter(|(tool, is_read_only)| server.needs_approval(tool, *is_read_only))
            .map(|it| it.0)
            .collect()
    }

    #[test]
    fn calls_need_an_approval_unless_the_client_says_otherwise() {
        let both = ["look", "add"];
        for rule in [
            json!(null),
            json!("always"),
            json!({}),
            json!({"never": {}}),
            json!({"never": null, "always": null}),
            json!({"never": {"tool_names": []}}),
            json!({"never": {"tool_names": ["ad", "Add"]}}),
            json!({"always": {"tool_names": ["add"]}}),
            json!({"never": {"tool_names": ["add"], "read_only": true}}),
            json!({"never": {"tool_names": ["add"]}, "always": {"tool_names": ["add"]}}),
        ] {
            assert_eq!(asked(Some(&rule)), both, "{rule}");
        }
        assert_eq!(asked(None), both);
        for (rule, expected) in [
            (json!("never"), &[][..]),
            (json!({"never": {"tool_names": ["add"]}}), &["look"][..]),
            (json!({"never": {"read_only": true}}), &["add"][..]),
            (json!({"never": {"read_only": false}}), &["look"][..]),
            (json!({"never": {"tool_names": ["look", "add"], "read_only": true}}), &["add"][..]),
            (json!({"never": {"tool_names": ["look", "add"]}, "always": {"read_only": false}}), &["add"][..]),
        ] {
            assert_eq!(asked(Some(&rule)), expected, "{rule}");
        }
    }

    #[test]
    fn marks_of_servers_are_short_and_differ() {
        let mark = |url: &str| {
            let (label, authorization, headers) = (String::new(), None, Vec::new());
            let tools = ToolFilter::all();
            ClientServer { label, url: url.to_owned(), authorization, headers, tools, approval: None }.mark()
        };
        assert_eq!(mark("https://a.example/mcp").len(), 16);
        assert_ne!(mark("https://a.example/mcp"), mark("https://b.example/mcp"));
    }
}
