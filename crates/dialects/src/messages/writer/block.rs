//! Objects that occur both in streams and in complete responses.

use serde_json::{Map, Value, json};

use crate::{
    Answering, Dialect,
    conversation::{Namespaced, loaded_in, own_id},
    event::{Annotation, Finish, Opaque, ServerCall, Usage, Warning},
    messages::toolsets::TOOLSET_NAME,
    opaque::carried,
    search_results::{Page, failure_code, pages, read_page},
    summary::SummaryText,
    tool_searches::is_search_of_messages,
};

/// The kinds of blocks that show calls run by the upstream or by toolwire. Searches and tools that read pages have their
/// own blocks in this API; any other tool is shown as a tool from an MCP server, whose results are text
/// (docs/protocols/messages.md#server-tools).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosted {
    Search,
    /// Reads a page.
    Fetch,
    /// A search for tools.
    ToolSearch,
    Other,
}

/// The block of a call to a client's tool. `namespaced` are the members of toolsets.
pub(super) fn client_call(id: &str, name: &str, namespaced: &[Namespaced], input: Value) -> Value {
    match namespaced.iter().find(|known| known.name == name) {
        Some(Namespaced { namespace, inner, .. }) => {
            json!({"type": "tool_use", "id": id, "name": inner, "input": input, TOOLSET_NAME: namespace})
        }
        None => json!({"type": "tool_use", "id": id, "name": name, "input": input}),
    }
}

impl Hosted {
    /// The call as a count.
    pub(super) fn count(self) -> ToolCounts {
        ToolCounts { searches: u64::from(self == Self::Search), fetches: u64::from(self == Self::Fetch) }
    }

    /// The kind of block for the tool `name`.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "web_search" => Self::Search,
            "web_fetch" => Self::Fetch,
            name if is_search_of_messages(name) => Self::ToolSearch,
            _ => Self::Other,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Search | Self::Fetch | Self::ToolSearch => "srvtoolu",
            Self::Other => "mcptoolu",
        }
    }

    /// The block of a call to the tool `name` of `server`.
    pub(super) fn call(self, id: &str, (name, server): (&str, &str), input: Value) -> Value {
        match self {
            Self::Search | Self::Fetch | Self::ToolSearch => {
                json!({"type": "server_tool_use", "id": id, "name": name, "input": input})
            }
            Self::Other => json!({
                "type": "mcp_tool_use",
                "id": id,
                "name": name,
                "server_name": server,
                "input": input,
            }),
        }
    }

    pub(super) fn result(self, id: &str, content: &str, is_error: bool) -> Value {
        match self {
            Self::Search => {
                let content = if is_error { search_error(content) } else { found(content) };
                json!({"type": "web_search_tool_result", "tool_use_id": id, "content": content})
            }
            Self::Fetch => {
                json!({"type": "web_fetch_tool_result", "tool_use_id": id, "content": fetched(content, is_error)})
            }
            Self::ToolSearch => {
                let content = found_tools(content, is_error);
                json!({"type": "tool_search_tool_result", "tool_use_id": id, "content": content})
            }
            Self::Other => json!({
                "type": "mcp_tool_result",
                "tool_use_id": id,
                "is_error": is_error,
                "content": [{"type": "text", "text": content}],
            }),
        }
    }
}

/// The type of a block with a summary, and the stop reason of its message.
pub(super) const COMPACTION: &str = "compaction";

/// Collects the summary. `None` if the response is not a compaction.
pub(super) fn summary(answering: &Answering) -> Option<SummaryText> {
    answering.compaction.map(|_| SummaryText::default())
}

/// The server name to use for the upstream's own tools.
pub(super) const SERVER_NAME: &str = "upstream";

