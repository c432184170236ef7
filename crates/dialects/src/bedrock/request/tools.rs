//! Writes the tools and the tool choice of a request.

use std::collections::BTreeSet;

use super::turns::put_cache_point;
use crate::{
    Dialect,
    cache_hints::{self, CACHE_CONTROL},
    conversation::{Conversation, Part, Tool, ToolChoice},
    schemas::{has_choices, of_object, put_schema},
    wire::json::{Encoder, Kind as JsonKind},
};

/// Writes the tools that may be called.
pub(super) fn put(body: &mut Encoder, conversation: &Conversation, caches: bool, dropped: &mut Vec<String>) {
    let choice = &conversation.tool_choice;
    // The API has no choice `none`: tools are left out, unless past calls need them.
    let tools: Vec<&Tool> = match choice {
        // Other tools stay declared, so that the prompt stays the same.
        ToolChoice::Named(_) => conversation.tools.iter().collect(),
        _ => conversation.callable_tools().collect(),
    };
    if tools.is_empty() {
        return put_past(body, conversation, dropped);
    }
    body.key("toolConfig").object(|body| {
        body.key("tools").array(|body| {
            for tool in tools {
                declaration(body, tool, dropped);
                let hint = [Dialect::Messages, Dialect::Chat]
                    .iter()
                    .find_map(|dialect| cache_hints::of_tool(tool, dialect.name()));
                match hint {
                    Some(hint) if caches => put_cache_point(body, &hint),
                    Some(_) => dropped.push(CACHE_CONTROL.to_owned()),
                    None => {}
                }
            }
        });
        put_choice(body, choice);
    });
}

/// Declares the tools of past calls, because the API requires that even in a request without tools.
fn put_past(body: &mut Encoder, conversation: &Conversation, dropped: &mut Vec<String>) {
    let calls = conversation.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Call(call) => Some(call.name.as_str()),
        _ => None,
    });
    let names: BTreeSet<&str> = calls.collect();
    if names.is_empty() {
        return;
    }
    if conversation.tool_choice == ToolChoice::None {
        dropped.push("tool_choice".to_owned());
    }
    body.key("toolConfig").object(|body| {
        body.key("tools").array(|body| {
            for name in names {
                put_tool(body, name, "", |body| put_schema(body, None));
            }
        });
    });
}

fn declaration(body: &mut Encoder, tool: &Tool, dropped: &mut Vec<String>) {
    let schema = tool.parameters.as_ref().map(|schema| schema.view());
    put_tool(body, &tool.name, &tool.description, |body| match schema {
        // Models reject alternatives for the arguments as a whole.
        Some(schema) if has_choices(schema) => {
            dropped.push("tools[].parameters".to_owned());
            body.value(&of_object(&schema.to_value()));
        }
        schema => put_schema(body, schema.filter(|schema| schema.kind() == JsonKind::Object)),
    });
}

fn put_tool(body: &mut Encoder, name: &str, description: &str, schema: impl FnOnce(&mut Encoder)) {
    body.object(|body| {
        body.key("toolSpec").object(|body| {
            body.key("name").string(name);
            if !description.trim().is_empty() {
                body.key("description").string(description);
            }
            body.key("inputSchema").object(|body| schema(body.key("json")));
        });
    });
}

fn put_choice(body: &mut Encoder, choice: &ToolChoice) {
    let (kind, name) = match choice {
        ToolChoice::Auto | ToolChoice::Allowed { required: false, .. } | ToolChoice::None => return,
        ToolChoice::Required | ToolChoice::Allowed { required: true, .. } => ("any", None),
        ToolChoice::Named(name) => ("tool", Some(name)),
    };
    body.key("toolChoice").object(|body| {
        body.key(kind).object(|body| {
            if let Some(name) = name {
                body.key("name").string(name);
            }
        });
    });
}
