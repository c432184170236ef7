//! Writes the `tools` of a v2 request: a single list with Lumo's own tools by name and the client's tools as
//! functions (docs/protocols/lumo.md#v2-request).

use crate::{
    conversation::{Conversation, Tool, ToolChoice},
    wire::json::{Encoder, Raw},
};

/// The JSON Schema draft that Lumo's own client adds to schemas that do not name one.
const SCHEMA: &str = "https://json-schema.org/draft/2020-12/schema";

/// Writes the tools of `conversation` and the tool choice, if there are any tools.
///
/// Server tools come first. A client tool replaces the server tool of the same name. If the client requires a
/// call, server tools are left out, since Lumo might otherwise call one of them: a request cannot say which
/// tool is required.
pub(super) fn put(
    body: &mut Encoder,
    conversation: &Conversation,
    server_tools: &[String],
    dropped: &mut Vec<String>,
) {
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
    let mut server = server_tools.iter().filter(|name| choice != "required" && !declared(name)).peekable();
    let mut client = conversation.callable_tools().peekable();
    if server.peek().is_none() && client.peek().is_none() {
        return;
    }
    body.key("tools").array(|body| {
        server.for_each(|name| body.object(|body| body.key("name").string(name)));
        client.for_each(|tool| function(body, tool));
    });
    body.key("tool_choice").string(choice);
}

/// Writes a client tool, with the defaults that Lumo's own client adds.
fn function(body: &mut Encoder, tool: &Tool) {
    body.object(|body| {
        body.key("type").string("function");
        body.key("function").object(|body| {
            body.key("name").string(&tool.name);
            body.key("description").string(&tool.description);
            body.key("parameters").object(|body| parameters(body, tool));
        });
    });
}

fn parameters(body: &mut Encoder, tool: &Tool) {
    let schema = tool.parameters.as_ref().map(Raw::view);
    let mut missing = [Some("type"), Some("properties"), Some("$schema")];
    for (key, value) in schema.iter().flat_map(|schema| schema.members()) {
        missing.iter_mut().filter(|one| **one == Some(&*key)).for_each(|one| *one = None);
        body.key(&key).raw(value);
    }
    for key in missing.into_iter().flatten() {
        match key {
            "type" => body.key(key).string("object"),
            "properties" => body.key(key).object(|_| {}),
            _ => body.key(key).string(SCHEMA),
        }
    }
}
