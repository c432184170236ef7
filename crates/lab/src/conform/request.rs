//! The client's request for a case.

use serde_json::{Value, json};

use super::case::Case;
use crate::follow::Dialect;

/// The text that precedes a case's name in the user's message.
const MARK: &str = "conformance case: ";

/// Returns the body of the request.
pub(crate) fn body(dialect: Dialect, case: &Case, model: &str) -> Value {
    let text = format!("Please answer. This is {MARK}{}", case.name);
    let tools = case.tools.iter().filter_map(|tool| tool.get("function"));
    let mut body = json!({"model": model, "stream": true});
    let Some(members) = body.as_object_mut() else { return body };
    let messages = json!([{"role": "user", "content": text}]);
    match dialect {
        Dialect::Chat => {
            members.insert("stream_options".to_owned(), json!({"include_usage": true}));
            members.insert("messages".to_owned(), messages);
            if !case.tools.is_empty() {
                members.insert("tools".to_owned(), json!(*case.tools));
            }
        }
        Dialect::Ollama => {
            members.insert("messages".to_owned(), messages);
            insert_list(members, case.tools.to_vec());
        }
        Dialect::Messages => {
            members.insert("max_tokens".to_owned(), json!(4096));
            members.insert("messages".to_owned(), messages);
            let tools = tools.map(|function| {
                let [name, description, schema] = parts(function);
                json!({"name": name, "description": description, "input_schema": schema})
            });
            insert_list(members, tools.collect());
        }
        Dialect::Responses => {
            members.insert("input".to_owned(), messages);
            members.insert("store".to_owned(), json!(false));
            let tools = tools.map(|function| {
                let [name, description, schema] = parts(function);
                json!({"type": "function", "name": name, "description": description, "parameters": schema,
                    "strict": false})
            });
            insert_list(members, tools.collect());
        }
        Dialect::Gemini => {
            members.clear();
            members.insert("contents".to_owned(), json!([{"role": "user", "parts": [{"text": text}]}]));
            let thoughts = json!({"thinkingConfig": {"includeThoughts": true}});
            members.insert("generationConfig".to_owned(), thoughts);
            let declarations: Vec<_> = tools
                .map(|function| {
                    let [name, description, schema] = parts(function);
                    json!({"name": name, "description": description, "parametersJsonSchema": schema})
                })
                .collect();
            if !declarations.is_empty() {
                insert_list(members, vec![json!({"functionDeclarations": declarations})]);
            }
        }
    }
    body
}

fn insert_list(members: &mut serde_json::Map<String, Value>, tools: Vec<Value>) {
    if !tools.is_empty() {
        members.insert("tools".to_owned(), Value::Array(tools));
    }
}

/// Returns the name, the description and the schema of a function.
fn parts(function: &Value) -> [Value; 3] {
    let part = |key: &str| function.get(key).cloned();
    let empty = || json!({"type": "object", "properties": {}});
    let description = part("description").unwrap_or_else(|| json!(""));
    [part("name").unwrap_or_default(), description, part("parameters").unwrap_or_else(empty)]
}

/// Finds the case's name in a request of any dialect. If several strings contain a name, the last one counts.
pub(crate) fn case_of(body: &[u8]) -> Option<String> {
    fn search(value: &Value, found: &mut Option<String>) {
        match value {
            Value::String(text) => {
                if let Some((_, name)) = text.rsplit_once(MARK) {
                    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "/@=_-.".contains(c);
                    *found = Some(name.chars().take_while(|c| is_of_name(*c)).collect());
                }
            }
            Value::Array(list) => list.iter().for_each(|value| search(value, found)),
            Value::Object(object) => object.values().for_each(|value| search(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = None;
    search(&serde_json::from_slice(body).ok()?, &mut found);
    found
}
