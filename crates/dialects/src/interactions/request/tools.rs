//! Encodes the tools and the tool choice of a request.

use serde_json::{Map, Value, json};

use super::super::Options;
use crate::{
    conversation::{Conversation, Tool, ToolChoice},
    wire::json::Encoder,
};

pub(super) const TOOLS: &str = "tools";

/// Writes the tools. `own` contains what a client of this API wrote.
pub(super) fn put(
    body: &mut Encoder,
    conversation: &Conversation,
    own: &Map<String, Value>,
    options: &Options,
) {
    let server = own.get(TOOLS).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if conversation.tools.is_empty() && options.native_tools.is_empty() && server.is_empty() {
        return;
    }
    let is_declared = |name: &str| server.iter().any(|tool| tool.get("type") == Some(&name.into()));
    body.key(TOOLS).array(|body| {
        conversation.tools.iter().for_each(|tool| function(body, tool));
        for name in options.native_tools.iter().filter(|name| !is_declared(name)) {
            body.object(|tool| tool.key("type").string(name));
        }
        server.iter().for_each(|tool| body.value(tool));
    });
}

fn function(body: &mut Encoder, tool: &Tool) {
    body.object(|body| {
        body.key("type").string("function");
        body.key("name").string(&tool.name);
        if !tool.description.is_empty() {
            body.key("description").string(&tool.description);
        }
        if let Some(parameters) = &tool.parameters {
            body.key("parameters").raw(parameters.view());
        }
    });
}

/// The tool choice. `None` if the model may choose among all tools.
pub(super) fn choice(conversation: &Conversation) -> Option<Value> {
    if conversation.tools.is_empty() {
        return None;
    }
    let allowed = |mode: &str, names: &[String]| json!({"allowed_tools": {"mode": mode, "tools": names}});
    match &conversation.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("any".into()),
        ToolChoice::Named(name) => Some(allowed("any", std::slice::from_ref(name))),
        ToolChoice::Allowed { names, required } => {
            Some(allowed(if *required { "any" } else { "auto" }, names))
        }
    }
}
