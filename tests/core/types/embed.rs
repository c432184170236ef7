//! Puts an instance of a type into a request.

use serde_json::{Value, json};
use toolwire::dialect::Dialect;

/// A request with the instance of a type, and the same request without it. `None` if the type is not part of requests, or
/// is in every request.
pub(super) fn embedded(own: Dialect, kind: &str, name: &str, instance: &Value) -> Option<(Value, Value)> {
    if kind == "member" {
        let is_in_all = matches!(name, "messages" | "input" | "model" | "max_tokens");
        return (!is_in_all).then(|| member(own, name, instance));
    }
    if kind == "tool choice" {
        return Some((with(own, chosen(own, name, instance)), with(own, tools(own, declared(own, name)))));
    }
    let one = instance.clone();
    let fields = match kind {
        "tool" => (tools(own, one), json!({})),
        "response format" => (json!({ "response_format": one }), json!({})),
        "text format" => (json!({"text": {"format": one}}), json!({})),
        "thinking" => (json!({ "thinking": one }), json!({})),
        _ => {
            let (with, without) = super::messages::around(own, kind, name, one)?;
            (turns(own, with), turns(own, without))
        }
    };
    Some((with(own, fields.0), with(own, fields.1)))
}

/// A request with a member, and without it.
fn member(own: Dialect, name: &str, instance: &Value) -> (Value, Value) {
    let tools_with = tools(own, declared(own, "function"));
    let functions = json!([{"name": "name_text_1"}]);
    let (with_it, without) = match name {
        "functions" => (json!({"functions": instance, "tools": null}), json!({ "tools": null })),
        "function_call" => {
            let older = json!({"functions": functions, "tools": null});
            let mut with_it = older.clone();
            with_it[name] = instance.clone();
            (with_it, older)
        }
        "tool_choice" => (chosen(own, "function", instance), tools_with),
        "tools" => (json!({ name: instance }), json!({ "tools": null })),
        _ => (json!({ name: instance }), json!({})),
    };
    (with(own, with_it), with(own, without))
}

/// The smallest request, with these members.
fn with(own: Dialect, members: Value) -> Value {
    let mut request = json!({"model": "m"});
    let mut defaults = turns(own, vec![question("q")]);
    if own == Dialect::Messages {
        defaults["max_tokens"] = 100.into();
    }
    defaults["tools"] = json!([function(own, "f")]);
    for members in [defaults, members] {
        request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    }
    request
}

fn turns(own: Dialect, turns: Vec<Value>) -> Value {
    let key = if own == Dialect::Responses { "input" } else { "messages" };
    json!({ key: turns })
}

pub(super) fn question(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The tool `f`, and `other`.
fn tools(own: Dialect, other: Value) -> Value {
    json!({"tools": [function(own, "f"), other]})
}

fn function(own: Dialect, name: &str) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    match own {
        Dialect::Messages => json!({"name": name, "input_schema": schema}),
        Dialect::Responses => {
            json!({"type": "function", "name": name, "parameters": schema, "strict": false})
        }
        _ => json!({"type": "function", "function": {"name": name, "parameters": schema}}),
    }
}

/// The tool that a choice names.
fn declared(own: Dialect, choice: &str) -> Value {
    match (own, choice) {
        (Dialect::Chat, "custom") => json!({"type": "custom", "custom": {"name": "name_text_1"}}),
        (Dialect::Responses, "custom") => json!({"type": "custom", "name": "name_text_1"}),
        _ => function(own, "name_text_1"),
    }
}

/// A request with a tool choice.
fn chosen(own: Dialect, name: &str, instance: &Value) -> Value {
    let mut request = tools(own, declared(own, name));
    request["tool_choice"] = instance.clone();
    request
}