/// The error of a search. If it came from Anthropic's servers, it is already in the API's format.
fn search_error(content: &str) -> Value {
    let kind = "web_search_tool_result_error";
    let given = serde_json::from_str::<Value>(content).ok();
    given.filter(|error| error.get("type").is_some_and(|given| given == kind)).unwrap_or_else(|| {
        let code = match failure_code(content).as_deref() {
            Some("invalid_arguments") => "invalid_tool_input",
            Some("max_uses" | "max_calls" | "max_rounds") => "max_uses_exceeded",
            Some("rate_limited") => "too_many_requests",
            _ => "unavailable",
        };
        json!({"type": kind, "error_code": code})
    })
}

/// The page that was read, or the error. If they came from Anthropic's servers, they are already in the API's format.
fn fetched(content: &str, is_error: bool) -> Value {
    let given = serde_json::from_str::<Value>(content).ok();
    let is_own = |value: &Value| {
        let kind = value.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| kind.starts_with("web_fetch_"))
    };
    if let Some(given) = given.filter(is_own) {
        return given;
    }
    if is_error {
        let code = match failure_code(content).as_deref() {
            Some("invalid_arguments") => "invalid_tool_input",
            Some("blocked_url" | "permission_denied" | "permission_timeout") => "url_not_allowed",
            Some("unsupported_content") => "unsupported_content_type",
            Some("max_uses" | "max_calls" | "max_rounds" | "loop") => "max_uses_exceeded",
            Some("rate_limited") => "too_many_requests",
            Some("provider_error" | "timeout" | "too_large") => "url_not_accessible",
            _ => "unavailable",
        };
        return json!({"type": "web_fetch_tool_result_error", "error_code": code});
    }
    let page = read_page(content);
    json!({
        "type": "web_fetch_result",
        "url": page.url,
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": page.text},
            "title": page.title,
            "citations": null,
        },
        "retrieved_at": null,
    })
}

/// The pages in the result of a search. Pages from Anthropic's servers stay unchanged, because their
/// encrypted content must be returned to those servers.
fn found(content: &str) -> Value {
    if let Ok(Value::Array(list)) = serde_json::from_str(content)
        && list.iter().all(|page: &Value| page.get("type").is_some_and(|kind| kind == "web_search_result"))
    {
        return list.into();
    }
    let page = |page: Page| {
        json!({
            "type": "web_search_result",
            "url": page.url,
            "title": page.title,
            "encrypted_content": "",
            "page_age": page.age,
        })
    };
    pages(content).into_iter().map(page).collect()
}

/// The tools that a search has found, or its error. The result of a search on Anthropic's servers is already in the
/// API's format.
fn found_tools(content: &str, is_error: bool) -> Value {
    let given = serde_json::from_str::<Value>(content).ok();
    let kind = |value: &Value| value.get("type")?.as_str().map(str::to_owned);
    if let Some(given) =
        given.filter(|given| kind(given).is_some_and(|kind| kind.starts_with("tool_search_tool_")))
    {
        return given;
    }
    if is_error {
        return json!({
            "type": "tool_search_tool_result_error",
            "error_code": "invalid_tool_input",
            "error_message": content,
        });
    }
    let reference = |name: &str| json!({"type": "tool_reference", "tool_name": name});
    let references: Vec<_> = loaded_in(content).map(reference).collect();
    json!({"type": "tool_search_tool_search_result", "tool_references": references})
}

/// The blocks for a call that the upstream or toolwire ran and that is not one of the response's own calls.
pub(super) fn server_call(call: &ServerCall<'_>) -> impl Iterator<Item = Value> {
    let hosted = Hosted::of(&call.name);
    let id = own_id(hosted.prefix(), &call.id);
    let names = (&*call.name, call.server_name());
    let used = call.arguments.as_ref().map(|arguments| hosted.call(&id, names, input(arguments)));
    let result = call.content.as_ref().map(|content| hosted.result(&id, content, call.is_error));
    used.into_iter().chain(result)
}

