//! Searches for tools that a server runs: `tool_search_tool_regex` and `tool_search_tool_bm25` in Messages, and
//! `tool_search` in Responses. The forms are in docs/protocols/messages.md#tool-search and
//! docs/protocols/responses.md#tool-search.

use std::{
    cell::LazyCell,
    collections::{HashMap, HashSet},
    ops::Deref,
};

use serde_json::{Value, json};

use super::{ClientDialect, Dialect};
use crate::{
    conversation::{Conversation, Part, Received, Tool, is_own_id, loaded_in, loaded_line},
    wire::json::Json,
};

/// How a search looks for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchTool {
    /// By words.
    Words,
    /// By a regular expression.
    Pattern,
}

impl SearchTool {
    /// The search that a server tool of the type `kind` is, in `dialect`.
    pub fn of_kind(dialect: Dialect, kind: &str) -> Option<Self> {
        match dialect {
            Dialect::Messages if kind.starts_with("tool_search_tool_bm25") => Some(Self::Words),
            Dialect::Messages if kind.starts_with("tool_search_tool_regex") => Some(Self::Pattern),
            Dialect::Responses if kind == "tool_search" => Some(Self::Words),
            _ => None,
        }
    }
}

/// Whether a tool that an API calls by this name is a search that its servers run.
pub(crate) fn is_search_of_messages(name: &str) -> bool {
    name.starts_with("tool_search_tool_")
}

/// The member of a declaration that defers it.
pub(crate) const DEFER_LOADING: &str = "defer_loading";

/// The names of those of `tools` whose declarations defer them.
pub(crate) fn deferred(tools: &[Tool]) -> Vec<String> {
    let is_deferred = |tool: &&Tool| {
        let declared = tool.declared.as_ref().map(|declared| declared.parts().1.view());
        let flag = declared.and_then(|declared| declared.get(DEFER_LOADING));
        flag.is_some_and(|flag| flag.as_bool() == Some(true))
    };
    tools.iter().filter(is_deferred).map(|tool| tool.name.clone()).collect()
}

/// Removes `defer_loading` from the declarations of the tools in `names`, for servers that do not know it.
pub fn undefer(tools: &mut [Tool], names: &[String]) {
    let names: HashSet<&str> = names.iter().map(String::as_str).collect();
    for tool in tools.iter_mut().filter(|tool| names.contains(tool.name.as_str())) {
        let Some(declared) = &mut tool.declared else { continue };
        let (dialect, json) = declared.parts();
        let mut value = json.view().to_value();
        if value.as_object_mut().is_some_and(|members| members.remove(DEFER_LOADING).is_some())
            && let Ok(json) = Json::parse(&value.to_string())
        {
            *declared = Received::new(dialect, json.into());
        }
    }
}

/// The names of the tools that searches in the history have loaded, in order, whoever ran the searches. A name that is not
/// declared says nothing.
pub fn loaded_tools(conversation: &Conversation) -> Vec<String> {
    let mut names = Vec::new();
    let members = LazyCell::new(|| {
        let members = conversation.namespaced.iter();
        members.map(|member| ((&*member.namespace, &*member.inner), &*member.name)).collect()
    });
    for part in conversation.turns.iter().flat_map(|turn| &turn.parts) {
        match part {
            Part::Result(output) if is_own_id(&output.id) => {
                names.extend(loaded_in(&output.content).map(str::to_owned));
            }
            Part::Other(other) => loaded_by(other.parts().1, &members, &mut names),
            _ => {}
        }
    }
    names
}

/// The declared names of tools in namespaces, by their namespaces and their names in these.
type Members<'c> = HashMap<(&'c str, &'c str), &'c str>;

/// Adds the names of the tools that a part in a form of its API has loaded.
fn loaded_by<'c>(value: &Value, members: &impl Deref<Target = Members<'c>>, names: &mut Vec<String>) {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let list =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    match value.get("type").and_then(Value::as_str) {
        Some("tool_reference") => names.extend(text(value, "tool_name")),
        Some("tool_search_tool_result") => {
            let content = value.get("content").unwrap_or(&Value::Null);
            names.extend(list(content, "tool_references").iter().filter_map(|tool| text(tool, "tool_name")));
        }
        Some("tool_search_output") => {
            for tool in list(value, "tools") {
                let name = text(&tool, "name").unwrap_or_default();
                let inner: Vec<_> =
                    list(&tool, "tools").iter().filter_map(|tool| text(tool, "name")).collect();
                if inner.is_empty() {
                    names.push(name);
                    continue;
                }
                let loaded = inner.iter().filter_map(|inner| members.get(&(name.as_str(), inner.as_str())));
                names.extend(loaded.map(|name| (*name).to_owned()));
            }
        }
        _ => {}
    }
}

/// The result of a search that has found the tools with these names, as writers of `client` read it: their names in lines,
/// or in Responses their declarations as a JSON array.
pub fn found_tools(client: ClientDialect, conversation: &Conversation, names: &[String]) -> String {
    if client != ClientDialect::Responses {
        return names.iter().map(|name| loaded_line(name)).collect::<Vec<_>>().join("\n");
    }
    let all =
        conversation.repeated.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is = |tool: &Value, key: &str, text: &str| tool.get(key).and_then(Value::as_str) == Some(text);
    let mut found: Vec<Value> = Vec::new();
    for name in names {
        let Some(member) = conversation.namespaced.iter().find(|member| member.name == *name) else {
            let declared = all.iter().find(|tool| is(tool, "name", name) && !is(tool, "type", "namespace"));
            found.extend(declared.cloned());
            continue;
        };
        let namespace = |tool: &Value| is(tool, "type", "namespace") && is(tool, "name", &member.namespace);
        let Some(declared) = all.iter().find(|tool| namespace(tool)) else { continue };
        let tools = declared.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let Some(inner) = tools.iter().find(|tool| is(tool, "name", &member.inner)) else { continue };
        let open = found.iter_mut().find(|tool| namespace(tool));
        match open.and_then(|open| open.get_mut("tools")).and_then(Value::as_array_mut) {
            Some(tools) => tools.push(inner.clone()),
            None => {
                let mut part = declared.clone();
                if let Some(members) = part.as_object_mut() {
                    members.entry("description").or_insert_with(|| "".into());
                    members.insert("tools".to_owned(), json!([inner]));
                }
                found.push(part);
            }
        }
    }
    Value::from(found).to_string()
}
