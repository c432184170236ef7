//! The `tools` of a v2 request: Lumo's own by name, the client's as functions, in one list (Lumo 1.3).

use serde_json::{Map, Value, json};

use crate::conversation::{Conversation, Tool, ToolChoice};

/// The draft of JSON Schema that Lumo's own client names where a tool names none.
const SCHEMA: &str = "https://json-schema.org/draft/2020-12/schema";

/// What the model is offered.
#[derive(Debug, PartialEq)]
pub(super) struct Offer {
    /// Server tools first.
    pub(super) tools: Vec<Value>,
    /// `auto`, `none` or `required`.
    pub(super) choice: &'static str,
}

/// The tools for `conversation`; `None` if there are none.
///
/// A client's tool takes the place of a server tool of the same name. Where the client wants a call, server tools are
/// left out: Lumo cannot be told which tool is required, and a server tool's call would do.
pub(super) fn offer(
    conversation: &Conversation,
    server_tools: &[String],
    dropped: &mut Vec<String>,
) -> Option<Offer> {
    let choice = match &conversation.tool_choice {
        ToolChoice::None => "none",
        ToolChoice::Auto | ToolChoice::Allowed { required: false, .. } => "auto",
        ToolChoice::Required | ToolChoice::Named(_) | ToolChoice::Allowed { required: true, .. } => {
            "required"
        }
    };
    if conversation.callable_tools().any(|tool| tool.strict.is_some()) {
        dropped.push("tools[].function.strict".to_owned());
    }
    let declared = |name: &String| conversation.callable_tools().any(|tool| tool.name == *name);
    let server = server_tools.iter().filter(|name| choice != "required" && !declared(name));
    let server = server.map(|name| json!({"name": name}));
    let tools: Vec<_> = server.chain(conversation.callable_tools().map(function)).collect();
    (!tools.is_empty()).then_some(Offer { tools, choice })
}

/// A client's tool, completed as Lumo's own client does it.
fn function(tool: &Tool) -> Value {
    let mut parameters = tool.parameters.as_object().cloned().unwrap_or_else(Map::new);
    for (key, value) in [("type", json!("object")), ("properties", json!({})), ("$schema", json!(SCHEMA))] {
        parameters.entry(key).or_insert(value);
    }
    json!({"type": "function", "function": {
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
    }})
}