/// Parses arguments as an object, as `input` requires. Text that is not an object, such as that of a
/// truncated call, stays a string, so that no client mistakes it for a complete call.
pub(super) fn input(arguments: &str) -> Value {
    if arguments.trim().is_empty() {
        return Map::new().into();
    }
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => object.into(),
        _ => arguments.into(),
    }
}

/// The block for thinking that the upstream does not reveal.
pub(super) fn redacted(state: &Opaque<'_>) -> Value {
    json!({"type": "redacted_thinking", "data": carried(state, Dialect::Messages)})
}

/// A citation of a page. The API has a field for the cited text, but only the position of the text is known,
/// so the field is left empty.
pub(super) fn citation(annotation: &Annotation<'_>) -> Value {
    json!({
        "type": "web_search_result_location",
        "url": annotation.url,
        "title": annotation.title,
        "cited_text": "",
        "encrypted_index": "",
    })
}

/// How often the client's tools that servers run were called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ToolCounts {
    searches: u64,
    fetches: u64,
}

impl ToolCounts {
    pub(super) fn add(&mut self, more: Self) {
        self.searches += more.searches;
        self.fetches += more.fetches;
    }
}

/// Token counts, together with other fields if the upstream speaks this dialect, and the number of server calls. The
/// API requires the two main counts, so missing counts are sent as 0. The API's `input_tokens` does not include
/// cached tokens.
pub(super) fn usage(usage: Option<&Usage>, calls: ToolCounts) -> Value {
    let count = |count: fn(&Usage) -> Option<u64>| usage.and_then(count);
    let input = count(|usage| {
        let cache = usage.cached.unwrap_or(0).saturating_add(usage.cache_written.unwrap_or(0));
        Some(usage.input?.saturating_sub(cache))
    });
    let mut object = json!({
        "input_tokens": input.unwrap_or(0),
        "output_tokens": count(|usage| usage.output).unwrap_or(0),
    });
    let raw =
        usage.and_then(|usage| usage.raw.as_ref()).filter(|raw| raw.dialect == Dialect::Messages.name());
    let raw = raw.and_then(|raw| serde_json::from_str::<Map<String, Value>>(raw.object.get()).ok());
    if let Some(object) = object.as_object_mut() {
        for (key, value) in raw.into_iter().flatten() {
            object.entry(key).or_insert(value);
        }
    }
    let cached = [
        ("cache_read_input_tokens", count(|usage| usage.cached)),
        ("cache_creation_input_tokens", count(|usage| usage.cache_written)),
    ];
    for (key, count) in cached {
        if let (Some(object), Some(count)) = (object.as_object_mut(), count) {
            object.insert(key.to_owned(), count.into());
        }
    }
    let counts = [("web_search_requests", calls.searches), ("web_fetch_requests", calls.fetches)];
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    let counts: Map<_, _> = counts.map(|(key, count)| (key.to_owned(), count.into())).collect();
    if let Some(object) = object.as_object_mut().filter(|_| !counts.is_empty()) {
        object.entry("server_tool_use").or_insert_with(|| counts.into());
    }
    object
}

/// The call that `call` is the start of, as a count.
pub(super) fn counted(call: &ServerCall<'_>) -> ToolCounts {
    call.arguments.as_ref().map_or_else(ToolCounts::default, |_| Hosted::of(&call.name).count())
}

/// toolwire's extension field with the warnings about a response.
pub(super) fn notes(warnings: &[Value]) -> Value {
    json!({ "warnings": warnings })
}

pub(super) fn warning(warning: &Warning<'_>) -> Value {
    json!({"code": warning.code, "message": warning.message})
}

/// The API's stop reason. `refused` is set if the text is a refusal.
pub(super) fn stop_reason(finish: Finish, refused: bool) -> &'static str {
    match finish {
        Finish::Stop if refused => "refusal",
        Finish::Stop => "end_turn",
        Finish::Calls => "tool_use",
        Finish::Length => "max_tokens",
        Finish::Filter => "refusal",
    }
}
