//! Encodes the tools and the tool choice of a request.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};

use super::DIALECT;
use crate::{
    Dialect,
    cache_hints::{self, CACHE_CONTROL},
    conversation::{Conversation, Part, Tool, ToolChoice},
    messages::toolsets,
    schemas::{has_choices, of_object, put_schema},
    wire::json::{Encoder, Json, Kind as JsonKind},
};

/// Writes the tools and the tool choice. Anthropic's own tools that the client requested are forwarded.
pub(super) fn put(
    body: &mut Encoder,
    conversation: &Conversation,
    rest: &Map<String, Value>,
    dropped: &mut Vec<String>,
) {
    let own = rest.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let allowed: Option<HashSet<&String>> = match &conversation.tool_choice {
        ToolChoice::Allowed { names, .. } => Some(names.iter().collect()),
        _ => None,
    };
    let is_allowed = |tool: &&Tool| allowed.as_ref().is_none_or(|names| names.contains(&tool.name));
    let is_in_messages = |tool: &&Tool| {
        conversation.late_tools.contains(&tool.name)
            && tool.declared.as_ref().is_some_and(|declared| declared.from_dialect(DIALECT).is_some())
    };
    let declared = conversation.tools.iter().filter(is_allowed).filter(|tool| !is_in_messages(tool));
    let mut declared: Vec<&Tool> = declared.collect();
    if !conversation.namespaced.is_empty() {
        // The members of a toolset share its declaration.
        let is_member =
            |tool: &Tool| original(tool).is_some() && toolsets::is_member(tool, &conversation.namespaced);
        declared.dedup_by(|tool, before| {
            is_member(tool) && is_member(before) && original(tool) == original(before)
        });
    }
    if declared.is_empty() && own.is_empty() {
        return put_past(body, conversation);
    }
    body.key("tools").array(|body| {
        declared.iter().for_each(|tool| declaration(body, tool, dropped));
        own.iter().for_each(|tool| body.value(tool));
    });
    put_choice(body, conversation);
}

/// Declares the tools of past calls, because the API requires that even in a request without tools. The
/// model cannot call them.
fn put_past(body: &mut Encoder, conversation: &Conversation) {
    let calls = conversation.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Call(call) => Some(call.name.as_str()),
        _ => None,
    });
    let names: BTreeSet<&str> = calls.collect();
    if names.is_empty() {
        return;
    }
    body.key("tools").array(|body| {
        for name in names {
            body.object(|body| {
                body.key("name").string(name);
                put_schema(body.key("input_schema"), None);
            });
        }
    });
    body.key("tool_choice").object(|body| body.key("type").string("none"));
}

/// The client's own declaration, if the client speaks this dialect.
fn original(tool: &Tool) -> Option<&str> {
    Some(tool.declared.as_ref()?.from_dialect(DIALECT)?.view().raw())
}

fn declaration(body: &mut Encoder, tool: &Tool, dropped: &mut Vec<String>) {
    if let Some(declared) = tool.declared.as_ref().and_then(|declared| declared.from_dialect(DIALECT)) {
        let mended = mended(declared.view());
        return match mended {
            Some(mended) => {
                dropped.push("tools[].input_schema".to_owned());
                body.value(&mended);
            }
            None => body.raw(declared.view()),
        };
    }
    if tool.strict == Some(true) {
        // `strict` accepts fewer schemas in this API than in OpenAI's.
        dropped.push("tools[].strict".to_owned());
    }
    body.object(|body| {
        body.key("name").string(&tool.name);
        if !tool.description.is_empty() {
            body.key("description").string(&tool.description);
        }
        if let Some(hint) = cache_hints::of_tool(tool, Dialect::Chat.name()) {
            body.key(CACHE_CONTROL).value(&hint);
        }
        let schema = tool.parameters.as_ref().map(|schema| schema.view());
        if let Some(schema) = schema.filter(|schema| has_choices(*schema)) {
            // The API rejects alternatives for the arguments as a whole.
            dropped.push("tools[].parameters".to_owned());
            return body.key("input_schema").value(&of_object(&schema.to_value()));
        }
        put_schema(body.key("input_schema"), schema.filter(|schema| schema.kind() == JsonKind::Object));
    });
}

/// The client's declaration with a replaced schema, if the API would reject the client's schema.
fn mended(declared: Json<'_>) -> Option<Value> {
    let schema = declared.get("input_schema").filter(|schema| schema.kind() == JsonKind::Object)?;
    let is_object = schema.get("type").is_some_and(|kind| kind.as_str().as_deref() == Some("object"));
    if is_object && !has_choices(schema) {
        return None;
    }
    let mut mended = declared.to_value();
    mended.as_object_mut()?.insert("input_schema".to_owned(), of_object(&schema.to_value()));
    Some(mended)
}

fn put_choice(body: &mut Encoder, conversation: &Conversation) {
    let (kind, name) = match &conversation.tool_choice {
        ToolChoice::Auto | ToolChoice::Allowed { required: false, .. } => ("auto", None),
        ToolChoice::Required | ToolChoice::Allowed { required: true, .. } => ("any", None),
        ToolChoice::Named(name) => ("tool", Some(name)),
        ToolChoice::None => ("none", None),
    };
    let only_one = !conversation.parallel_calls && kind != "none";
    if kind == "auto" && !only_one {
        return;
    }
    body.key("tool_choice").object(|body| {
        body.key("type").string(kind);
        if let Some(name) = name {
            body.key("name").string(name);
        }
        if only_one {
            body.key("disable_parallel_tool_use").value(&true);
        }
    });
}
