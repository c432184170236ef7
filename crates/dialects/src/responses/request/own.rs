//! Recognises calls that toolwire or the upstream ran in the history that a client sends back.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::{
    conversation::{Call, CallOutput, loaded_line, mcp_tool_name, own_id},
    responses::{approval_mark, is_own_item},
    wire::json::Json,
};

/// The call and its result, if this item represents a call that the client did not run. Parts of the result that
/// the item lacks stay empty.
pub(super) fn call(kind: &str, item: Json<'_>) -> Option<(Call, CallOutput)> {
    if !matches!(kind, "web_search_call" | "mcp_call" | "image_generation_call") {
        return None;
    }
    let id = item.get("id").and_then(|id| id.as_str()).filter(|id| is_own_item(id))?;
    let approval = item.get("approval_request_id").and_then(|id| id.as_str());
    let approval = approval.filter(|id| kind == "mcp_call" && approval_mark(id).is_some());
    let server = approval.as_ref().and_then(|_| item.get("server_label")?.as_str());
    let id = own_id("call", &approval.unwrap_or(id));
    let text = |key: &str| item.get(key).and_then(|value| value.as_str());
    let value = |key: &str| item.get(key).map(|value| value.to_value()).unwrap_or_default();
    let mut is_error = false;
    let (name, arguments, content) = match kind {
        "web_search_call" => {
            let action = value("action");
            let known = ["query", "queries"]
                .into_iter()
                .filter_map(|key| Some((key.to_owned(), action.get(key)?.clone())));
            let arguments = Value::from(known.collect::<Map<_, _>>()).to_string();
            let sources =
                action.get("sources").and_then(Value::as_array).filter(|sources| !sources.is_empty());
            let pages = sources.map(|sources| {
                let urls = sources.iter().filter_map(|source| source.get("url"));
                urls.map(|url| json!({"url": url})).collect::<Value>().to_string()
            });
            ("web_search".into(), arguments.into(), pages.unwrap_or_default())
        }
        "mcp_call" => {
            let error = error(&value("error"));
            is_error = error.is_some();
            let content = error.or_else(|| Some(text("output")?.into_owned()));
            let arguments = text("arguments").filter(|arguments| !arguments.is_empty());
            let name = text("name").unwrap_or_default();
            let name = server.map_or_else(|| name.to_string(), |server| mcp_tool_name(&server, &name));
            (Cow::Owned(name), arguments.unwrap_or("{}".into()), content.unwrap_or_default())
        }
        // What the model received as the result was not the images themselves, so the result stays empty.
        _ => ("generate_images".into(), "{}".into(), String::new()),
    };
    let call = Call::new(id, name, arguments);
    let output = CallOutput { id: call.id.clone(), name: call.name.clone(), content, is_error };
    Some((call, output))
}

/// The call of a search for tools that toolwire ran, if `item` is one. Its result is the next item.
pub(super) fn search(kind: &str, item: Json<'_>) -> Option<Call> {
    let id = item.get("id").and_then(|id| id.as_str()).filter(|id| is_own_item(id))?;
    let arguments = item.get("arguments").map(|arguments| arguments.to_value()).unwrap_or_default();
    let arguments = if arguments.is_object() { arguments.to_string() } else { "{}".to_owned() };
    (kind == "tool_search_call").then(|| Call::new(own_id("call", &id), "tool_search", arguments))
}

/// The result of `call`, a search, if `item` is one. `named` returns the name of a tool by those of its namespace and
/// its own.
pub(super) fn found(
    kind: &str,
    item: Json<'_>,
    call: &Call,
    named: impl Fn(&str, &str) -> String,
) -> Option<CallOutput> {
    item.get("id").and_then(|id| id.as_str()).filter(|id| is_own_item(id) && kind == "tool_search_output")?;
    let text = |value: Json<'_>| Some(value.get("name")?.as_str()?.into_owned());
    let mut lines = Vec::new();
    for tool in item.get("tools").into_iter().flat_map(|tools| tools.elements()) {
        let name = text(tool).unwrap_or_default();
        match tool.get("tools") {
            Some(inner) => {
                let inner = inner.elements().filter_map(text);
                lines.extend(inner.map(|inner| loaded_line(&named(&name, &inner))));
            }
            None => lines.push(loaded_line(&name)),
        }
    }
    let content = if lines.is_empty() { "No tool fits.".to_owned() } else { lines.join("\n") };
    Some(CallOutput { id: call.id.clone(), name: String::new(), content, is_error: false })
}

fn error(error: &Value) -> Option<String> {
    if let Some(text) = error.as_str().or_else(|| error.get("message")?.as_str()) {
        return Some(text.to_owned());
    }
    let content = error.get("content")?.as_array()?;
    let texts = content.iter().filter_map(|part| part.get("text")?.as_str());
    Some(texts.collect::<Vec<_>>().join("\n"))
}
