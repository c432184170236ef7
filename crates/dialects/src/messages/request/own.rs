//! Recognises calls that toolwire or the upstream ran in the history that a client sends back.

use serde_json::{Map, Value, json};

use super::blocks::compact;
use crate::{
    conversation::{Call, CallOutput, Part, is_own_id, loaded_line},
    wire::json::{Json, Kind as JsonKind},
};

/// The call or the result that this block represents, if toolwire or the upstream ran the call.
pub(super) fn part(kind: &str, block: Json<'_>) -> Option<Part> {
    let text = |key: &str| block.get(key).and_then(|value| value.as_str());
    let id = |key: &str| text(key).filter(|id| is_own_id(id)).map(|id| id.into_owned());
    match kind {
        "server_tool_use" | "mcp_tool_use" => {
            let input = block.get("input").filter(|input| input.kind() == JsonKind::Object);
            let arguments = input.map_or_else(|| "{}".to_owned(), compact);
            Some(Part::Call(Call::new(id("id")?, text("name").unwrap_or_default(), arguments)))
        }
        "tool_search_tool_result" => {
            let content = block.get("content").map(|content| content.to_value()).unwrap_or_default();
            let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
            let code = text(&content, "error_code");
            let found = content.get("tool_references").and_then(Value::as_array);
            let names = found.into_iter().flatten().filter_map(|tool| text(tool, "tool_name"));
            let lines: Vec<_> = names.map(|name| loaded_line(&name)).collect();
            let (content, is_error) = match code {
                Some(code) => (text(&content, "error_message").unwrap_or(code), true),
                None if lines.is_empty() => ("No tool fits.".to_owned(), false),
                None => (lines.join("\n"), false),
            };
            let id = id("tool_use_id")?;
            Some(Part::Result(CallOutput { id, name: String::new(), content, is_error }))
        }
        "web_fetch_tool_result" => {
            let content = block.get("content").map(|content| content.to_value()).unwrap_or_default();
            let error = content.get("error_code").and_then(Value::as_str);
            let is_error = error.is_some();
            let content =
                error.map_or_else(|| read_page(&content), |code| format!("The page was not read: {code}"));
            Some(Part::Result(CallOutput { id: id("tool_use_id")?, name: String::new(), content, is_error }))
        }
        "web_search_tool_result" | "mcp_tool_result" => {
            let id = id("tool_use_id")?;
            let is_marked = block.get("is_error").and_then(|flag| flag.as_bool()).unwrap_or(false);
            let content = block.get("content").map(|content| content.to_value()).unwrap_or_default();
            let error = content.get("error_code").and_then(Value::as_str);
            let is_error = is_marked || error.is_some();
            let content = match (error, &content) {
                (Some(error), _) => format!("The search failed: {error}"),
                (None, Value::String(text)) => text.clone(),
                (None, Value::Array(blocks)) if kind == "mcp_tool_result" => {
                    let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
                    texts.collect::<Vec<_>>().join("\n")
                }
                (None, Value::Array(found)) if !found.is_empty() => pages(found),
                (None, _) => String::new(),
            };
            Some(Part::Result(CallOutput { id, name: String::new(), content, is_error }))
        }
        _ => None,
    }
}

/// A page that was read, in the form in which the tool returned it.
fn read_page(result: &Value) -> String {
    let text = |path: &str| result.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (title, text, url) = (text("/content/title"), text("/content/source/data"), text("/url"));
    json!({"ok": true, "title": title, "url": url, "content": text}).to_string()
}

/// The known members of the pages in a search result, as JSON.
fn pages(found: &[Value]) -> String {
    let page = |page: &Value| -> Value {
        let known = ["title", "url", "page_age"].into_iter().filter_map(|key| {
            let value = page.get(key).filter(|value| value.is_string())?;
            Some((key.to_owned(), value.clone()))
        });
        known.collect::<Map<_, _>>().into()
    };
    found.iter().map(page).collect::<Value>().to_string()
}
