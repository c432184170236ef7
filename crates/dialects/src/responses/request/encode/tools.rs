//! Encodes the tools and the tool choice of a request.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{DIALECT, namespaces::Namespaces};
use crate::{
    conversation::{Conversation, Tool, ToolChoice},
    schemas::{for_openai, without_parameters},
    wire::json::{Encoder, Json, Kind as JsonKind},
};

/// Writes the tools and the tool choice. The upstream's own tools that the client requested are forwarded.
pub(super) fn put(
    body: &mut Encoder,
    conversation: &Conversation,
    rest: &Map<String, Value>,
    namespaces: &Namespaces<'_>,
) {
    let own = rest.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_elsewhere = |tool: &&Tool| {
        let is_in_input = conversation.late_tools.contains(&tool.name) && original(tool).is_some();
        is_in_input || namespaces.of(&tool.name).is_some()
    };
    let mut declared = conversation.tools.iter().filter(|tool| !is_elsewhere(tool)).peekable();
    if declared.peek().is_none() && own.is_empty() && !namespaces.are_declared() {
        return;
    }
    let built_in = built_in(conversation);
    body.key("tools").array(|body| {
        declared.for_each(|tool| declaration(body, tool, built_in.contains_key(tool.name.as_str())));
        namespaces.put(body);
        own.iter().for_each(|tool| body.value(tool));
    });
    put_choice(body, conversation, rest.get("tool_choice"), &built_in, namespaces);
    if !conversation.parallel_calls {
        body.key("parallel_tool_calls").value(&false);
    }
}

/// The client's own declaration, if the client speaks this dialect.
fn original(tool: &Tool) -> Option<Json<'_>> {
    Some(tool.declared.as_ref()?.from_dialect(DIALECT)?.view())
}

/// The names of the tools that are sent as custom tools, whose input is plain text.
pub(super) fn customs<'c>(conversation: &'c Conversation, namespaces: &Namespaces<'c>) -> HashSet<&'c str> {
    if conversation.custom_tools.is_empty() {
        return HashSet::new();
    }
    let tools = conversation.tools.iter();
    let is_as_declared = |tool: &Tool| original(tool).is_some() || namespaces.of(&tool.name).is_some();
    let customs = tools.filter(|tool| conversation.is_custom(&tool.name) && is_as_declared(tool));
    customs.map(|tool| tool.name.as_str()).collect()
}

/// The types of the tools that this API defines and that the client declared as such, by the names under which
/// calls refer to them.
pub(super) fn built_in(conversation: &Conversation) -> HashMap<&str, &str> {
    if conversation.built_in.is_empty() {
        return HashMap::new();
    }
    let tools = conversation.tools.iter().filter(|tool| original(tool).is_some());
    let kind = |tool: &Tool| conversation.built_in_kind(&tool.name);
    tools.filter_map(|tool| Some((tool.name.as_str(), kind(tool)?))).collect()
}

fn declaration(body: &mut Encoder, tool: &Tool, is_built_in: bool) {
    if let Some(original) = original(tool) {
        return match mended(tool, original).filter(|_| !is_built_in) {
            Some(mended) => body.value(&mended),
            None => body.raw(original),
        };
    }
    body.object(|body| {
        body.key("type").string("function");
        body.key("name").string(&tool.name);
        if !tool.description.is_empty() {
            body.key("description").string(&tool.description);
        }
        let schema = tool.parameters.as_ref().map(|schema| schema.view());
        match schema.filter(|schema| schema.kind() == JsonKind::Object) {
            Some(schema) => match for_openai(schema) {
                Some(schema) => body.key("parameters").value(&schema),
                None => body.key("parameters").raw(schema),
            },
            None => body.key("parameters").object(|body| {
                body.key("type").string("object");
                body.key("properties").object(|_| {});
            }),
        }
        // The default in this API is `true`.
        body.key("strict").value(&tool.strict.unwrap_or(false));
    });
}

/// The client's declaration with a replaced schema, if OpenAI would reject the client's schema.
fn mended(tool: &Tool, original: Json<'_>) -> Option<Value> {
    let is_function = original.get("type").is_some_and(|kind| kind.as_str().as_deref() == Some("function"));
    let schema = match &tool.parameters {
        Some(schema) => for_openai(schema.view())?,
        None => original.get("parameters").filter(|_| is_function).map(|_| without_parameters())?,
    };
    let mut mended = original.to_value();
    mended.as_object_mut()?.insert("parameters".to_owned(), schema);
    Some(mended)
}

/// Writes the tool choice. `written` is a choice that only clients of this API can express, such as a server
/// tool.
fn put_choice(
    body: &mut Encoder,
    conversation: &Conversation,
    written: Option<&Value>,
    built_in: &HashMap<&str, &str>,
    namespaces: &Namespaces<'_>,
) {
    let customs = customs(conversation, namespaces);
    let reference = |body: &mut Encoder, name: &str| {
        if let Some(kind) = built_in.get(name) {
            return body.object(|body| body.key("type").string(kind));
        }
        let kind = if customs.contains(name) { "custom" } else { "function" };
        body.object(|body| {
            body.key("type").string(kind);
            namespaces.put_name(body, name);
        });
    };
    match &conversation.tool_choice {
        ToolChoice::Auto => {
            if let Some(written) = written {
                body.key("tool_choice").value(written);
            }
        }
        ToolChoice::None => body.key("tool_choice").string("none"),
        ToolChoice::Required => body.key("tool_choice").string("required"),
        ToolChoice::Named(name) => reference(body.key("tool_choice"), name),
        ToolChoice::Allowed { .. }
            if written.is_some() && (conversation.namespaced.is_empty() || namespaces.are_declared()) =>
        {
            body.key("tool_choice").value(&written);
        }
        ToolChoice::Allowed { names, required } => body.key("tool_choice").object(|body| {
            body.key("type").string("allowed_tools");
            body.key("mode").string(if *required { "required" } else { "auto" });
            body.key("tools").array(|body| {
                names.iter().for_each(|name| reference(body, name));
                conversation.server_choice.iter().for_each(|tool| body.value(tool));
            });
        }),
    }
}
