//! [`ClientServer`]: an MCP server that a client's request names, for its API's servers to call.
//!
//! Responses has them as tools of the type `mcp`; Messages has them in `mcp_servers`, and says in tools of the type
//! `mcp_toolset`, or in `tool_configuration`, which of their tools are used. toolwire calls those that a provider of
//! `kind = "client_mcp"` admits, for this request only: what the client sends to a server is kept nowhere.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use http::{HeaderName, HeaderValue};
use secrecy::SecretString;
use serde_json::Value;

use toolwire_pipeline::{
    conversation::Conversation,
    failure::{Failure, Kind},
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
}

/// Which tools of a server the client wants.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "no server's tools are listed"))]
struct ToolFilter {
    others: bool,
    named: HashMap<String, bool>,
}

impl ToolFilter {
    fn all() -> Self {
        Self { others: true, named: HashMap::new() }
    }

    fn only<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        Self { others: false, named: names.map(|name| (name.to_owned(), true)).collect() }
    }
}

impl ClientServer {
    /// Whether the client wants this tool of the server.
    #[cfg(feature = "mcp")]
    pub(crate) fn wants(&self, tool: &str) -> bool {
        self.tools.named.get(tool).copied().unwrap_or(self.tools.others)
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
        })
    }

    fn filter(&self, conversation: &Conversation, refusal: &Refusal) -> Result<ToolFilter, Failure> {
        if self.value.get("server_label").is_none() {
            return Ok(self.toolset(conversation));
        }
        check_approval(self.value.get("require_approval"), refusal)?;
        let names = match self.value.get("allowed_tools") {
            None | Some(Value::Null) => return Ok(ToolFilter::all()),
            Some(Value::Object(filter)) if filter.get("read_only").is_some_and(|flag| flag == true) => {
                let why = "is not supported, since what servers say about their tools is not trusted; use `tool_names`";
                return Err(refusal.of("allowed_tools.read_only", why));
            }
            Some(Value::Object(filter)) => match filter.get("tool_names") {
                None | Some(Value::Null) => return Ok(ToolFilter::all()),
                Some(names) => names,
            },
            Some(names) => names,
        };
        let names =
            names.as_array().ok_or_else(|| refusal.of("allowed_tools", "must be an array of names"))?;
        Ok(ToolFilter::only(names.iter().filter_map(Value::as_str)))
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

/// Checks that no call needs an approval.
fn check_approval(rule: Option<&Value>, refusal: &Refusal) -> Result<(), Failure> {
    match rule.and_then(Value::as_str) {
        Some("never") => Ok(()),
        _ => {
            let why =
                "must be `never`: toolwire asks the client for no approvals (the API's default is `always`)";
            Err(refusal.of("require_approval", why).with_code("unsupported_value"))
        }
    }
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
