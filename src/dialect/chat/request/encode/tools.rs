//! The tools of a request, and the choice among them.

use serde_json::{Map, Value, json};

use crate::conversation::{Conversation, Tool, ToolChoice};

/// Whether a field of the rest is put by this module, not passed on with the others.
pub(super) fn owns(key: &str) -> bool {
    matches!(key, "tools" | "tool_choice" | "function_call" | "parallel_tool_calls")
}

/// Puts tools and choice into the request. A conversation without tools, which is also one whose tools are taught in
/// the prompt, says nothing of a choice. Tools of the upstream's own that the client asked for stay.
pub(super) fn put(body: &mut Map<String, Value>, conversation: &Conversation) {
    let own = conversation.rest.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if conversation.tools.is_empty() && own.is_empty() {
        return;
    }
    let declared = conversation.tools.iter().map(|tool| declaration(tool, conversation.legacy_functions));
    let tools: Value = declared.chain(own.iter().cloned()).collect();
    let (tools_key, choice_key) = match conversation.legacy_functions {
        true => ("functions", "function_call"),
        false => ("tools", "tool_choice"),
    };
    body.insert(tools_key.to_owned(), tools);
    if let Some(choice) = choice(conversation, choice_key) {
        body.insert(choice_key.to_owned(), choice);
    }
    let asked = conversation.rest.get("parallel_tool_calls").cloned();
    let parallel = if conversation.parallel_calls { asked } else { Some(false.into()) };
    if let Some(parallel) = parallel {
        body.insert("parallel_tool_calls".to_owned(), parallel);
    }
}

fn declaration(tool: &Tool, legacy: bool) -> Value {
    if !tool.declared.is_null() {
        return tool.declared.clone();
    }
    let mut function = Map::new();
    function.insert("name".to_owned(), tool.name.as_str().into());
    if !tool.description.is_empty() {
        function.insert("description".to_owned(), tool.description.as_str().into());
    }
    if !tool.parameters.is_null() {
        function.insert("parameters".to_owned(), tool.parameters.clone());
    }
    if let Some(strict) = tool.strict {
        function.insert("strict".to_owned(), strict.into());
    }
    if legacy { function.into() } else { json!({"type": "function", "function": function}) }
}

fn choice(conversation: &Conversation, key: &str) -> Option<Value> {
    match &conversation.tool_choice {
        ToolChoice::Auto => conversation.rest.get(key).cloned(),
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Named(name) if conversation.legacy_functions => Some(json!({"name": name})),
        ToolChoice::Named(name) => Some(reference(conversation, name)),
        ToolChoice::Allowed { names, required } => {
            let tools: Value = names.iter().map(|name| reference(conversation, name)).collect();
            let mode = if *required { "required" } else { "auto" };
            Some(json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}))
        }
    }
}

/// A declared tool by its name, in the form of its type.
fn reference(conversation: &Conversation, name: &str) -> Value {
    let tool = conversation.tools.iter().find(|tool| tool.name == name);
    match tool.and_then(|tool| tool.declared.get("type")?.as_str()) {
        Some("custom") => json!({"type": "custom", "custom": {"name": name}}),
        _ => json!({"type": "function", "function": {"name": name}}),
    }
}
